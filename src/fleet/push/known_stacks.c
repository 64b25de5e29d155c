/* SPDX-License-Identifier: Apache-2.0 */
/* The stacks that a database has: see known_stacks.h. */
#include "fleet/push/known_stacks.h"

/* To forget one costs no more than to ask for it again. */
static void add(struct known_stacks *known, struct key id)
{
	bool new;

	interner_add(&known->ids, id, &new);
}

void known_stacks_add(struct known_stacks *known, const struct interner *ids)
{
	for (size_t i = 0; i < ids->count; i++)
		add(known, ids->key[i]);
}

void known_stacks_forget(struct known_stacks *known)
{
	interner_free(&known->ids);
	known->ids = (struct interner){0};
}

static bool take_known(void *known, struct row_binary *r)
{
	add(known, (struct key){{row_binary_fixed(r, 8)}});
	return true;
}

bool known_stacks_ask(struct known_stacks *known, struct clickhouse *c, const struct interner *ids)
{
	struct bytes asked = {0};
	const struct clickhouse_table table = {"asked", "stack UInt64", &asked};
	bool good;

	for (size_t i = 0; i < ids->count; i++)
		if (!known_stacks_has(known, ids->key[i]))
			bytes_put_fixed(&asked, ids->key[i].word[0], 8);
	good = !asked.used ||
	       clickhouse_rows(c, &table, take_known, known,
			       "SELECT stack FROM %s.stacks WHERE stack IN asked FORMAT RowBinary",
			       c->url.database);
	bytes_free(&asked);
	return good;
}
