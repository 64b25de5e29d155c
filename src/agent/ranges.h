/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mappings that the program has made itself, by address.
 *
 *	range:	| block 3    | block 1 |  hole  | block 1 | reserved      |
 *	high <--------------- in the array's order: down ----------------- low
 *
 * A block is what one call of mmap or mremap has mapped. As parts of it are unmapped, it is left with
 * fewer bytes in one range or more; it has ended when none is left. What nobody can access yet (PROT_NONE) is
 * reserved: its address is taken, but it is no memory. The kernel hands out addresses from the top down, so
 * a new range mostly comes last in the array.
 *
 * A munmap is known to have succeeded only when it is over, and by then another thread may have been given
 * its addresses. So each range has a serial number: what is newer than the call is not cut.
 */
#ifndef MAYFLY_RANGES_H
#define MAYFLY_RANGES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct range {
	uintptr_t start, end;
	uint64_t serial;
	uint32_t block; /* RANGE_RESERVED, or an index */
};
#define RANGE_RESERVED UINT32_MAX

struct range_block {
	uint64_t id;
	uint64_t bytes; /* of all its ranges */
	uint64_t lost;	/* by the cut that goes on */
	uint32_t next;	/* free, or changed: the next one; RANGE_RESERVED: none */
};

struct ranges {
	struct range *range; /* by address, descending; they do not overlap */
	size_t count, room;
	struct range_block *block;
	uint32_t blocks, block_room, free; /* free: the first one, or RANGE_RESERVED */
	/* Without the lock: no range is outside. */
	_Atomic uintptr_t low, high;
	_Atomic uint64_t serial; /* of the latest range */
	_Atomic size_t reserved; /* ranges */
};

/* A block has so many bytes fewer; left 0: it has ended. */
typedef void range_changed(void *context, uint64_t id, uint64_t lost, uint64_t left);

#define RANGES_ALL UINT64_MAX /* ranges of every age */

/* Takes these addresses out of the ranges that are not newer than `serial`, and calls changed() once for each
 * block that has lost some. The bytes that were reserved. */
uint64_t ranges_cut(struct ranges *r, uintptr_t start, uintptr_t end, uint64_t serial,
		    range_changed *changed, void *context);

/* Adds a block with one range, where there is none. False: no memory. */
bool ranges_add(struct ranges *r, uintptr_t start, uintptr_t end, uint64_t id);
bool ranges_reserve(struct ranges *r, uintptr_t start, uintptr_t end);

/* What is reserved there; committing it makes it a block. */
uint64_t ranges_reserved(const struct ranges *r, uintptr_t start, uintptr_t end);
bool ranges_commit(struct ranges *r, uintptr_t start, uintptr_t end, uint64_t id);

/* What is there: if there is anything of a block, RANGE_OF_BLOCK. */
enum range_kind { RANGE_NONE, RANGE_IS_RESERVED, RANGE_OF_BLOCK };
enum range_kind ranges_kind(const struct ranges *r, uintptr_t start, uintptr_t end);

/* The end of the range that begins at an address; 0: none does. */
uintptr_t ranges_end(const struct ranges *r, uintptr_t start);

void ranges_forget(struct ranges *r);

/* A function that maps memory for an allocator whose blocks are recorded: what it maps is not the program's own. */
void ranges_exempt(const void *function);
bool ranges_are_exempt(uintptr_t pc); /* of the caller */

/* The table of this process. */
extern struct ranges ranges;
/* False: another thread forks. It has waited for that for a while, but not when an allocator calls: that may hold
 * locks that its own handler for forks waits for. */
bool ranges_lock(bool allocator);
void ranges_unlock(void);
void ranges_lock_for_fork(void);
void ranges_unlock_after_fork(void); /* in the parent and in the child */

/* False: no range has any of these addresses. Needs no lock. */
static inline bool ranges_maybe(const struct ranges *r, const void *start, size_t length)
{
	uintptr_t from = (uintptr_t)start;

	return from < atomic_load_explicit(&r->high, memory_order_relaxed) && length > 0 &&
	       from + length > atomic_load_explicit(&r->low, memory_order_relaxed);
}

#endif
