/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Types as debug information declares them: where pointers are in them, and to what. Whoever can read it
 * fills the table in, when it is needed; all that it says is hostile.
 *
 *	variable  g_table, at an address, of the type "session **"
 *	layout    "session **", 8 bytes	   slot: +0 to "session *", one or more
 *		  "session *", 8 bytes	   slot: +0 to "session", one or more
 *		  "session", 40 bytes	   slots: +8 to "session", +16 to "buffer"
 */
#ifndef MAYFLY_HEAP_LAYOUTS_H
#define MAYFLY_HEAP_LAYOUTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HEAP_LAYOUTS_MOST (1u << 20)
#define HEAP_TO_THE_END	  UINT64_MAX

enum heap_slot_to {
	HEAP_TO_SOME,  /* one or an array: the size of the block tells */
	HEAP_TO_ONE,   /* at the start of a block */
	HEAP_TO_ARRAY, /* one is an array, too */
	HEAP_TO_BYTES, /* characters, or whatever a better pointer says */
};

/* Pointers in a type: `count` of them, `stride` bytes from each to the next, at least 8. */
struct heap_slot {
	uint64_t offset, stride, count; /* HEAP_TO_THE_END: as many as the block has room for */
	uint32_t layout;
	enum heap_slot_to to;
};

struct heap_layout {
	uint64_t bytes; /* 0: not known */
	struct heap_slot *slot;
	size_t slots;
	bool complete; /* slots are known */
	bool open_end; /* its last member takes the rest of a block, which is no array of it then */
};

struct heap_variable {
	uint64_t address;
	uint32_t layout;
};

struct heap_layouts {
	struct heap_layout *layout;
	size_t count, capacity;
	struct heap_variable *variable;
	size_t variables, variable_capacity;
	/* Fills variable[] in. points: of each holder of the question, whether it points to any block. May be NULL.
	 * False: out of memory. */
	bool (*find)(struct heap_layouts *l, const uint8_t *points, uint32_t holders);
	/* Fills in the slots of a layout, which may add others at the end. May be NULL. False: out of memory. */
	bool (*complete)(struct heap_layouts *l, uint32_t layout);
	void *context;
};

#endif
