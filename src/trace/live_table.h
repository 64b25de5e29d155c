/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The blocks that are live, by address or by sample id.
 *
 *	key --hash--> place in [0, size)
 *	| b | . | a | a' | . | c | . | . |	open addressing, linear probing; nothing marks a
 *	                                	deleted block: the run behind it moves up
 *
 * The place is the hash scaled to the size, so blocks lie in the order of their hashes: growing and
 * shrinking are one pass over both arrays. The size follows the number of blocks.
 */
#ifndef MAYFLY_LIVE_TABLE_H
#define MAYFLY_LIVE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* 40 bytes: a program may have many millions. */
struct live_block {
	uint64_t key;	      /* 0: free place */
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
};

#define LIVE_OVERLAPPED 0x80u /* its address was live: the free of the block before was missed */
#define LIVE_THINNED	(((uint64_t)1 << 56) - 1)

struct live_table {
	struct live_block *block;
	size_t size, used;
};

/* Keys must not be 0. */
static inline uint64_t live_hash(uint64_t key)
{
	key *= 0x9e3779b97f4a7c15u;
	key ^= key >> 32;
	return key * 0xd6e8feb86659fd93u;
}

static inline size_t live_place(const struct live_table *t, uint64_t key)
{
	size_t place =
	    (size_t)((unsigned __int128)live_hash(key >> 8) * t->size >> 64) + (key >> 4 & 15);

	return place < t->size ? place : place - t->size;
}

/* A block with this key will be looked up soon. It may lie across two cache lines. */
static inline void live_prefetch(const struct live_table *t, uint64_t key)
{
	const struct live_block *b;

	if (!t->size)
		return;
	b = &t->block[live_place(t, key)];
	__builtin_prefetch(b, 1);
	__builtin_prefetch((const char *)(b + 1) - 1, 1);
}

/* The block with this key, or NULL. */
static inline struct live_block *live_find(const struct live_table *t, uint64_t key)
{
	size_t i;

	if (!t->used)
		return NULL;
	for (i = live_place(t, key); t->block[i].key; i = i + 1 == t->size ? 0 : i + 1)
		if (t->block[i].key == key)
			return &t->block[i];
	return NULL;
}

/* Room for one more block; false: no memory. Blocks move. */
bool live_grow(struct live_table *t);

/* The block with this key: *there, or one whose other fields the caller fills in. NULL: no memory.
 * Blocks move. */
static inline struct live_block *live_put(struct live_table *t, uint64_t key, bool *there)
{
	size_t i;

	/* At most 5/8 full (a new block then looks at four places), then 5/12. */
	if (t->used >= t->size / 8 * 5 && !live_grow(t))
		return NULL;
	for (i = live_place(t, key); t->block[i].key; i = i + 1 == t->size ? 0 : i + 1)
		if (t->block[i].key == key) {
			*there = true;
			return &t->block[i];
		}
	*there = false;
	t->block[i].key = key;
	t->used++;
	return &t->block[i];
}

void live_remove(struct live_table *t, struct live_block *block);
void live_free(struct live_table *t);

#endif
