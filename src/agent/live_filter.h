/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The filters that every free() reads, without a lock.
 *
 * live_counts has the number of live samples by bits 4 to 19 of the address; 255 stays for good. It
 * lies at a fixed place and needs no multiplication, so that most frees have six instructions of
 * ours. Untouched pages of it are all one page of zeros.
 *
 * Where there are many samples, or blocks at the same distance from a multiple of a MiB, it says
 * maybe too often. Then the bit filter is asked: a clear bit proves that the block is not a live
 * sample. live.c sets and clears the bits, and replaces the filter by a larger one: bits first,
 * then mask. A reader loads mask, then bits, so it can combine the old mask with the new bits but
 * never the reverse.
 */
#ifndef MAYFLY_LIVE_FILTER_H
#define MAYFLY_LIVE_FILTER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/cpu/cpu.h"

struct live_filter {
	_Atomic uint64_t mask; /* bits in the filter - 1 */
	_Atomic(_Atomic uint64_t *) bits;
};
extern struct live_filter live_filter;

static inline uint64_t live_hash(uintptr_t block)
{
	return (uint64_t)block * 0x9e3779b97f4a7c15u >> 32;
}

#define LIVE_COUNTS 65536u
extern _Atomic uint8_t live_counts[LIVE_COUNTS];

static inline uint32_t live_count_of(uintptr_t block)
{
	return (uint32_t)block >> 4 & (LIVE_COUNTS - 1);
}

static inline bool live_bit(const void *block)
{
	uint64_t mask = atomic_load_explicit(&live_filter.mask, memory_order_acquire);
	uint64_t bit = live_hash((uintptr_t)block) & mask;
	_Atomic uint64_t *bits = atomic_load_explicit(&live_filter.bits, memory_order_relaxed);

	return atomic_load_explicit(&bits[bit >> 6], memory_order_relaxed) >> (bit & 63) & 1;
}

/* The test in free(): false proves that the block is not a live sample. */
static inline bool live_maybe(const void *block)
{
	return __builtin_expect(!cpu_is_zero(&live_counts[live_count_of((uintptr_t)block)]), 0) &&
	       live_bit(block);
}

/* From now on every free() takes the slow way (exact mode, which has no table). */
void live_filter_fill(void);

/* From now on none does: the agent is off. The counts stay, as the child of a fork would have to
 * copy their pages. */
void live_filter_clear(void);

/* There is no live sample. */
void live_filter_empty(void);

/* A block becomes a live sample, and is none any more; under the lock of live.c. */
void live_filter_count(uintptr_t block);
void live_filter_uncount(uintptr_t block);

#endif
