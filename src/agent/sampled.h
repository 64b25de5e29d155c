/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sampled mode: the few blocks that the sampler draws become records, and are followed until they
 * are freed.
 */
#ifndef MAYFLY_SAMPLED_H
#define MAYFLY_SAMPLED_H

#include "agent/path.h"
#include "agent/real.h"
#include "agent/unwind/walk.h"

/* Called by the hooks as tail calls: the caller's frame is the program's. */
#define SAMPLED_ALLOCATION(name, parameters, arguments, bytes)                                     \
	HIDDEN void *sampled_##name parameters;
REAL_ALLOCATIONS(SAMPLED_ALLOCATION)
#undef SAMPLED_ALLOCATION
HIDDEN int sampled_posix_memalign(void **out, size_t alignment, size_t size);
HIDDEN void *sampled_realloc(void *block, size_t size);
HIDDEN void sampled_free(void *block);

/* A block that the countdown did not cover; flags: SPOOL_FLAG_... and the bits of its heap; label:
 * that of its pool, or 0. In exact mode only the first allocation of all comes here. */
void sampled_block(void *block, size_t size, const struct walk_start *at, uint32_t flags,
		   uint32_t label);

/* The same for a block, or NULL, that move() puts into malloc's memory if it is recorded. That returns its
 * new place, or NULL: there is no memory, and the block stays. Returns the block. Records nothing in exact mode. */
void *sampled_moving(void *block, size_t size, const struct walk_start *at, uint32_t flags,
		     void *(*move)(void *block, size_t size));

/* Before and after one of the allocator's own functions (entries.h) resizes a block. */
void sampled_resize_begin(struct resize *resize, void *block);
void sampled_resize_end(const struct resize *resize, void *result, size_t size,
			const struct walk_start *at);

/* A block that may be a live sample is about to be freed. */
void sampled_free_block(void *block);

#endif
