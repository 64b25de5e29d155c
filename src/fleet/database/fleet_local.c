/* SPDX-License-Identifier: Apache-2.0 */
/* A server's own rows: see fleet_local.h. */
#include "fleet/database/fleet_local.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define STATEMENT_BYTES 2048
#define CATCH_UP_TENTHS 200
#define DELETE_TRIES	20

static bool run(struct clickhouse *c, uint64_t *number, char *why, const char *format, va_list list)
{
	char statement[STATEMENT_BYTES], *answer = NULL;
	bool good;

	vsnprintf(statement, sizeof(statement), format, list);
	good = !clickhouse_run(c, statement, NULL, 0, &answer, NULL, why);
	*number = good ? strtoull(answer, NULL, 10) : 0;
	free(answer);
	return good;
}

bool fleet_count(struct clickhouse *c, uint64_t *number, char *why, const char *format, ...)
{
	va_list list;
	bool good;

	va_start(list, format);
	good = run(c, number, why, format, list);
	va_end(list);
	return good;
}

static const struct timespec tenth = {.tv_nsec = 100000000};

bool fleet_replicated(struct clickhouse *c, const char *database, bool *replicated, char *why)
{
	uint64_t tables;
	bool good = fleet_count(c, &tables, why,
				"SELECT count() FROM system.tables WHERE database = '%s' AND name "
				"= 'windows_local' AND engine LIKE 'Replicated%%'",
				database);

	*replicated = good && tables;
	return good;
}

bool fleet_catch_up(struct clickhouse *c, const char *database, char *why)
{
	uint64_t behind = 1;

	for (int i = 0; i < CATCH_UP_TENTHS && behind; i++) {
		if (i)
			nanosleep(&tenth, NULL);
		if (!fleet_count(c, &behind, why,
				 "SELECT count() FROM system.replicas WHERE database = '%s' AND "
				 "(is_readonly OR inserts_in_queue > 0 OR (log_max_index > 0 AND "
				 "log_pointer <= log_max_index))",
				 database))
			return false;
	}
	if (behind)
		snprintf(why, CLICKHOUSE_WHY,
			 "the server lacks rows that other replicas have; take one of those, or "
			 "wait until it has them");
	return !behind;
}

/* Grows with each mutation, also when old ones are forgotten. Of replicas, a mutation comes to be known a moment
 * after it was asked for. */
static bool last_mutation(struct clickhouse *c, const char *database, uint64_t *last, char *why)
{
	return fleet_count(
	    c, last, why,
	    "SELECT sum(last + 1) FROM (SELECT max(toUInt64OrZero(extract(mutation_id, "
	    "'[0-9]+'))) AS last FROM system.mutations WHERE database = '%s' GROUP "
	    "BY table)",
	    database);
}

static bool wait_until_done(struct clickhouse *c, const char *database, uint64_t before, char *why)
{
	uint64_t last, open;

	while (last_mutation(c, database, &last, why) &&
	       fleet_count(
		   c, &open, why,
		   "SELECT count() FROM system.mutations WHERE database = '%s' AND NOT is_done",
		   database)) {
		if (last > before && !open)
			return true;
		nanosleep(&tenth, NULL);
	}
	return false;
}

/* Newer servers ask for it, as each replica may see other rows in the tables that a condition asks. */
static const char own_condition[] = "allow_nondeterministic_mutations";

static bool delete_once(struct clickhouse *c, const char *database, const char *table,
			const char *condition, char *why)
{
	uint64_t known, before, none;
	char settings[100] = "";

	if (!last_mutation(c, database, &before, why) ||
	    !fleet_count(c, &known, why, "SELECT count() FROM system.settings WHERE name = '%s'",
			 own_condition))
		return false;
	if (known)
		snprintf(settings, sizeof(settings), " SETTINGS %s = 1", own_condition);
	return fleet_count(c, &none, why, "ALTER TABLE %s.%s DELETE WHERE %s%s", database, table,
			   condition, settings) &&
	       wait_until_done(c, database, before, why);
}

/* Replicas take over what the first one of them did, and that may not have had all rows yet. */
bool fleet_delete(struct clickhouse *c, const char *database, const char *table,
		  const char *condition, char *why)
{
	uint64_t rows;

	for (int i = 0; i < DELETE_TRIES; i++) {
		if (!fleet_count(c, &rows, why, "SELECT count() FROM %s.%s WHERE %s", database,
				 table, condition))
			return false;
		if (!rows)
			return true;
		if (!delete_once(c, database, table, condition, why))
			return false;
	}
	snprintf(why, CLICKHOUSE_WHY, "rows of %s are not deleted yet; run it again later", table);
	return false;
}

const char *fleet_local(struct clickhouse *c, const char *database, char *why)
{
	uint64_t cluster;

	if (!fleet_count(c, &cluster, why,
			 "SELECT count() FROM system.tables WHERE database = '%s' AND name = "
			 "'windows_local'",
			 database))
		return NULL;
	return cluster ? "_local" : "";
}
