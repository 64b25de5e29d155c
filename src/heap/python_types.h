/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Types of Python's objects: what the second word of an object points to. A type is believed when its own
 * type is one, up to `type`, and its flags and its size are possible.
 *
 *	object	in front: 16 bytes for the collector, if the type has that flag; 16 more for its dictionary
 *		and its weak references, if the type has these   +0 count of references   +8 type
 */
#ifndef MAYFLY_PYTHON_TYPES_H
#define MAYFLY_PYTHON_TYPES_H

#include "base/interner.h"
#include "heap/heap_blocks.h"
#include "heap/python_read.h"

enum python_what {
	PYTHON_OTHER,
	PYTHON_DICT,
	PYTHON_LIST,
	PYTHON_SET,
	PYTHON_WEAKREF,
	PYTHON_MODULE,
	PYTHON_CLASS,
	PYTHON_CODE,
	PYTHON_TUPLE,
	PYTHON_DEQUE,
	PYTHON_BUFFERED, /* has bytes in blocks of their own */
	PYTHON_TEXT,
	PYTHON_BYTES, /* and whatever else has no pointers */
};

struct python_type {
	uint64_t at, object_bytes;
	uint32_t name;	    /* in python_types.name */
	uint32_t head;	    /* bytes in front of each object */
	uint32_t bytes;	    /* with the head, of each object; 0: they differ */
	uint32_t weak_list; /* from the begin of the block; HEAP_NONE: none */
	enum python_what what;
	bool made; /* by a program, not by C */
};

struct python_types {
	const struct heap_blocks *blocks;
	struct python_reader *reader;
	struct python_type *type;
	size_t count, capacity;
	struct interner seen; /* addresses */
	uint32_t *type_of;    /* of each that was seen; HEAP_NONE: it is no type */
	size_t seen_capacity;
	char **name; /* of types and of whatever has one */
	size_t names, name_capacity;
	struct interner name_numbers; /* hashes and lengths */
	bool out_of_memory;
};

/* The type at an address; HEAP_NONE: there is none. */
uint32_t python_types_find(struct python_types *t, uint64_t at);
/* That of the object in a block which begins with these bytes. */
uint32_t python_types_of(struct python_types *t, const uint8_t *block, uint64_t bytes);
void python_types_free(struct python_types *t);

/* The number of a name, with a copy of it; HEAP_NONE: out of memory. */
uint32_t python_types_add_name(struct python_types *t, const char *text);

#endif
