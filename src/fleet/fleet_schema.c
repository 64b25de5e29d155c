/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of a fleet's database: see fleet_schema.h. The SQL is what servers from 18.16 on take. */
#include "fleet/fleet_schema.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STATEMENT_BYTES 4096

/* %s: the database. The version comes last: with it, all tables are there. */
static const char *const statements[] = {
    "CREATE DATABASE IF NOT EXISTS %s",

    "CREATE TABLE IF NOT EXISTS %s.frames ("
    "frame UInt64, function String, file String, line UInt32, module String, address UInt64"
    ") ENGINE = ReplacingMergeTree() ORDER BY frame",

    "CREATE TABLE IF NOT EXISTS %s.stacks ("
    "stack UInt64, frames Array(UInt64)"
    ") ENGINE = ReplacingMergeTree() ORDER BY stack",

    "CREATE TABLE IF NOT EXISTS %s.samples ("
    "day Date, service String, push UInt64, stack UInt64, "
    "allocated_bytes Float64, allocated_bytes_variance Float64, "
    "allocated_blocks Float64, allocated_blocks_variance Float64, allocated_samples UInt64, "
    "live_bytes Float64, live_bytes_variance Float64, "
    "live_blocks Float64, live_blocks_variance Float64, live_samples UInt64, "
    "peak_bytes Float64, peak_bytes_variance Float64, "
    "peak_blocks Float64, peak_blocks_variance Float64, peak_samples UInt64"
    ") ENGINE = MergeTree() PARTITION BY day ORDER BY (service, push, stack)",

    "CREATE TABLE IF NOT EXISTS %s.windows ("
    "day Date, service String, version String, host String, process UInt64, window UInt64, "
    "push UInt64, "
    "program String, command String, pid UInt32, begin_ns Int64, end_ns Int64, "
    "exact UInt8, interval_bytes UInt64, samples UInt64, "
    "allocated_bytes Float64, live_bytes Float64, peak_bytes Float64, "
    "rss_bytes UInt64, rss_most_bytes UInt64, cpu_ns UInt64, "
    "labels Nested(key String, value String), pushed DateTime"
    ") ENGINE = MergeTree() PARTITION BY day ORDER BY (service, version, host, begin_ns, window)",

    "CREATE TABLE IF NOT EXISTS %s.mayfly (version UInt32) ENGINE = MergeTree() ORDER BY version",
};

static enum clickhouse_failure version_of(struct clickhouse *c, const char *database,
					  unsigned long *version, char *why)
{
	char statement[STATEMENT_BYTES], *answer = NULL;
	enum clickhouse_failure failure;

	snprintf(statement, sizeof(statement), "SELECT max(version) FROM %s.mayfly", database);
	failure = clickhouse_run(c, statement, NULL, 0, &answer, NULL, why);
	*version = failure ? 0 : strtoul(answer, NULL, 10);
	free(answer);
	return failure;
}

static bool say_other_version(unsigned long version, char *why)
{
	snprintf(why, CLICKHOUSE_WHY,
		 "its tables have version %lu, and this mayfly has version %d: use another "
		 "database, or the mayfly that made them",
		 version, FLEET_SCHEMA_VERSION);
	return false;
}

bool fleet_schema_make(struct clickhouse *c, const char *database, bool *made, char *why)
{
	char statement[STATEMENT_BYTES];
	unsigned long version;
	enum clickhouse_failure failure = version_of(c, database, &version, why);

	*made = false;
	if (failure && failure != CLICKHOUSE_NO_TABLE)
		return false;
	if (version == FLEET_SCHEMA_VERSION)
		return true;
	if (version)
		return say_other_version(version, why);
	for (size_t i = 0; i < sizeof(statements) / sizeof(*statements); i++) {
		snprintf(statement, sizeof(statement), statements[i], database);
		if (clickhouse_run(c, statement, NULL, 0, NULL, NULL, why))
			return false;
	}
	snprintf(statement, sizeof(statement), "INSERT INTO %s.mayfly VALUES (%d)", database,
		 FLEET_SCHEMA_VERSION);
	*made = true;
	return !clickhouse_run(c, statement, NULL, 0, NULL, NULL, why);
}

bool fleet_schema_check(struct clickhouse *c, const struct server_url *url,
			enum clickhouse_failure *failure, char *why)
{
	unsigned long version;

	*failure = version_of(c, url->database, &version, why);
	if (*failure && *failure != CLICKHOUSE_NO_TABLE)
		return false;
	if (version == FLEET_SCHEMA_VERSION)
		return true;
	*failure = CLICKHOUSE_NO_TABLE;
	if (version)
		return say_other_version(version, why);
	snprintf(why, CLICKHOUSE_WHY,
		 "it has no tables of mayfly; 'mayfly fleet init %s' makes them", url->shown);
	return false;
}
