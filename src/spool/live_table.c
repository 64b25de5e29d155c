/* SPDX-License-Identifier: Apache-2.0 */
/* The blocks that are live: see live_table.h. */
#include "spool/live_table.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

#define LEAST_SIZE   64u
#define LEAST_SHRINK 4096u /* blocks: a smaller table is not worth shrinking */

static bool table_room(void *array, size_t used, size_t *size, size_t item)
{
	return used < UINT32_MAX - 1 && array_reserve(array, size, used, item);
}

/* ---- regions ---- */

struct live_region *live_search_region(struct live_table *t, uint64_t number)
{
	size_t i;

	if (!t->entries)
		return NULL;
	for (i = live_hash(t, number); t->entry[i].region; i = (i + 1) & (t->entries - 1))
		if (t->entry[i].number == number) {
			uint32_t region = t->entry[i].region - 1;

			t->recent[number % LIVE_RECENT] = (struct live_recent){number + 1, region};
			return &t->region[region];
		}
	return NULL;
}

static void enter_region(struct live_table *t, struct live_entry entry)
{
	size_t i = live_hash(t, entry.number);

	while (t->entry[i].region)
		i = (i + 1) & (t->entries - 1);
	t->entry[i] = entry;
}

/* Copies the regions that have leaves into a new array and a new hash, at most a quarter full. */
static bool renew_regions(struct live_table *t)
{
	struct live_table fresh = *t;
	size_t full = 0;

	for (size_t i = 0; i < t->regions; i++)
		full += t->region[i].leaves != 0;
	for (fresh.entries = LEAST_SIZE; fresh.entries / 4 <= full;)
		fresh.entries *= 2;
	fresh.region_size = fresh.entries / 2;
	fresh.regions = 0;
	fresh.entry = calloc(fresh.entries, sizeof(*fresh.entry));
	fresh.region = malloc(fresh.region_size * sizeof(*fresh.region));
	if (!fresh.entry || !fresh.region) {
		free(fresh.entry);
		free(fresh.region);
		return false;
	}
	for (size_t i = 0; i < t->entries; i++) {
		struct live_entry e = t->entry[i];

		if (!e.region || !t->region[e.region - 1].leaves)
			continue;
		fresh.region[fresh.regions++] = t->region[e.region - 1];
		e.region = (uint32_t)fresh.regions;
		enter_region(&fresh, e);
	}
	assert(fresh.regions == full && full < fresh.region_size);
	free(t->entry);
	free(t->region);
	memset(fresh.recent, 0, sizeof(fresh.recent));
	*t = fresh;
	return true;
}

static struct live_region *make_region(struct live_table *t, uint64_t number)
{
	struct live_region *region = live_region(t, number);

	if (region)
		return region;
	if (t->regions == t->region_size && !renew_regions(t))
		return NULL;
	assert(t->regions < t->region_size);
	region = &t->region[t->regions++];
	memset(region, 0, sizeof(*region));
	enter_region(t, (struct live_entry){number, (uint32_t)t->regions});
	return region;
}

/* ---- leaves ---- */

/* 0: no memory. */
static uint32_t make_leaf(struct live_table *t)
{
	uint32_t leaf = t->free_leaf;

	assert(leaf <= t->leaves);
	if (leaf) {
		t->free_leaf = t->leaf[leaf - 1].slot[0];
		t->leaf[leaf - 1].slot[0] = 0;
		return leaf;
	}
	if (!table_room(&t->leaf, t->leaves, &t->leaf_size, sizeof(*t->leaf)))
		return 0;
	memset(&t->leaf[t->leaves++], 0, sizeof(*t->leaf));
	return (uint32_t)t->leaves;
}

static void drop_leaf(struct live_table *t, struct live_region *region, size_t number)
{
	uint32_t leaf = region->leaf[number];

	assert(leaf && leaf <= t->leaves && region->leaves);
	t->leaf[leaf - 1].slot[0] = t->free_leaf; /* all slots are 0 */
	t->free_leaf = leaf;
	region->leaf[number] = 0;
	region->leaves--;
}

/* ---- blocks ---- */

/* There is room for it. */
static uint32_t take_free_block(struct live_table *t)
{
	uint32_t index = t->free_block;

	assert(index ? index <= t->high : t->high < t->block_size);
	if (!index)
		return (uint32_t)++t->high;
	t->free_block = t->block[index - 1].next;
	if (t->free_block)
		__builtin_prefetch(&t->block[t->free_block - 1], 1);
	return index;
}

struct live_block *live_put(struct live_table *t, uint64_t key, bool *there)
{
	size_t number = live_leaf_number(key);
	struct live_region *region;
	struct live_block *b;
	uint32_t *slot, index;

	if (!t->free_block && !table_room(&t->block, t->high, &t->block_size, sizeof(*t->block)))
		return NULL;
	region = make_region(t, live_region_number(key));
	if (!region)
		return NULL;
	if (!region->leaf[number]) {
		region->leaf[number] = make_leaf(t);
		if (!region->leaf[number])
			return NULL;
		region->leaves++;
	}
	slot = &t->leaf[region->leaf[number] - 1].slot[live_slot_number(key)];
	for (index = *slot; index; index = b->next) {
		b = &t->block[index - 1];
		*there = b->key == key;
		if (*there)
			return b;
	}
	*there = false;
	region->slots[number] += !*slot;
	index = take_free_block(t);
	b = &t->block[index - 1];
	b->key = key;
	b->next = *slot;
	*slot = index;
	t->used++;
	assert(t->used <= t->high);
	return b;
}

/* When there is no memory for a smaller table, the larger one will do. */
static void shrink_table(struct live_table *t)
{
	struct live_table fresh = {.block_size = t->used + LEAST_SIZE};
	bool there;

	fresh.block = malloc(fresh.block_size * sizeof(*fresh.block));
	if (!fresh.block)
		return;
	for (size_t i = 0; i < t->high; i++) {
		const struct live_block *old = &t->block[i];
		struct live_block *b;
		uint32_t next;

		if (!old->key)
			continue;
		b = live_put(&fresh, old->key, &there);
		if (!b) {
			live_free(&fresh);
			return;
		}
		next = b->next;
		*b = *old;
		b->next = next;
	}
	live_free(t);
	*t = fresh;
}

void live_remove(struct live_table *t, uint32_t *place)
{
	const uint32_t index = *place;
	struct live_block *block = live_at(t, place);
	const size_t number = live_leaf_number(block->key);
	struct live_region *region = live_region(t, live_region_number(block->key));
	const uint32_t *first =
	    &t->leaf[region->leaf[number] - 1].slot[live_slot_number(block->key)];

	assert(t->used && index && index <= t->high);
	*place = block->next;
	if (!*first && !--region->slots[number])
		drop_leaf(t, region, number);
	block->key = 0;
	block->next = t->free_block;
	t->free_block = index;
	t->used--;
	if (t->used < t->high / 8 && t->high > LEAST_SHRINK)
		shrink_table(t);
}

void live_free(struct live_table *t)
{
	free(t->block);
	free(t->leaf);
	free(t->region);
	free(t->entry);
	*t = (struct live_table){0};
}
