/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of a session of symbols: see symbol_cache.h. */
#include "symbols/symbol_cache.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

/* About 16 MiB with all that belongs to them. */
#define MOST_SYMBOLS ((size_t)256 << 10)

static struct key key_of(const char *file, uint64_t address)
{
	return (struct key){{(uintptr_t)file, address}};
}

const struct symbol_slot *symbol_cache_find(const struct symbol_cache *c, const char *file,
					    uint64_t address)
{
	uint32_t number = interner_find(&c->places, key_of(file, address));

	return number == INTERNER_NONE || !c->slot[number].file ? NULL : &c->slot[number];
}

void symbol_cache_put(struct symbol_cache *c, const char *file, uint64_t address,
		      const struct symbol *list, size_t count)
{
	struct symbol *copy;
	uint32_t number;
	bool is_new;

	if (c->symbols + count > MOST_SYMBOLS)
		symbol_cache_free(c);
	if (count > MOST_SYMBOLS ||
	    !array_reserve(&c->slot, &c->room, c->places.count, sizeof(*c->slot)))
		return;
	number = interner_add(&c->places, key_of(file, address), &is_new);
	if (!is_new)
		return;
	copy = malloc(count * sizeof(*copy));
	c->slot[number] = (struct symbol_slot){copy ? file : NULL, address, copy, count};
	if (!copy)
		return;
	memcpy(copy, list, count * sizeof(*copy));
	c->symbols += count;
}

void symbol_cache_free(struct symbol_cache *c)
{
	for (size_t i = 0; i < c->places.count; i++)
		free(c->slot[i].list);
	free(c->slot);
	interner_free(&c->places);
	*c = (struct symbol_cache){0};
}
