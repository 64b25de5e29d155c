/* SPDX-License-Identifier: Apache-2.0 */
/* The filters that every free() reads: see live_filter.h. */
#include "agent/live_filter.h"

_Atomic uint8_t live_counts[LIVE_COUNTS];
static bool counted; /* some count is not 0, or was not */

/* In use until live_init(): one clear bit, so that no block is ever looked up. */
static _Atomic uint64_t empty_filter[1];
struct live_filter live_filter = {0, empty_filter};

static void set_counts(uint8_t count)
{
	for (uint32_t i = 0; i < LIVE_COUNTS && (count || counted); i++)
		atomic_store_explicit(&live_counts[i], count, memory_order_relaxed);
	counted = count != 0;
}

/* The array stays: a reader may have loaded a mask that a smaller one does not fit. */
static void set_bits(uint64_t word)
{
	_Atomic uint64_t *bits = atomic_load_explicit(&live_filter.bits, memory_order_relaxed);
	uint64_t mask = atomic_load_explicit(&live_filter.mask, memory_order_relaxed);

	for (uint64_t i = 0; i < (mask + 64) / 64; i++)
		atomic_store_explicit(&bits[i], word, memory_order_relaxed);
}

void live_filter_count(uintptr_t block)
{
	_Atomic uint8_t *at = &live_counts[live_count_of(block)];
	uint8_t count = atomic_load_explicit(at, memory_order_relaxed);

	counted = true;
	if (count < UINT8_MAX)
		atomic_store_explicit(at, count + 1, memory_order_release);
}

void live_filter_uncount(uintptr_t block)
{
	_Atomic uint8_t *at = &live_counts[live_count_of(block)];
	uint8_t count = atomic_load_explicit(at, memory_order_relaxed);

	if (count < UINT8_MAX)
		atomic_store_explicit(at, count - 1, memory_order_release);
}

void live_filter_fill(void)
{
	set_counts(UINT8_MAX);
	set_bits(~0ull);
}

void live_filter_empty(void)
{
	set_counts(0);
	set_bits(0);
}

void live_filter_clear(void)
{
	set_bits(0);
}
