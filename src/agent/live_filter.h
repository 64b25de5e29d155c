/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bit filter that every free() reads, without a lock: a clear bit proves that the block is not
 * a live sample. live.c sets and clears the bits, and replaces the filter by a larger one: bits
 * first, then mask. A reader loads mask, then bits, so it can combine the old mask with the new
 * bits but never the reverse.
 */
#ifndef MAYFLY_LIVE_FILTER_H
#define MAYFLY_LIVE_FILTER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct live_filter {
	_Atomic uint64_t mask; /* bits in the filter - 1 */
	_Atomic(_Atomic uint64_t *) bits;
};
extern struct live_filter live_filter;

static inline uint64_t live_hash(uintptr_t block)
{
	return (uint64_t)block * 0x9e3779b97f4a7c15u >> 32;
}

/* The test in free(): false proves that the block is not a live sample. */
static inline bool live_maybe(const void *block)
{
	uint64_t mask = atomic_load_explicit(&live_filter.mask, memory_order_acquire);
	uint64_t bit = live_hash((uintptr_t)block) & mask;
	_Atomic uint64_t *bits = atomic_load_explicit(&live_filter.bits, memory_order_relaxed);

	return __builtin_expect(
	    !!(atomic_load_explicit(&bits[bit >> 6], memory_order_relaxed) >> (bit & 63) & 1), 0);
}

/* From now on every free() takes the slow way (exact mode, which has no table). */
void live_filter_fill(void);

/* From now on none does: the agent is off. */
void live_filter_clear(void);

#endif
