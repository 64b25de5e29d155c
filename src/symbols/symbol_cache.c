/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of a session of symbols: see symbol_cache.h. */
#include "symbols/symbol_cache.h"

#include <stdlib.h>
#include <string.h>

/* About 16 MiB with all that belongs to them. */
#define MOST_SYMBOLS ((size_t)256 << 10)

static size_t symbol_cache_slot(const struct symbol_cache *c, const char *file, uint64_t address)
{
	uint64_t hash = ((uintptr_t)file ^ address * 0x9e3779b97f4a7c15u) * 0xd6e8feb86659fd93u;
	size_t at = (size_t)(hash >> 32) & (c->slots - 1);

	while (c->slot[at].file && (c->slot[at].file != file || c->slot[at].address != address))
		at = (at + 1) & (c->slots - 1);
	return at;
}

const struct symbol_slot *symbol_cache_find(const struct symbol_cache *c, const char *file,
					    uint64_t address)
{
	const struct symbol_slot *slot;

	if (!c->slots)
		return NULL;
	slot = &c->slot[symbol_cache_slot(c, file, address)];
	return slot->file ? slot : NULL;
}

static int symbol_cache_grow(struct symbol_cache *c)
{
	struct symbol_cache larger = *c;

	larger.slots = c->slots ? c->slots * 2 : 1024;
	larger.slot = calloc(larger.slots, sizeof(*larger.slot));
	if (!larger.slot)
		return -1;
	for (size_t i = 0; i < c->slots; i++) {
		const struct symbol_slot *s = &c->slot[i];

		if (s->file)
			larger.slot[symbol_cache_slot(&larger, s->file, s->address)] = *s;
	}
	free(c->slot);
	*c = larger;
	return 0;
}

void symbol_cache_put(struct symbol_cache *c, const char *file, uint64_t address,
		      const struct symbol *list, size_t count)
{
	struct symbol *copy;
	size_t at;

	if (c->symbols + count > MOST_SYMBOLS)
		symbol_cache_free(c);
	if (count > MOST_SYMBOLS || (c->used >= c->slots / 2 && symbol_cache_grow(c)))
		return;
	at = symbol_cache_slot(c, file, address);
	copy = c->slot[at].file ? NULL : malloc(count * sizeof(*copy));
	if (!copy)
		return;
	memcpy(copy, list, count * sizeof(*copy));
	c->slot[at] = (struct symbol_slot){file, address, copy, count};
	c->used++;
	c->symbols += count;
}

void symbol_cache_free(struct symbol_cache *c)
{
	for (size_t i = 0; i < c->slots; i++)
		free(c->slot[i].list);
	free(c->slot);
	*c = (struct symbol_cache){0};
}
