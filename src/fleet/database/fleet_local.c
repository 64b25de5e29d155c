/* SPDX-License-Identifier: Apache-2.0 */
/* A server's own rows: see fleet_local.h. */
#include "fleet/database/fleet_local.h"

#include <stdio.h>
#include <time.h>

#define CATCH_UP_TENTHS 200
#define DELETE_TRIES	20

static const struct timespec tenth = {.tv_nsec = 100000000};

bool fleet_replicated(struct clickhouse *c, bool *replicated)
{
	uint64_t tables;
	bool good =
	    clickhouse_number(c, &tables,
			      "SELECT count() FROM system.tables WHERE database = '%s' AND name "
			      "= 'windows_local' AND engine LIKE 'Replicated%%'",
			      c->url.database);

	*replicated = good && tables;
	return good;
}

bool fleet_catch_up(struct clickhouse *c)
{
	uint64_t behind = 1;

	for (int i = 0; i < CATCH_UP_TENTHS && behind; i++) {
		if (i)
			nanosleep(&tenth, NULL);
		if (!clickhouse_number(
			c, &behind,
			"SELECT count() FROM system.replicas WHERE database = '%s' AND "
			"(is_readonly OR inserts_in_queue > 0 OR (log_max_index > 0 AND "
			"log_pointer <= log_max_index))",
			c->url.database))
			return false;
	}
	return !behind ||
	       clickhouse_fail(c,
			       "the server lacks rows that other replicas have; take one of those, "
			       "or wait until it has them");
}

/* Grows with each mutation, also when old ones are forgotten. Replicas know of a mutation a moment after it was
 * asked for. */
static bool last_mutation(struct clickhouse *c, uint64_t *last)
{
	return clickhouse_number(
	    c, last,
	    "SELECT sum(last + 1) FROM (SELECT max(toUInt64OrZero(extract(mutation_id, "
	    "'[0-9]+'))) AS last FROM system.mutations WHERE database = '%s' GROUP "
	    "BY table)",
	    c->url.database);
}

static bool wait_until_done(struct clickhouse *c, uint64_t before)
{
	uint64_t last, open;

	while (last_mutation(c, &last) &&
	       clickhouse_number(
		   c, &open,
		   "SELECT count() FROM system.mutations WHERE database = '%s' AND NOT is_done",
		   c->url.database)) {
		if (last > before && !open)
			return true;
		nanosleep(&tenth, NULL);
	}
	return false;
}

/* Newer servers ask for it, as each replica may see other rows in the tables that a condition asks. */
static const char own_condition[] = "allow_nondeterministic_mutations";

static bool delete_once(struct clickhouse *c, const char *table, const char *condition)
{
	uint64_t known, before;
	char settings[100] = "";

	if (!last_mutation(c, &before) ||
	    !clickhouse_number(c, &known, "SELECT count() FROM system.settings WHERE name = '%s'",
			       own_condition))
		return false;
	if (known)
		snprintf(settings, sizeof(settings), " SETTINGS %s = 1", own_condition);
	return clickhouse_run(c, "ALTER TABLE %s.%s DELETE WHERE %s%s", c->url.database, table,
			      condition, settings) &&
	       wait_until_done(c, before);
}

/* Replicas take over what the first one of them did, and that may not have had all rows yet. */
bool fleet_delete(struct clickhouse *c, const char *table, const char *condition)
{
	uint64_t rows;

	for (int i = 0; i < DELETE_TRIES; i++) {
		if (!clickhouse_number(c, &rows, "SELECT count() FROM %s.%s WHERE %s",
				       c->url.database, table, condition))
			return false;
		if (!rows)
			return true;
		if (!delete_once(c, table, condition))
			return false;
	}
	return clickhouse_fail(c, "rows of %s are not deleted yet; run it again later", table);
}

const char *fleet_local(struct clickhouse *c)
{
	uint64_t cluster;

	if (!clickhouse_number(c, &cluster,
			       "SELECT count() FROM system.tables WHERE database = '%s' AND name = "
			       "'windows_local'",
			       c->url.database))
		return NULL;
	return cluster ? "_local" : "";
}
