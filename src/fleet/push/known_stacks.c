/* SPDX-License-Identifier: Apache-2.0 */
/* The stacks that a database has: see known_stacks.h. */
#include "fleet/push/known_stacks.h"

#include <stdio.h>
#include <stdlib.h>

#include "fleet/database/ask_rows.h"

#define STATEMENT_BYTES 256

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

enum clickhouse_failure known_stacks_ask(struct known_stacks *known, struct clickhouse *c,
					 const struct server_url *url, const struct interner *ids,
					 char *why)
{
	struct clickhouse_table table = {"asked", "stack UInt64"};
	char statement[STATEMENT_BYTES];
	enum clickhouse_failure failure;
	struct bytes asked = {0};

	for (size_t i = 0; i < ids->count; i++)
		if (!known_stacks_has(known, ids->key[i]))
			bytes_put_fixed(&asked, ids->key[i].word[0], 8);
	if (!asked.used)
		return CLICKHOUSE_GOOD;
	table.rows = asked.at;
	table.size = asked.used;
	snprintf(statement, sizeof(statement),
		 "SELECT stack FROM %s.stacks WHERE stack IN asked FORMAT RowBinary",
		 url->database);
	failure = ask_rows(c, statement, &table, take_known, known, why);
	bytes_free(&asked);
	return failure;
}
