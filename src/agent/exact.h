/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exact mode: every allocation and every free becomes a record, blocks are named by address.
 *
 * The hooks jump here when agent_exact is set. Nothing is looked up, no lock is taken, and only
 * the thread's own memory is used, except for a new packet after about two thousand records.
 */
#ifndef MAYFLY_EXACT_H
#define MAYFLY_EXACT_H

#include "agent/path.h"
#include "agent/real.h"
#include "agent/unwind/walk.h"

/* Called by the hooks as tail calls: the caller's frame is the program's. */
#define EXACT_ALLOCATION(name, parameters, arguments, bytes) HIDDEN void *exact_##name parameters;
REAL_ALLOCATIONS(EXACT_ALLOCATION)
#undef EXACT_ALLOCATION
HIDDEN int exact_posix_memalign(void **out, size_t alignment, size_t size);
HIDDEN void *exact_realloc(void *block, size_t size);
HIDDEN void exact_free(void *block);

/* A block of one of the allocator's own functions (entries.h): it has been allocated; it is about to
 * be freed, or to be resized. */
void exact_block(void *block, size_t size, const struct walk_start *at, uint32_t flags);
void exact_free_block(void *block);
void exact_resize_begin(struct resize *resize, void *block);
void exact_resize_end(const struct resize *resize, void *result, size_t size,
		      const struct walk_start *at);

/* A block of a pool; its address has SPOOL_ADDRESS_... set; label: the pool's, or 0. */
void exact_pool_alloc(void *block, size_t size, const struct walk_start *at, uint32_t label);
void exact_pool_free(void *block);

/* Records the first allocation of the process, with which the agent starts and learns the mode. The
 * block has been allocated. */
void exact_allocated(void *block, size_t size, const struct walk_start *at, uint32_t flags);

#endif
