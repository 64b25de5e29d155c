/* SPDX-License-Identifier: Apache-2.0 */
/* A server's own rows: see fleet_local.h. */
#include "fleet/fleet_local.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define STATEMENT_BYTES 1024

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

static bool wait_until_done(struct clickhouse *c, const char *database, char *why)
{
	struct timespec tenth = {.tv_nsec = 100000000};
	uint64_t open;

	while (fleet_count(
	    c, &open, why,
	    "SELECT count() FROM system.mutations WHERE database = '%s' AND NOT is_done",
	    database)) {
		if (!open)
			return true;
		nanosleep(&tenth, NULL);
	}
	return false;
}

bool fleet_delete(struct clickhouse *c, const char *database, char *why, const char *format, ...)
{
	uint64_t none;
	va_list list;
	bool good;

	va_start(list, format);
	good = run(c, &none, why, format, list);
	va_end(list);
	return good && wait_until_done(c, database, why);
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
