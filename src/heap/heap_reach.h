/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is reached from where, rank by rank: first from holders that last (variables and the like), then
 * what only stacks reach, and so on; at last what nothing reaches: lost blocks. A block's rank is that of
 * the first that reaches it. An edge to a block of another rank is left out of all sums.
 *
 * Lost blocks hang below those that are lost directly. A block is lost directly when nothing points to
 * it; so is one block of a circle that nothing else points to.
 *
 *	number	of each node, in the order of a walk in depth; 0: the root of all
 *	parent	of each number, in that walk
 */
#ifndef MAYFLY_HEAP_REACH_H
#define MAYFLY_HEAP_REACH_H

#include "heap/heap_edges.h"

struct heap_reach {
	size_t count;	  /* of numbers, with the root's */
	uint32_t *number; /* of each node, and of the one after them: the holder of what is lost */
	uint32_t *node;	  /* of each number; HEAP_NONE for the root */
	uint32_t *parent; /* of each number */
	uint32_t end[HEAP_RANKS]; /* where the numbers of each rank end */
	uint32_t lost;		  /* the first number of what is lost: the holder's */
};

static inline bool heap_reach_same_rank(const struct heap_reach *r, uint32_t a, uint32_t b)
{
	unsigned int rank = 0;

	if (a >= r->lost || b >= r->lost)
		return a >= r->lost && b >= r->lost;
	while (a >= r->end[rank])
		rank++;
	return b < r->end[rank] && (!rank || b >= r->end[rank - 1]);
}

bool heap_reach_find(const struct heap_edges *e, const struct heap_question *q,
		     struct heap_reach *r, struct heap_problem *problem);
void heap_reach_free(struct heap_reach *r);

#endif
