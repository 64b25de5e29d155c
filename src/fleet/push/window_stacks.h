/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stacks of a trace as rows of a fleet's tables, whose numbers are hashes of what they are:
 *
 *	node of the tree ──> its frames, leaf first ──> their places ──> stack
 *	                     each is hashed once                         equal places: one stack
 */
#ifndef MAYFLY_WINDOW_STACKS_H
#define MAYFLY_WINDOW_STACKS_H

#include <mayfly/trace.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/interner.h"

/* The numbers of rows are such hashes. */
static inline uint64_t window_hash(uint64_t hash, uint64_t more)
{
	return hash_mix(hash ^ more) * 0x9e3779b97f4a7c15u + 1;
}

struct window_stacks {
	const struct mayfly_trace *trace;
	size_t nodes, frames;
	struct interner ids; /* of stacks: hashes of their places; the database's numbers */
	uint32_t *node;	     /* by number of the stack: one that has it */
	size_t node_room;
	uint32_t *of_node; /* number of the stack + 1, or 0: not asked for yet */
	/* Where the places of each frame of the trace begin in `place`, + 1; 0: not looked at yet. */
	uint32_t *of_frame;
	uint64_t *place; /* their number, then their hashes, innermost first */
	size_t places, place_room;
	uint64_t *path; /* of one stack */
	size_t path_room;
};

/* False: out of memory; call window_stacks_end() in both cases. */
bool window_stacks_begin(struct window_stacks *s, const struct mayfly_trace *trace);
void window_stacks_end(struct window_stacks *s);

/* The number of a node's stack, from 0 in order of first appearance. INTERNER_NONE: no memory. */
uint32_t window_stacks_number(struct window_stacks *s, uint32_t node);

static inline uint64_t window_stacks_id(const struct window_stacks *s, uint32_t number)
{
	return s->ids.key[number].word[0];
}

/* Adds a stack's row, and those of its frames that are not in `named` yet. */
bool window_stacks_put(struct window_stacks *s, uint32_t number, struct interner *named,
		       struct bytes *stacks, struct bytes *frames);

#endif
