/* SPDX-License-Identifier: Apache-2.0 */
/* The blocks that are live: see live_table.h. */
#include "trace/live_table.h"

#include <stdlib.h>

#define LEAST_SIZE 64u

static size_t next_place(const struct live_table *t, size_t i)
{
	return i + 1 == t->size ? 0 : i + 1;
}

static void put(struct live_table *t, const struct live_block *block)
{
	size_t i = live_place(t, block->key);

	while (t->block[i].key)
		i = next_place(t, i);
	t->block[i] = *block;
}

static bool resize(struct live_table *t, size_t size)
{
	struct live_table fresh = {.size = size, .used = t->used};

	if (size > SIZE_MAX / sizeof(*fresh.block))
		return false;
	fresh.block = calloc(size, sizeof(*fresh.block));
	if (!fresh.block)
		return false;
	for (size_t i = 0; i < t->size; i++)
		if (t->block[i].key)
			put(&fresh, &t->block[i]);
	free(t->block);
	*t = fresh;
	return true;
}

bool live_grow(struct live_table *t)
{
	return resize(t, t->size ? t->size + t->size / 2 : LEAST_SIZE);
}

/* Whether a block whose place is `home` may move from `from` up to the hole. */
static bool may_move(size_t home, size_t from, size_t hole)
{
	if (hole < from)
		return home <= hole || home > from;
	return home <= hole && home > from;
}

void live_remove(struct live_table *t, struct live_block *block)
{
	size_t hole = (size_t)(block - t->block);

	for (size_t i = next_place(t, hole); t->block[i].key; i = next_place(t, i)) {
		if (!may_move(live_place(t, t->block[i].key), i, hole))
			continue;
		t->block[hole] = t->block[i];
		hole = i;
	}
	t->block[hole].key = 0;
	t->used--;
	/* When there is no memory for a smaller one, the larger one will do. */
	if (t->size > LEAST_SIZE && t->used < t->size / 8)
		resize(t, t->size / 3);
}

void live_free(struct live_table *t)
{
	free(t->block);
	*t = (struct live_table){0};
}
