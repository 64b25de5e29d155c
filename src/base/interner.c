/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers for keys: see interner.h. */
#include "base/interner.h"

#include <assert.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/hash.h"

static size_t key_hash(const struct key *k)
{
	uint64_t h = k->word[0] * 0x9e3779b97f4a7c15u + k->word[1];

	h = (h ^ h >> 29) * 0xbf58476d1ce4e5b9u + k->word[2];
	h = (h ^ h >> 32) * 0x94d049bb133111ebu + k->word[3];
	return (size_t)hash_mix(h);
}

static bool key_equal(const struct key *a, const struct key *b)
{
	return a->word[0] == b->word[0] && a->word[1] == b->word[1] && a->word[2] == b->word[2] &&
	       a->word[3] == b->word[3];
}

static void place_slot(struct interner *n, uint32_t number)
{
	size_t i = key_hash(&n->key[number]) & (n->slots - 1);

	assert(number < n->count && n->count < n->slots);
	while (n->slot[i])
		i = (i + 1) & (n->slots - 1);
	n->slot[i] = number + 1;
}

static bool grow_interner(struct interner *n)
{
	size_t slots = n->slots ? n->slots * 2 : 256;
	uint32_t *slot = calloc(slots, sizeof(*slot));

	if (!slot)
		return false;
	free(n->slot);
	n->slot = slot;
	n->slots = slots;
	for (size_t i = 0; i < n->count; i++)
		place_slot(n, (uint32_t)i);
	return true;
}

/* The slot of a key, or the free one where it belongs. */
static size_t find_slot(const struct interner *n, const struct key *key)
{
	size_t i = key_hash(key) & (n->slots - 1);

	assert(n->count < n->slots); /* so that each search ends */
	while (n->slot[i] && !key_equal(&n->key[n->slot[i] - 1], key))
		i = (i + 1) & (n->slots - 1);
	return i;
}

uint32_t interner_add(struct interner *n, struct key key, bool *is_new)
{
	size_t i;

	*is_new = false;
	if (n->count * 2 >= n->slots && !grow_interner(n))
		return INTERNER_NONE;
	i = find_slot(n, &key);
	if (n->slot[i])
		return n->slot[i] - 1;
	if (n->count >= INTERNER_NONE - 1 ||
	    !array_reserve(&n->key, &n->capacity, n->count, sizeof(*n->key)))
		return INTERNER_NONE;
	n->key[n->count] = key;
	n->slot[i] = (uint32_t)++n->count;
	*is_new = true;
	return (uint32_t)n->count - 1;
}

uint32_t interner_find(const struct interner *n, struct key key)
{
	size_t i = n->slots ? find_slot(n, &key) : 0;

	return n->slots && n->slot[i] ? n->slot[i] - 1 : INTERNER_NONE;
}

void interner_free(struct interner *n)
{
	free(n->key);
	free(n->slot);
}
