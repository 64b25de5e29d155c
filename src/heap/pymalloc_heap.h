/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The blocks of Python's own allocator for up to 512 bytes (CPython 3.11 to 3.13, not free-threaded; arena_object
 * and pool_header in Objects/obmalloc.c, since 3.12 in Include/internal/pycore_obmalloc.h):
 *
 *	arenas	array of arena_object in a block of malloc, of 16, 32, 64 ... entries
 *		+0 address   +8 pool_address: begin of pools never used   +16 nfreepools   +20 ntotalpools
 *	arena	1 MiB of mapped memory: pools of 16 KiB, at multiples of their size
 *	pool	+0 count of used blocks   +8 list of free ones   +32 place in arenas   +36 size class
 *		+40 offset of blocks never used   +48 blocks of 16, 32 ... 512 bytes
 *
 * No symbol leads there in a stripped interpreter, so that the arrays are known by what they look like: all
 * entries must be right, and so must each pool that they lead to. Sub-interpreters have arrays of their own.
 */
#ifndef MAYFLY_PYMALLOC_HEAP_H
#define MAYFLY_PYMALLOC_HEAP_H

#include "heap/heap_blocks.h"

#define PYMALLOC_CLASSES 32u /* of 16, 32 ... bytes */

struct pymalloc_sums {
	uint64_t arenas, arena_bytes;
	uint64_t used[PYMALLOC_CLASSES]; /* blocks */
	uint64_t blocks, bytes;		 /* used, of all classes */
	uint64_t free_bytes;		 /* blocks that were used before */
	uint64_t damaged; /* pools whose list leads elsewhere: all blocks count as used */
};

/* Adds the blocks to `b`, which has an index, and the arenas to the ranges. Without arenas it changes nothing. */
bool pymalloc_heap_walk(const struct heap_image *image, struct heap_blocks *b,
			struct pymalloc_sums *sums, struct heap_ranges *ranges,
			struct heap_problem *problem);

#endif
