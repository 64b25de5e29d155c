/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks of the program's own allocators: see pools.h.
 */
#include "agent/events/pools.h"

#include <errno.h>

#include "agent/agent.h"
#include "agent/cpu/cpu.h"
#include "agent/exact.h"
#include "agent/labels.h"
#include "agent/live_filter.h"
#include "agent/path.h"
#include "agent/sampled.h"

#define NO_LABEL UINT32_MAX /* there was no room for its name */

/* The address under which the agent keeps the block. */
static inline void *pool_key(const struct mayfly_pool *pool, const void *block)
{
	uint64_t bit =
	    pool->flags & MAYFLY_POOL_MAPPED ? SPOOL_ADDRESS_POOL_MAPPED : SPOOL_ADDRESS_POOL;

	return (void *)((uintptr_t)block | bit);
}

static inline uint32_t heap_of(const struct mayfly_pool *pool)
{
	return pool->flags & MAYFLY_POOL_MAPPED ? SPOOL_HEAP_POOL_MAPPED : SPOOL_HEAP_POOL;
}

/* The label pool=NAME, numbered when the first block of the pool is recorded. */
static uint32_t label_of(const struct mayfly_pool *pool)
{
	uint32_t number = __atomic_load_n(pool->number, __ATOMIC_RELAXED);

	if (UNLIKELY(!number)) {
		number = labels_number("pool", pool->name);
		if (!number)
			number = NO_LABEL;
		__atomic_store_n(pool->number, number, __ATOMIC_RELAXED);
	}
	return number < SPOOL_LABEL_IDS ? number : 0;
}

static COLD void slow_alloc(const struct mayfly_pool *pool, const void *block, size_t size)
{
	WALK_CALLER(at);
	int error = errno;

	if (agent_exact)
		exact_pool_alloc(pool_key(pool, block), size, &at, label_of(pool));
	else
		sampled_block(pool_key(pool, block), size, &at,
			      heap_of(pool) << SPOOL_FLAG_HEAP_SHIFT, label_of(pool));
	errno = error;
}

/* A tail call, so that the caller's frame is the program's. */
void pools_alloc(const struct mayfly_pool *pool, const void *block, size_t size)
{
	if (LIKELY(block) && UNLIKELY(!path_covered(size)))
		slow_alloc(pool, block, size);
}

void pools_free(const struct mayfly_pool *pool, const void *block)
{
	void *key = pool_key(pool, block);

	if (LIKELY(!live_maybe(key)) || UNLIKELY(!block))
		return;
	if (agent_exact)
		exact_pool_free(key);
	else
		sampled_free_block(key);
}
