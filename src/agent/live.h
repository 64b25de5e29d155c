/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of the sampled blocks that are live now, from address to sample. live_filter.h is the
 * quick test in front of it.
 */
#ifndef MAYFLY_LIVE_H
#define MAYFLY_LIVE_H

#include "agent/agent.h"
#include "agent/live_filter.h"

struct live_block {
	uintptr_t block;   /* in the table: its complement, or 0: empty slot */
	uint64_t id;	   /* of the sample */
	uint64_t position; /* sampler_position of the allocating thread after the allocation */
	uint32_t thread;   /* self.number of the allocating thread */
	float weight;	   /* bytes it stands for, for the progress line */
	float blocks;	   /* the same in blocks, for allocator.h */
};

bool live_init(void);

/* Adds a block. When the table still has one at the same address, its free was missed (it bypassed
 * the hooks): it is handed back in *stale and true is returned. */
bool live_add(const struct live_block *added, struct live_block *stale);

/* Takes the block out if it is there and its sample is older than before_id. False: it is not. */
bool live_remove(uintptr_t block, uint64_t before_id, struct live_block *removed);

/* The address of a struct spool_live. */
uint64_t live_where(void);

void live_lock(void);
void live_unlock(void);
void live_reset_lock(void); /* in the child of a fork */

#endif
