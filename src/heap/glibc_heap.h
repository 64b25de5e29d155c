/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The blocks of glibc's malloc (2.31 to 2.41), by a walk over its chunks:
 *
 *	main arena	from the begin of the program's break to the chunk `top`
 *	further arenas	heaps at multiples of 64 MiB: heap_info, in the first one malloc_state, chunks
 *	mapped		large blocks with mappings of their own
 *
 *	chunk:	+0 size of the chunk before, if that is free   +8 size | flags   +16 what the program has
 *
 * A chunk is free when the next one says so. Those in thread caches (tcache) and fastbins look as if
 * they were used; their lists are walked. Everything is checked: a chunk must end where the next one
 * begins, a free one must be the size that the next says, and each arena must end at its top.
 */
#ifndef MAYFLY_GLIBC_HEAP_H
#define MAYFLY_GLIBC_HEAP_H

#include "heap/heap_blocks.h"

struct glibc_sums {
	uint64_t chunk_bytes;  /* of blocks in arenas, with their heads */
	uint64_t mapped_bytes; /* of mappings of single blocks */
	uint64_t mapped;       /* their number */
	uint64_t cached_bytes; /* free, in thread caches and fastbins, with their heads */
	uint64_t cached;
	uint64_t free_bytes; /* free otherwise, and the tops */
	uint64_t head_bytes; /* what malloc keeps of further arenas, in front of their chunks */
	uint64_t arenas;
	/* What malloc's own counter says of mapped blocks less what was found; 0: all were found. */
	int64_t mapped_missing;
};

/* version: 236 for 2.36; 0: not known. The caller frees ranges->range. */
bool glibc_heap_walk(const struct heap_image *image, unsigned int version, struct heap_blocks *b,
		     struct glibc_sums *sums, struct heap_ranges *ranges,
		     struct heap_problem *problem);

#endif
