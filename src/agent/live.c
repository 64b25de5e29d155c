/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sampled blocks that are live now: see live.h.
 *
 *   free(p) ──> count 0, or filter bit clear? ──> not ours (no lock)
 *                    │ otherwise
 *                    └──> table, open addressing, linear probing, under one lock;
 *                         first a look without the lock, valid when `changes` stood still
 *
 * Filter and table use the same hash, each some low bits of it, the table never more than the
 * filter: so all blocks of one bit are in one run of the table, and removing a block can tell at
 * once whether its bit may be cleared. That matters: a program that allocates and frees in a loop
 * gets the same few addresses again and again, and a bit left behind would send each of those frees
 * the slow way.
 *
 * A filter that has become too full is replaced by a larger one, filled for both masks: a reader
 * may use the new bits with the old mask. Replaced arrays stay mapped, for late readers; all
 * together are smaller than the one in use.
 */
#include "agent/live.h"

#include <assert.h>
#include <sys/mman.h>

#include "agent/cpu/sys.h"
#include "format/spool_format.h"

#define TABLE_MIN	     1024u
#define FILTER_BITS_LOG2_MIN 13
#define FILTER_BITS_LOG2_MAX 26

static struct agent_lock lock;
static size_t table_used;
/* As struct spool_live. */
static struct {
	struct live_block *table;
	size_t size;
	size_t entry_bytes;
} kept = {.entry_bytes = sizeof(struct live_block)};
static _Atomic uint32_t changes; /* odd while the table is being changed */

/* Entries have the complement of the address: whoever looks for pointers in this memory, as `mayfly heap`
 * does, must not take the table for one that holds the block. */
static inline uintptr_t turned(uintptr_t block)
{
	return ~block;
}

static size_t home_of(uintptr_t block)
{
	return (size_t)live_hash(block) & (kept.size - 1);
}

/* Only under the lock: no read-modify-write needed. */
static void change_bit(_Atomic uint64_t *bits, uint64_t bit, bool set)
{
	uint64_t word = atomic_load_explicit(&bits[bit >> 6], memory_order_relaxed);
	uint64_t one = 1ull << (bit & 63);

	atomic_store_explicit(&bits[bit >> 6], set ? word | one : word & ~one,
			      memory_order_release);
}

static uint64_t filter_mask(void)
{
	return atomic_load_explicit(&live_filter.mask, memory_order_relaxed);
}

/* A filter with 64 bits for each live sample. False: the old one stays. */
static bool grow_filter(void)
{
	uint64_t old_mask = filter_mask(), mask = (1ull << FILTER_BITS_LOG2_MIN) - 1;

	while (mask < (1ull << FILTER_BITS_LOG2_MAX) - 1 && mask < 64 * (uint64_t)table_used)
		mask = 2 * mask + 1;
	if (mask <= old_mask || agent_sandboxed)
		return false;
	assert(!(mask & (mask + 1)));
	_Atomic uint64_t *bits = sys_memory((mask + 1) / 8);
	if (!bits)
		return false;
	for (size_t i = 0; table_used && i < kept.size; i++) {
		if (kept.table[i].block) {
			uint64_t hash = live_hash(turned(kept.table[i].block));
			change_bit(bits, hash & mask, true);
			change_bit(bits, hash & old_mask, true);
		}
	}
	atomic_store_explicit(&live_filter.bits, bits, memory_order_release);
	atomic_store_explicit(&live_filter.mask, mask, memory_order_release);
	return true;
}

/* `block` last and atomically: it is what looks without the lock read. */
static void set_entry(struct live_block *to, const struct live_block *from)
{
	to->id = from->id;
	to->position = from->position;
	to->thread = from->thread;
	to->weight = from->weight;
	to->blocks = from->blocks;
	__atomic_store_n(&to->block, from->block, __ATOMIC_RELEASE);
}

/* added: an entry. */
static void put_block(const struct live_block *added)
{
	size_t i = home_of(turned(added->block));

	assert(added->block && table_used < kept.size);
	while (kept.table[i].block)
		i = (i + 1) & (kept.size - 1);
	set_entry(&kept.table[i], added);
}

static bool grow_live(void)
{
	struct live_block *old = kept.table;
	size_t old_size = kept.size;

	if (agent_sandboxed)
		return false;
	struct live_block *larger = sys_memory(2 * old_size * sizeof(*larger));
	if (!larger)
		return false;
	__atomic_store_n(&kept.table, larger, __ATOMIC_RELEASE);
	__atomic_store_n(&kept.size, 2 * old_size, __ATOMIC_RELEASE);
	for (size_t i = 0; i < old_size; i++) {
		if (old[i].block)
			put_block(&old[i]);
	}
	/* It stays mapped, as another thread may look into it without the lock; only its memory is
	 * given back. */
	sys_madvise(old, old_size * sizeof(*old), MADV_DONTNEED);
	return true;
}

static void forget_all(void)
{
	if (!agent_lock(&lock))
		return;
	atomic_fetch_add_explicit(&changes, 1, memory_order_acq_rel);
	live_filter_empty();
	for (size_t i = 0; i < kept.size; i++)
		__atomic_store_n(&kept.table[i].block, 0, __ATOMIC_RELEASE);
	table_used = 0;
	atomic_fetch_add_explicit(&changes, 1, memory_order_acq_rel);
	agent_unlock(&lock);
}

bool live_init(void)
{
	if (kept.table) {
		forget_all();
		return true;
	}
	kept.table = sys_memory(TABLE_MIN * sizeof(*kept.table));
	kept.size = TABLE_MIN;
	table_used = 0;
	live_filter_empty();
	return kept.table && grow_filter();
}

static size_t find_block(uintptr_t block)
{
	for (size_t i = home_of(block), n = 0; n < kept.size; i = (i + 1) & (kept.size - 1), n++) {
		if (!kept.table[i].block)
			return SIZE_MAX;
		if (kept.table[i].block == turned(block))
			return i;
	}
	return SIZE_MAX;
}

/* Does another live block have the same bit? It would be in the same run of the table. */
static bool bit_is_shared(uintptr_t block, uint64_t bit)
{
	for (size_t i = home_of(block); kept.table[i].block; i = (i + 1) & (kept.size - 1)) {
		if (kept.table[i].block != turned(block) &&
		    (live_hash(turned(kept.table[i].block)) & filter_mask()) == bit)
			return true;
	}
	return false;
}

/* Closes the gap at i so that every entry stays reachable from its home. */
static void take_block_out(size_t i)
{
	uintptr_t block = turned(kept.table[i].block);
	uint64_t bit = live_hash(block) & filter_mask();
	size_t hole = i;

	assert(table_used && kept.table[i].block);
	live_filter_uncount(block);
	if (!bit_is_shared(block, bit))
		change_bit(atomic_load_explicit(&live_filter.bits, memory_order_relaxed), bit,
			   false);

	for (;;) {
		i = (i + 1) & (kept.size - 1);
		if (!kept.table[i].block)
			break;
		size_t wanted = home_of(turned(kept.table[i].block));
		/* Can the entry at i move to the hole? Only when its home is not in (hole, i]. */
		if (((i - wanted) & (kept.size - 1)) >= ((i - hole) & (kept.size - 1))) {
			set_entry(&kept.table[hole], &kept.table[i]);
			hole = i;
		}
	}
	__atomic_store_n(&kept.table[hole].block, 0, __ATOMIC_RELEASE);
	table_used--;
}

bool live_add(const struct live_block *added, struct live_block *stale)
{
	struct live_block entry = *added;
	bool found = false;

	entry.block = turned(added->block);
	if (!agent_lock(&lock))
		return false;
	atomic_fetch_add_explicit(&changes, 1, memory_order_acq_rel);
	assert(atomic_load(&changes) & 1);
	size_t i = find_block(added->block);
	if (i != SIZE_MAX) {
		*stale = kept.table[i];
		stale->block = added->block;
		set_entry(&kept.table[i], &entry);
		found = true;
	} else if (4 * (table_used + 1) <= 3 * kept.size || grow_live()) {
		put_block(&entry);
		table_used++;
		live_filter_count(added->block);
		change_bit(atomic_load_explicit(&live_filter.bits, memory_order_relaxed),
			   live_hash(added->block) & filter_mask(), true);
		if (32 * table_used > filter_mask() + 1)
			grow_filter();
	} else {
		*stale = *added; /* no room: it is not followed, and the trace shows it as freed */
		found = true;
	}
	atomic_fetch_add_explicit(&changes, 1, memory_order_acq_rel);
	agent_unlock(&lock);
	return found;
}

/* Looks without the lock. True: the block is certainly not in the table. Its loads acquire,
 * so that each comes before the last one of `changes`, which says whether they can be trusted. */
static bool surely_absent(uintptr_t block)
{
	uint32_t before = atomic_load_explicit(&changes, memory_order_acquire);

	if (before & 1)
		return false;
	size_t size = __atomic_load_n(&kept.size, __ATOMIC_ACQUIRE);
	struct live_block *at = __atomic_load_n(&kept.table, __ATOMIC_ACQUIRE);
	size_t i = (size_t)live_hash(block) & (size - 1);
	bool found = false;
	if (atomic_load_explicit(&changes, memory_order_relaxed) != before)
		return false;
	for (size_t n = 0; n < size; i = (i + 1) & (size - 1), n++) {
		uintptr_t there = __atomic_load_n(&at[i].block, __ATOMIC_ACQUIRE);
		if (!there)
			break;
		if (there == turned(block)) {
			found = true;
			break;
		}
	}
	return !found && atomic_load_explicit(&changes, memory_order_relaxed) == before;
}

bool live_remove(uintptr_t block, uint64_t before_id, struct live_block *removed)
{
	bool found = false;

	if (surely_absent(block))
		return false;
	if (!agent_lock(&lock))
		return false;
	size_t i = find_block(block);
	if (i != SIZE_MAX && kept.table[i].id < before_id) {
		*removed = kept.table[i];
		removed->block = block;
		atomic_fetch_add_explicit(&changes, 1, memory_order_acq_rel);
		take_block_out(i);
		atomic_fetch_add_explicit(&changes, 1, memory_order_acq_rel);
		found = true;
	}
	agent_unlock(&lock);
	return found;
}

_Static_assert(sizeof(kept) == sizeof(struct spool_live) &&
		   offsetof(struct live_block, id) == offsetof(struct spool_live_entry, id),
	       "readers of the spool find other things");

uint64_t live_where(void)
{
	return (uintptr_t)&kept;
}

void live_lock(void)
{
	agent_lock(&lock);
}

void live_unlock(void)
{
	agent_unlock(&lock);
}

void live_reset_lock(void)
{
	atomic_store(&lock.held, 0);
	atomic_store(&changes, atomic_load(&changes) & ~1u);
}
