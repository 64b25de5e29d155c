/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exact mode: every allocation and every free becomes a record, blocks are named by address.
 *
 * The hooks jump here when agent_exact is set. Nothing is looked up, nothing is shared between
 * threads, no lock is taken; only a new packet, once in about two thousand records, leaves the
 * thread's own memory.
 */
#ifndef MAYFLY_EXACT_H
#define MAYFLY_EXACT_H

#include "agent/real.h"
#include "agent/unwind/walk.h"

/* In the place of the hooks: the caller's frame is the program's. */
#define EXACT_ALLOCATION(name, parameters, arguments, bytes) HIDDEN void *exact_##name parameters;
REAL_ALLOCATIONS(EXACT_ALLOCATION)
#undef EXACT_ALLOCATION
HIDDEN int exact_posix_memalign(void **out, size_t alignment, size_t size);
HIDDEN void *exact_realloc(void *block, size_t size);
HIDDEN void exact_free(void *block);

/* A block of a pool, by its address with SPOOL_ADDRESS_... in it; label: the pool's, or 0. */
void exact_pool_alloc(void *block, size_t size, const struct walk_start *at, uint32_t label);
void exact_pool_free(void *block);

/* For the first allocation of all, which finds out what mode it is. The block is there. */
void exact_allocated(void *block, size_t size, const struct walk_start *at, uint32_t flags);

#endif
