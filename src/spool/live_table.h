/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The blocks that are live, by address or by sample id.
 *
 *	key:	| region (48 bits)	| leaf (7)	| slot (5)	| 4 |
 *		  |			  |		  |
 *		  hash --> region: leaf[128] --> leaf: slot[32] --> block -> block -> ...
 *						    those whose keys differ in the last 4 bits
 *
 * Blocks that are allocated or freed together have addresses close to each other, so the parts of
 * this table that are used one after the other are close, too. A hash of the keys alone would have
 * a cache miss for each block. Regions, leaves and blocks are numbers in arrays that grow. Free
 * blocks and leaves are used again, the last one first. When few blocks are left, the table is
 * built anew, so that its memory follows their number.
 */
#ifndef MAYFLY_LIVE_TABLE_H
#define MAYFLY_LIVE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* 48 bytes: a program may have many millions. */
struct live_block {
	uint64_t key;	      /* 0: a free one */
	uint64_t serial : 56; /* in the trace; LIVE_THINNED: not there */
	uint64_t flags : 8;   /* MAYFLY_FLAG_... of the allocation, LIVE_OVERLAPPED */
	uint64_t size;
	uint32_t node, thread; /* in the tables */
	union {
		uint64_t ticks; /* exact: of the allocation, as recorded */
		struct {
			uint32_t hits;
			uint32_t interval_log2;
		} sample;
	};
	uint32_t next;	 /* of the same slot, or of the free ones; index + 1, 0: none */
	uint32_t labels; /* set of the tables */
};

/* Its address was live: the free of the block before was missed. In place of MAYFLY_FLAG_NO_HEADER,
 * which no block of a spool has. */
#define LIVE_OVERLAPPED 0x80u
#define LIVE_THINNED	(((uint64_t)1 << 56) - 1)

#define LIVE_LEAVES 128u /* of a region */
#define LIVE_SLOTS  32u	 /* of a leaf */

struct live_leaf {
	uint32_t slot[LIVE_SLOTS]; /* first block: index + 1, 0: none. slot[0] of a free leaf is
				      the next free leaf */
};

struct live_region {
	uint32_t leaf[LIVE_LEAVES]; /* index + 1, 0: none */
	uint8_t slots[LIVE_LEAVES]; /* in use, of each leaf */
	uint32_t leaves;	    /* 0: goes when the hash is made anew */
};

/* A slot of the hash; region: index + 1, 0: free. */
struct live_entry {
	uint64_t number;
	uint32_t region;
};

/* A region that was looked up lately, by the last bits of its number. tag: 1 + number, 0: none. */
#define LIVE_RECENT 64u
struct live_recent {
	uint64_t tag;
	uint32_t region; /* index */
};

struct live_table {
	struct live_block *block; /* [high], of which some are free (key 0) */
	struct live_leaf *leaf;
	struct live_region *region;
	struct live_entry *entry;
	size_t used; /* live blocks */
	size_t high, block_size, leaves, leaf_size, regions, region_size, entries;
	uint32_t free_block, free_leaf; /* index + 1, 0: none */
	struct live_recent recent[LIVE_RECENT];
};

/* Keys must not be 0. */
static inline uint64_t live_region_number(uint64_t key)
{
	return key >> 16;
}

static inline size_t live_leaf_number(uint64_t key)
{
	return key >> 9 & (LIVE_LEAVES - 1);
}

static inline size_t live_slot_number(uint64_t key)
{
	return key >> 4 & (LIVE_SLOTS - 1);
}

static inline size_t live_hash(const struct live_table *t, uint64_t number)
{
	return (size_t)((number * 0x9e3779b97f4a7c15u) >> 32) & (t->entries - 1);
}

/* Looks in the hash. */
struct live_region *live_search_region(struct live_table *t, uint64_t number);

static inline struct live_region *live_region(struct live_table *t, uint64_t number)
{
	const struct live_recent *recent = &t->recent[number % LIVE_RECENT];

	return recent->tag == number + 1 ? &t->region[recent->region]
					 : live_search_region(t, number);
}

/* Where the first block of the key's slot is named; NULL: there is no such leaf. */
static inline uint32_t *live_slot(struct live_table *t, uint64_t key)
{
	const struct live_region *region = live_region(t, live_region_number(key));
	uint32_t leaf = region ? region->leaf[live_leaf_number(key)] : 0;

	return leaf ? &t->leaf[leaf - 1].slot[live_slot_number(key)] : NULL;
}

/* The block with this key, which may lie across two cache lines, will be looked up soon. */
static inline void live_prefetch(struct live_table *t, uint64_t key)
{
	const uint32_t *slot = live_slot(t, key);
	const char *b;

	if (!slot)
		return;
	/* For an empty slot this is the place before the first block: asking would cost more. */
	b = (const char *)((uintptr_t)t->block + (*slot - (uintptr_t)1) * sizeof(*t->block));
	__builtin_prefetch(b, 1);
	__builtin_prefetch(b + sizeof(*t->block) - 1, 1);
}

/* Where the block with this key is named, or NULL. */
static inline uint32_t *live_find(struct live_table *t, uint64_t key)
{
	uint32_t *place = live_slot(t, key);

	while (place && *place && t->block[*place - 1].key != key)
		place = &t->block[*place - 1].next;
	return place && *place ? place : NULL;
}

static inline struct live_block *live_at(const struct live_table *t, const uint32_t *place)
{
	return &t->block[*place - 1];
}

/* The block with this key: *there, or one whose other fields but `next` the caller fills in. NULL:
 * no memory. Blocks move. */
struct live_block *live_put(struct live_table *t, uint64_t key, bool *there);

/* Removes the block that is named there. Blocks move. */
void live_remove(struct live_table *t, uint32_t *place);

void live_free(struct live_table *t);

#endif
