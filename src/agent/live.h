/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sampled blocks that are live now.
 *
 * Two structures. A bit filter over all addresses, read without a lock by every free(): a clear bit
 * proves that the block is not sampled. An exact table behind it, from address to sample.
 */
#ifndef MAYFLY_LIVE_H
#define MAYFLY_LIVE_H

#include "agent/agent.h"

struct live_block {
	uintptr_t block;   /* 0: empty slot */
	uint64_t id;	   /* of the sample */
	uint64_t position; /* sampler_position of the allocating thread after the allocation */
	uint32_t thread;   /* self.number of the allocating thread */
	float weight;	   /* bytes it stands for, for the progress line */
	float blocks;	   /* the same in blocks, for allocator.h */
};

#define LIVE_FILTER_BITS_LOG2_MIN 13
#define LIVE_FILTER_BITS_LOG2_MAX 26

/* Readers load mask before bits; who replaces them stores bits before mask (see live.c). */
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

	return UNLIKELY(atomic_load_explicit(&bits[bit >> 6], memory_order_relaxed) >> (bit & 63) &
			1);
}

bool live_init(void);

/* Instead: live_maybe is always true, nothing is ever added (exact mode). */
void live_every(void);

/* Adds a block. When the table still has one at the same address, its free was missed (it bypassed
 * the hooks): it is handed back in *stale and true is returned. */
bool live_add(const struct live_block *added, struct live_block *stale);

/* Takes the block out if it is there and its sample is older than before_id. */
bool live_remove(uintptr_t block, uint64_t before_id, struct live_block *removed);

/* Forgets all: live_maybe is false from then on. */
void live_clear(void);

void live_lock(void);
void live_unlock(void);
void live_reset_lock(void); /* in the child of a fork */

#endif
