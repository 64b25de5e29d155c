/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who points to whom. The nodes are the blocks, then the holders: what is not a block and has pointers,
 * such as a variable or the stack of a function. Every aligned word of theirs that is an address in a
 * block counts as a pointer.
 *
 *	node	0 ... blocks - 1 | blocks ... nodes - 1
 *	from	the first edge of each node
 *	to	the blocks that they lead to; HEAP_INSIDE: not to the start
 */
#ifndef MAYFLY_HEAP_EDGES_H
#define MAYFLY_HEAP_EDGES_H

#include "heap/heap_layouts.h"
#include "heap/heap_waste.h"
#include "heap/python_objects.h"

#define HEAP_INSIDE	  (1u << 31)
#define HEAP_HOLDERS_MOST (1u << 26)
#define HEAP_TYPES_MOST	  65535u
#define HEAP_RANKS	  64u

/* Memory of a holder. */
struct heap_root {
	uint64_t start, end;
	uint32_t holder;
};

/* A word of a holder that is in no memory: of a register. */
struct heap_value {
	uint64_t value;
	uint32_t holder;
};

/* A block whose first word is an address in here is of this type: a table of virtual functions. */
struct heap_type {
	uint64_t start, end;
};

struct heap_question {
	const struct heap_root *root; /* in order of holders, then of addresses */
	size_t roots;
	const struct heap_value *value; /* in order of holders */
	size_t values;
	/* A number for each holder, below HEAP_RANKS: what a holder of a lower rank reaches is not counted as its. So
	 * a variable counts before a stack that points to the same, and a function before those that it
	 * calls. */
	const uint8_t *rank;
	uint32_t holders;
	const struct heap_type *type; /* in order of addresses, none overlaps another */
	size_t types;
	struct heap_layouts *layouts; /* what debug information declares; NULL: nothing is known */
	const struct python_interpreter *python; /* NULL: there is none */
	size_t
	    waste_contents; /* waste is looked for, with at most so many contents; 0: it is not */
	bool waste_texts;   /* those that several blocks have are wanted */
	/* Called now and then with the share that is done; false: give up. May be NULL. */
	bool (*progress)(void *context, double share);
	/* Called when the memory is not needed any more. May be NULL. */
	void (*read_all)(void *context);
	void *context;
};

struct heap_edges {
	size_t blocks, nodes;
	uint32_t *from; /* nodes + 1 */
	uint32_t *to;
	size_t count, capacity;
	uint16_t *type; /* of each block: 1 + a place in used[]; 0: not known */
	/* Places in heap_question.type; behind these, in python_objects.type; behind these, twice a place in
	 * heap_layouts.layout, and 1 more for an array of it. */
	uint32_t *used;
	size_t types;
	uint64_t words; /* looked at */
};

/* waste: found on the way, if the question has waste_contents. */
bool heap_edges_find(const struct heap_image *image, const struct heap_blocks *b,
		     const struct heap_question *q, const struct python_objects *python,
		     struct heap_edges *e, struct heap_waste *waste, struct heap_problem *problem);
void heap_edges_free(struct heap_edges *e);

#endif
