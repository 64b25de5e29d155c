/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What blocks are: of a type that their first word tells, else of a size. And by which kinds a holder
 * holds what it retains:
 *
 *	g_sessions -> 1 block of 8 MiB -> 48-byte blocks -> Session -> 200-byte blocks
 *
 * Each stage has the blocks that those of the stage before dominate; blocks of one kind that hang on each
 * other, as a list does, are one stage.
 */
#ifndef MAYFLY_HEAP_KINDS_H
#define MAYFLY_HEAP_KINDS_H

#include "heap/heap_graph.h"

#define HEAP_STAGES	5u
#define HEAP_EXACT_MOST 4096u /* sizes above that are rounded up to a power of two */

struct heap_kind {
	uint32_t type;	/* 1 + a place in heap_question.type; 0: not known, and then: */
	uint64_t bytes; /* of a block */
};

struct heap_stage {
	struct heap_kind kind; /* that has most bytes in this stage */
	struct heap_total kinds, stage;
};

struct heap_kind_sum {
	struct heap_kind kind;
	struct heap_total own, lost;
	struct heap_waste_sum waste;
	uint32_t top; /* a number that holds most of them */
	uint64_t top_bytes;
};

struct heap_kinds {
	struct heap_kind_sum *sum; /* the largest first */
	size_t count;
};

bool heap_kinds_find(const struct heap_graph *g, struct heap_kinds *k);
void heap_kinds_free(struct heap_kinds *k);

/* The stages below each of `wanted` numbers: stage[i * HEAP_STAGES ...]; a stage without blocks is the end.
 * slot_of: which of them a top belongs to, or HEAP_NONE. */
bool heap_stages_find(const struct heap_graph *g, uint32_t (*slot_of)(void *context, uint32_t top),
		      void *context, size_t wanted, struct heap_stage *stage);

#endif
