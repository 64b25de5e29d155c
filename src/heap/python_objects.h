/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Python's objects among the blocks, and who holds them by name. What counts as a pointer in an object:
 *
 *	block	| dictionary, weak references | collector's list | references | type | members ... |
 *		  the first two words of some   no pointers		      none
 *		pointers to an object lead here -------------------^
 *
 * A class or a module leads to all that is in its dictionary, and each object to its class, so that everything
 * would hold everything. So tables of these dictionaries hold nothing; each name in them is a holder of its own:
 * "__main__.CACHE", "shop.Order.known".
 *
 * What an object has not used yet of its block, or of a list's array, may have pointers of those that were there
 * before, and counts for nothing. Neither do bytes of texts, numbers and buffers.
 *
 * Tables of dictionaries and sets, arrays of lists and dictionaries within instances have the type of what
 * they belong to.
 */
#ifndef MAYFLY_PYTHON_OBJECTS_H
#define MAYFLY_PYTHON_OBJECTS_H

#include "heap/python_types.h"

/* Ranks of their holders; those of others come after these. */
enum python_rank {
	PYTHON_RANK_NAMESPACE, /* a module or a class, without what its names stand for */
	PYTHON_RANK_NAME,
	PYTHON_RANK_LOCAL, /* a local variable of a function that runs */
	PYTHON_RANKS,
};

struct python_holder {
	uint32_t name;
	enum python_rank rank;
};

/* An object that a holder points to. */
struct python_value {
	uint64_t value;
	uint32_t holder;
};

struct python_objects {
	struct python_reader reader;
	struct python_types types;
	uint16_t *type;	 /* of each block: 1 + a type; 0: not known */
	uint8_t *state;	 /* of each block: PYTHON_IS_... */
	uint32_t *words; /* of each block: pointers are in its first so many words */
	size_t blocks;
	struct python_holder *holder;
	size_t holders, holder_capacity;
	struct python_value *value; /* in order of holders */
	size_t values, value_capacity;
};

#define PYTHON_IS_OBJECT    1u
#define PYTHON_IS_NAMESPACE 2u /* the dictionary of a module or a class, or its table */
#define PYTHON_IS_NAMED	    4u /* a dictionary whose names have holders */

/* The blocks must outlive the objects. Without an interpreter there are none. */
bool python_objects_find(struct python_objects *o, const struct heap_image *image,
			 const struct heap_blocks *b, const struct python_interpreter *python,
			 struct heap_problem *problem);
/* What is needed only as long as the memory can be read. */
void python_objects_read_all(struct python_objects *o);
void python_objects_free(struct python_objects *o);

/* Whether a pointer to so many bytes behind the begin of a block is one to what the block is; *inside: not to its
 * start. */
bool python_objects_points(const struct python_objects *o, uint32_t block, uint64_t offset,
			   bool *inside);

struct python_part {
	uint64_t start, end; /* from the begin of the block */
};

/* The parts of a block in which pointers may be; returns their number. */
#define PYTHON_PARTS 8u
unsigned int python_objects_parts(const struct python_objects *o, uint32_t block, uint64_t bytes,
				  struct python_part *part);

#endif
