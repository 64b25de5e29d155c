/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dominators: a node's dominator is the last one that every way from a holder to it passes, so that it
 * would be freed with it. What a node retains is all that it dominates.
 *
 * By the algorithm of Lengauer and Tarjan, in its simple form: m log n steps for m edges, whatever the
 * heap looks like. The numbers are those of heap_reach, so parents come before children.
 */
#ifndef MAYFLY_HEAP_OWNERS_H
#define MAYFLY_HEAP_OWNERS_H

#include "heap/heap_reach.h"

struct heap_owners {
	size_t count;
	uint32_t *dominator; /* of each number; 0 for the root and for what it dominates directly */
	/* Who else points to a number: edges that are not its parent's, within its rank. */
	uint32_t *from; /* count + 1 */
	uint32_t *source;
};

/* Frees e->from and e->to as soon as it can. */
bool heap_owners_find(struct heap_edges *e, const struct heap_reach *r, struct heap_owners *o,
		      struct heap_problem *problem);
void heap_owners_free(struct heap_owners *o);

#endif
