/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which writer wrote the latest record about an address, for addresses that come back soon.
 *
 *	slot, by the last bits of the address >> 4:	| the turned address | writer's number |
 *
 * An address and its latest writer are one word, which a record about another address replaces. So
 * if a writer finds itself there, no other thread has written a record about the address since its
 * own one: that thread's store came before it freed the block or handed it over. What is not found
 * is not known.
 */
#ifndef MAYFLY_LATEST_H
#define MAYFLY_LATEST_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "format/spool_format.h"

#define LATEST_SLOTS	   (1u << 14) /* addresses of 256 KiB in a row */
#define LATEST_WRITERS	   (1u << 13)
#define LATEST_WRITER_BITS 44 /* where the number is: there, most turned addresses are 0 */

struct latest {
	_Atomic uint64_t slot[LATEST_SLOTS]; /* 0: not known */
};

static inline _Atomic uint64_t *latest_slot(struct latest *l, uint64_t address)
{
	return &l->slot[SPOOL_TURN(address) % LATEST_SLOTS];
}

/* A record about the address is being made, and no other thread makes one at the same time. True:
 * the latest one is the same writer's, too. */
static inline bool latest_is_own(struct latest *l, uint64_t address, uint32_t writer)
{
	_Atomic uint64_t *slot = latest_slot(l, address);
	uint64_t turned = SPOOL_TURN(address), own = 0;

	if (!(turned >> LATEST_WRITER_BITS & (LATEST_WRITERS - 1)) && writer < LATEST_WRITERS)
		own = turned | (uint64_t)writer << LATEST_WRITER_BITS;
	if (own && atomic_load_explicit(slot, memory_order_relaxed) == own)
		return true;
	atomic_store_explicit(slot, own, memory_order_relaxed);
	return false;
}

/* A record about the address will be written later. */
static inline void latest_forget(struct latest *l, uint64_t address)
{
	atomic_store_explicit(latest_slot(l, address), 0, memory_order_relaxed);
}

#endif
