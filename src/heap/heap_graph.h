/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The picture of a heap: from the image of a process and its holders to who holds how much.
 *
 *	image --glibc_heap_walk--> blocks --heap_edges--> pointers --heap_reach--> ranks
 *	      --pymalloc_heap_walk--> blocks of Python's arenas
 *	      --heap_owners--> dominators --> what each retains
 *	      blocks --heap_waste--> what their contents waste, found on the way
 *
 * About 46 bytes a block, the index of the blocks, and eight bytes for each pointer beyond the first to a
 * block; 5 more for waste.
 */
#ifndef MAYFLY_HEAP_GRAPH_H
#define MAYFLY_HEAP_GRAPH_H

#include "heap/glibc_heap.h"
#include "heap/heap_owners.h"
#include "heap/heap_waste.h"
#include "heap/pymalloc_heap.h"

struct heap_total {
	uint64_t bytes, blocks;
};

struct heap_graph {
	struct heap_blocks blocks;
	struct glibc_sums sums;
	struct pymalloc_sums python; /* if the question has an interpreter */
	struct heap_edges edges;     /* only its types and counts */
	struct heap_reach reach;
	struct heap_owners owners;
	struct python_objects objects; /* only its types and its holders */
	struct heap_waste waste;       /* if the question has waste_contents */
	/* For each number, with its own; blocks without the holder. */
	uint64_t *retained;
	uint32_t *retained_blocks;
	uint32_t *top; /* for each number: the one of its dominators that the root dominates */
	struct heap_total all, lost_directly, lost_indirectly;
	uint64_t words, pointers;
};

/* version: as glibc_heap_walk(). The question must outlive the call only. */
bool heap_graph_make(const struct heap_image *image, unsigned int version,
		     const struct heap_question *q, struct heap_graph *g,
		     struct heap_problem *problem);
void heap_graph_free(struct heap_graph *g);

/* Adds what is wasted below each of several tops to sum[]. slot_of: which of them a top is, or HEAP_NONE. */
void heap_graph_waste(const struct heap_graph *g, uint32_t (*slot_of)(void *context, uint32_t top),
		      void *context, struct heap_waste_sum *sum);

/* Python's holders come behind those of the question, and what is lost behind these. */
static inline uint32_t heap_graph_holders(const struct heap_graph *g)
{
	return (uint32_t)(g->edges.nodes - g->edges.blocks);
}

/* The number of a holder; of what is lost: of holder heap_graph_holders(). 0: it reaches nothing. */
static inline uint32_t heap_graph_holder(const struct heap_graph *g, uint32_t holder)
{
	return g->reach.number[g->edges.blocks + holder];
}

/* The holder that a number stands for; HEAP_NONE: it is a block's. */
static inline uint32_t heap_graph_holder_of(const struct heap_graph *g, uint32_t number)
{
	uint32_t node = g->reach.node[number];

	return node != HEAP_NONE && node >= g->edges.blocks ? node - (uint32_t)g->edges.blocks
							    : HEAP_NONE;
}

#endif
