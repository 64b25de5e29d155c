/* SPDX-License-Identifier: Apache-2.0 */
/* What several holders hold together: none of them alone retains it. */
#ifndef MAYFLY_HEAP_SHARED_H
#define MAYFLY_HEAP_SHARED_H

#include "heap/heap_graph.h"

#define HEAP_SHARERS_MOST 63u /* holders that are told apart: those that share most */

struct heap_group {
	uint64_t holders; /* a bit for each of heap_shared.sharer; the highest: any other holder */
	uint64_t bytes, blocks;
};

struct heap_shared {
	uint32_t sharer[HEAP_SHARERS_MOST]; /* holders */
	unsigned int sharers;
	struct heap_group *group; /* the largest first */
	size_t groups;
	/* The numbers that the root dominates and that are blocks, in rising order; and the group of each. */
	uint32_t *shared, *group_of;
	size_t count;
};

#define HEAP_OTHER_SHARERS (1ull << 63)

bool heap_shared_find(const struct heap_graph *g, struct heap_shared *s);
void heap_shared_free(struct heap_shared *s);

/* The group of such a number; HEAP_NONE: it is none. */
uint32_t heap_shared_group(const struct heap_shared *s, uint32_t number);

#endif
