/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash table beside an array of distinct items, by open addressing with linear probing:
 *
 *	hash of a key -> | 0 | 7 | 0 | 3 | ... |     0: free
 *	                       |       +-> item 2
 *	                       +---------> item 6
 *
 * The caller has the items and knows their hashes, so a table is the same for all kinds of them.
 */
#ifndef MAYFLY_HASH_INDEX_H
#define MAYFLY_HASH_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All zero: empty. */
struct hash_index {
	uint32_t *slot; /* number of an item + 1, or 0 */
	size_t count;	/* a power of two, at least twice as many as items */
};

/* Makes room for one more than `items` items. False: no memory, and nothing has changed. */
bool hash_index_reserve(struct hash_index *s, size_t items,
			uint64_t (*hash_of)(const void *context, uint32_t item),
			const void *context);

/* The slot of the item that equals the key, or the free one where it belongs. There is room. */
static inline uint32_t *hash_index_find(const struct hash_index *s, uint64_t hash,
					bool (*same)(const void *context, uint32_t item,
						     const void *key),
					const void *context, const void *key)
{
	size_t mask = s->count - 1, i = hash & mask;

	while (s->slot[i] && !same(context, s->slot[i] - 1, key))
		i = (i + 1) & mask;
	return &s->slot[i];
}

#endif
