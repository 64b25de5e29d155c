/* SPDX-License-Identifier: Apache-2.0 */
/* Forgets old processes: see fleet_trim.h. */
#include "fleet/fleet_trim.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define STATEMENT_BYTES 1024

static bool count(struct clickhouse *c, uint64_t *number, char *why, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* A statement whose answer is a number, or none. */
static bool count(struct clickhouse *c, uint64_t *number, char *why, const char *format, ...)
{
	char statement[STATEMENT_BYTES], *answer = NULL;
	va_list list;
	bool good;

	va_start(list, format);
	vsnprintf(statement, sizeof(statement), format, list);
	va_end(list);
	good = !clickhouse_run(c, statement, NULL, 0, &answer, NULL, why);
	*number = good ? strtoull(answer, NULL, 10) : 0;
	free(answer);
	return good;
}

/* The server deletes in the background. */
static bool wait_until_done(struct clickhouse *c, const char *database, char *why)
{
	struct timespec tenth = {.tv_nsec = 100000000};
	uint64_t open;

	while (count(c, &open, why,
		     "SELECT count() FROM system.mutations WHERE database = '%s' AND NOT is_done",
		     database)) {
		if (!open)
			return true;
		nanosleep(&tenth, NULL);
	}
	return false;
}

bool fleet_trim(struct clickhouse *c, const struct server_url *url, int64_t before_ns,
		uint64_t *processes, char *why)
{
	const char *database = url->database, *local;
	char old[STATEMENT_BYTES / 2];
	uint64_t cluster, none;

	snprintf(old, sizeof(old),
		 "process IN (SELECT process FROM %s.windows GROUP BY process HAVING max(end_ns) < "
		 "%" PRId64 ")",
		 database, before_ns);
	if (!count(c, &cluster, why,
		   "SELECT count() FROM system.tables WHERE database = '%s' AND name = "
		   "'windows_local'",
		   database))
		return false;
	local = cluster ? "_local" : "";
	if (!count(c, processes, why, "SELECT uniqExact(process) FROM %s.windows%s WHERE %s",
		   database, local, old))
		return false;
	/* Samples first: without the windows, nobody would know whose they are. */
	return !*processes ||
	       (count(c, &none, why,
		      "ALTER TABLE %s.samples%s DELETE WHERE push IN (SELECT push FROM "
		      "%s.windows%s WHERE %s)",
		      database, local, database, local, old) &&
		wait_until_done(c, database, why) &&
		count(c, &none, why, "ALTER TABLE %s.windows%s DELETE WHERE %s", database, local,
		      old) &&
		wait_until_done(c, database, why));
}
