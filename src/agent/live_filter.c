/* SPDX-License-Identifier: Apache-2.0 */
/* The bit filter that every free() reads: see live_filter.h. */
#include "agent/live_filter.h"

/* In use until live_init(): one clear bit, so that no block is ever looked up. */
static _Atomic uint64_t empty_filter[1];
struct live_filter live_filter = {0, empty_filter};

/* The array stays: a reader may have loaded a mask that a smaller one does not fit. */
static void set_all(uint64_t word)
{
	_Atomic uint64_t *bits = atomic_load_explicit(&live_filter.bits, memory_order_relaxed);
	uint64_t mask = atomic_load_explicit(&live_filter.mask, memory_order_relaxed);

	for (uint64_t i = 0; i < (mask + 64) / 64; i++)
		atomic_store_explicit(&bits[i], word, memory_order_relaxed);
}

void live_filter_fill(void)
{
	set_all(~0ull);
}

void live_filter_clear(void)
{
	set_all(0);
}
