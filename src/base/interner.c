/* SPDX-License-Identifier: Apache-2.0 */
/* numbering.c: growing arrays, numbers for keys, ranks in sets. */
#include "base/interner.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

bool array_reserve(void *array, size_t *capacity, size_t count, size_t item_bytes)
{
	void *items, *grown;
	size_t wanted = *capacity + *capacity / 2 + 64;

	if (count < *capacity)
		return true;
	if (wanted <= count)
		wanted = count + 1;
	if (wanted > SIZE_MAX / 2 / item_bytes)
		return false;
	memcpy(&items, array, sizeof(items));
	grown = realloc(items, wanted * item_bytes);
	if (!grown)
		return false;
	memcpy(array, &grown, sizeof(grown));
	*capacity = wanted;
	assert(count < *capacity);
	return true;
}

bool array_reserve_filled(void *array, size_t *capacity, size_t count, size_t item_bytes, int fill)
{
	size_t before = *capacity;
	char *items;

	if (!array_reserve(array, capacity, count, item_bytes))
		return false;
	if (*capacity > before) {
		memcpy(&items, array, sizeof(items));
		memset(items + before * item_bytes, fill, (*capacity - before) * item_bytes);
	}
	return true;
}

uint64_t numbering_text(const char *text)
{
	uint64_t h = 0xcbf29ce484222325u;

	for (; *text; text++)
		h = (h ^ (unsigned char)*text) * 0x100000001b3u;
	return numbering_mix(h);
}

static size_t key_hash(const struct key *k)
{
	uint64_t h = k->word[0] * 0x9e3779b97f4a7c15u + k->word[1];

	h = (h ^ h >> 29) * 0xbf58476d1ce4e5b9u + k->word[2];
	h = (h ^ h >> 32) * 0x94d049bb133111ebu + k->word[3];
	return (size_t)numbering_mix(h);
}

static bool key_equal(const struct key *a, const struct key *b)
{
	return a->word[0] == b->word[0] && a->word[1] == b->word[1] && a->word[2] == b->word[2] &&
	       a->word[3] == b->word[3];
}

static void place_slot(struct numbering *n, uint32_t number)
{
	size_t i = key_hash(&n->key[number]) & (n->slots - 1);

	assert(number < n->count && n->count < n->slots);
	while (n->slot[i])
		i = (i + 1) & (n->slots - 1);
	n->slot[i] = number + 1;
}

static bool grow_numbering(struct numbering *n)
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
static size_t find_slot(const struct numbering *n, const struct key *key)
{
	size_t i = key_hash(key) & (n->slots - 1);

	assert(n->count < n->slots); /* so that each search ends */
	while (n->slot[i] && !key_equal(&n->key[n->slot[i] - 1], key))
		i = (i + 1) & (n->slots - 1);
	return i;
}

uint32_t numbering_of(struct numbering *n, struct key key, bool *is_new)
{
	size_t i;

	*is_new = false;
	if (n->count * 2 >= n->slots && !grow_numbering(n))
		return NUMBERING_NONE;
	i = find_slot(n, &key);
	if (n->slot[i])
		return n->slot[i] - 1;
	if (n->count >= NUMBERING_NONE - 1 ||
	    !array_reserve(&n->key, &n->capacity, n->count, sizeof(*n->key)))
		return NUMBERING_NONE;
	n->key[n->count] = key;
	n->slot[i] = (uint32_t)++n->count;
	*is_new = true;
	return (uint32_t)n->count - 1;
}

uint32_t numbering_find(const struct numbering *n, struct key key)
{
	size_t i = n->slots ? find_slot(n, &key) : 0;

	return n->slots && n->slot[i] ? n->slot[i] - 1 : NUMBERING_NONE;
}

void numbering_free(struct numbering *n)
{
	free(n->key);
	free(n->slot);
}

bool rank_set_begin(struct rank_set *r, size_t limit)
{
	size_t words = limit / 64 + 1;

	*r = (struct rank_set){.words = words};
	r->bits = calloc(words, sizeof(*r->bits));
	r->before = malloc(words * sizeof(*r->before));
	if (r->bits && r->before)
		return true;
	rank_set_free(r);
	return false;
}

void rank_set_count(struct rank_set *r)
{
	r->count = 0;
	for (size_t i = 0; i < r->words; i++) {
		r->before[i] = (uint32_t)r->count;
		r->count += count_bits(r->bits[i]);
	}
}

void rank_set_free(struct rank_set *r)
{
	free(r->bits);
	free(r->before);
	*r = (struct rank_set){0};
}
