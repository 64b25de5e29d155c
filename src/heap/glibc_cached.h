/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks that are free though they look used: in the caches of threads (tcache) and in fastbins. A cache
 * is a block itself, of 640 bytes: 64 counts of two bytes, 64 lists. Any block of that size which holds
 * such lists, each of chunks of the right size, is taken for one.
 *
 * Since 2.32, the pointers in these lists are mixed with the address that they stand at.
 */
#ifndef MAYFLY_GLIBC_CACHED_H
#define MAYFLY_GLIBC_CACHED_H

#include "heap/glibc_pieces.h"
#include "heap/heap_blocks.h"

#define GLIBC_TCACHE_CHUNK 0x290u

struct glibc_cached {
	unsigned int version; /* as glibc_heap_walk() */
	uint64_t *candidate;
	size_t candidates, capacity;
	uint64_t count, bytes; /* dropped, with their heads */
};

bool glibc_cached_add(struct glibc_cached *c, uint64_t block, struct heap_problem *problem);
/* Drops them from the blocks, which have an index, and makes it again. */
bool glibc_cached_drop(struct glibc_cached *c, struct heap_window *w, const struct glibc_pieces *p,
		       struct heap_blocks *b, struct heap_problem *problem);
void glibc_cached_free(struct glibc_cached *c);

#endif
