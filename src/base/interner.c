/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers for keys: see interner.h. */
#include "base/interner.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/hash.h"

static uint64_t key_hash(const struct key *k)
{
	uint64_t h = k->word[0] * 0x9e3779b97f4a7c15u + k->word[1];

	h = (h ^ h >> 29) * 0xbf58476d1ce4e5b9u + k->word[2];
	h = (h ^ h >> 32) * 0x94d049bb133111ebu + k->word[3];
	return hash_mix(h);
}

static uint64_t hash_of_key(const void *keys, uint32_t number)
{
	return key_hash((const struct key *)keys + number);
}

static bool keys_equal(const void *keys, uint32_t number, const void *key)
{
	const struct key *a = (const struct key *)keys + number, *b = key;

	return a->word[0] == b->word[0] && a->word[1] == b->word[1] && a->word[2] == b->word[2] &&
	       a->word[3] == b->word[3];
}

static uint32_t *find_key(const struct interner *n, const struct key *key)
{
	return hash_index_find(&n->index, key_hash(key), keys_equal, n->key, key);
}

uint32_t interner_add(struct interner *n, struct key key, bool *is_new)
{
	uint32_t *slot;

	*is_new = false;
	if (!hash_index_reserve(&n->index, n->count, hash_of_key, n->key))
		return INTERNER_NONE;
	slot = find_key(n, &key);
	if (*slot)
		return *slot - 1;
	if (n->count >= INTERNER_NONE - 1 ||
	    !array_reserve(&n->key, &n->capacity, n->count, sizeof(*n->key)))
		return INTERNER_NONE;
	n->key[n->count] = key;
	*slot = (uint32_t)++n->count;
	*is_new = true;
	return (uint32_t)n->count - 1;
}

uint32_t interner_find(const struct interner *n, struct key key)
{
	uint32_t slot = n->index.count ? *find_key(n, &key) : 0;

	return slot ? slot - 1 : INTERNER_NONE;
}

void interner_free(struct interner *n)
{
	free(n->key);
	free(n->index.slot);
}
