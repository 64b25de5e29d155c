/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of a fleet's database: see fleet_schema.h. The SQL is what servers from 18.16 on take. */
#include "fleet/database/fleet_schema.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fleet/database/fleet_local.h"

#define STATEMENT_BYTES 4096
#define PLACE_BYTES	200

/* A server of a cluster has its part of NAME in NAME_local. What a push has stays together. */
struct table {
	const char *name, *columns;
	const char *kind; /* of MergeTree */
	const char *order, *part_by;
};

static const struct table tables[] = {
    {"frames",
     "frame UInt64, function String, file String, line UInt32, module String, address UInt64",
     "Replacing", "ORDER BY frame", "frame"},
    {"stacks", "stack UInt64, frames Array(UInt64)", "Replacing", "ORDER BY stack", "stack"},
    {"samples",
     "day Date, service String, push UInt64, stack UInt64, "
     "allocated_bytes Float64, allocated_bytes_variance Float64, "
     "allocated_blocks Float64, allocated_blocks_variance Float64, allocated_samples UInt64, "
     "live_bytes Float64, live_bytes_variance Float64, "
     "live_blocks Float64, live_blocks_variance Float64, live_samples UInt64, "
     "peak_bytes Float64, peak_bytes_variance Float64, "
     "peak_blocks Float64, peak_blocks_variance Float64, peak_samples UInt64",
     "", "PARTITION BY day ORDER BY (service, push, stack)", "push"},
    {"windows",
     "day Date, service String, version String, host String, process UInt64, window UInt64, "
     "push UInt64, "
     "program String, command String, pid UInt32, begin_ns Int64, end_ns Int64, "
     "exact UInt8, interval_bytes UInt64, samples UInt64, "
     "allocated_bytes Float64, live_bytes Float64, peak_bytes Float64, "
     "rss_bytes UInt64, rss_most_bytes UInt64, cpu_ns UInt64, "
     "labels Nested(key String, value String), pushed DateTime, share Float64 DEFAULT 1",
     "", "PARTITION BY day ORDER BY (service, version, host, begin_ns, window)", "push"},
};

#define TABLES (sizeof(tables) / sizeof(*tables))

/* What the tables of a version have beyond those of the version before it, at their ends. */
struct addition {
	unsigned long version;
	const char *table, *column, *type;
};

static const struct addition additions[] = {{2, "windows", "share", "Float64 DEFAULT 1"}};

#define ADDITIONS (sizeof(additions) / sizeof(*additions))

/* *cluster: the tables are those of a cluster. */
static enum clickhouse_failure version_of(struct clickhouse *c, const char *database,
					  unsigned long *version, bool *cluster, char *why)
{
	char statement[STATEMENT_BYTES], *answer = NULL, *name;
	enum clickhouse_failure failure;

	snprintf(statement, sizeof(statement), "SELECT max(version), max(cluster) FROM %s.mayfly",
		 database);
	failure = clickhouse_run(c, statement, NULL, 0, &answer, NULL, why);
	*version = failure ? 0 : strtoul(answer, NULL, 10);
	name = failure ? NULL : strchr(answer, '\t');
	*cluster = name && name[1] && name[1] != '\n';
	free(answer);
	return failure;
}

static bool say_newer_version(unsigned long version, char *why)
{
	snprintf(why, CLICKHOUSE_WHY,
		 "its tables have version %lu, and this mayfly has version %d: use another "
		 "database, or the mayfly that made them",
		 version, FLEET_SCHEMA_VERSION);
	return false;
}

static bool run(struct clickhouse *c, char *why, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static bool run(struct clickhouse *c, char *why, const char *format, ...)
{
	char statement[STATEMENT_BYTES];
	va_list list;

	va_start(list, format);
	vsnprintf(statement, sizeof(statement), format, list);
	va_end(list);
	return !clickhouse_run(c, statement, NULL, 0, NULL, NULL, why);
}

/* Where the replicas of a table meet, and what one is called there; or nothing. */
static void say_place(char *place, const char *database, const char *table, bool replicas)
{
	*place = 0;
	if (replicas)
		snprintf(place, PLACE_BYTES, "'/clickhouse/tables/{shard}/%s/%s', '{replica}'",
			 database, table);
}

/* The version comes last: with it, all tables are there. */
static bool make_tables(struct clickhouse *c, const char *database, const char *cluster,
			bool replicas, char *why)
{
	bool good = run(c, why, "CREATE DATABASE IF NOT EXISTS %s", database);
	char place[PLACE_BYTES];

	for (const struct table *t = tables; good && t < tables + TABLES; t++) {
		say_place(place, database, t->name, replicas);
		good = run(c, why,
			   "CREATE TABLE IF NOT EXISTS %s.%s%s (%s) ENGINE = %s%sMergeTree(%s) %s",
			   database, t->name, cluster ? "_local" : "", t->columns,
			   replicas ? "Replicated" : "", t->kind, place, t->order);
		if (good && cluster)
			good = run(c, why,
				   "CREATE TABLE IF NOT EXISTS %s.%s (%s) ENGINE = "
				   "Distributed('%s', '%s', '%s_local', %s)",
				   database, t->name, t->columns, cluster, database, t->name,
				   t->part_by);
	}
	return good &&
	       run(c, why,
		   "CREATE TABLE IF NOT EXISTS %s.mayfly (version UInt32, cluster String) "
		   "ENGINE = MergeTree() ORDER BY version",
		   database) &&
	       run(c, why, "INSERT INTO %s.mayfly VALUES (%d, '%s')", database,
		   FLEET_SCHEMA_VERSION, cluster ? cluster : "");
}

/* ADD COLUMN IF NOT EXISTS is newer than 18.16. */
static bool has_column(struct clickhouse *c, const char *database, const char *table,
		       const char *column)
{
	char why[CLICKHOUSE_WHY];
	uint64_t columns;

	return fleet_count(c, &columns, why,
			   "SELECT count() FROM system.columns WHERE database = '%s' AND table = "
			   "'%s' AND name = '%s'",
			   database, table, column) &&
	       columns;
}

/* Two that do it at once do no harm; a replica has what another one was given. */
static bool add_column(struct clickhouse *c, const char *database, const struct addition *a,
		       const char *local, char *why)
{
	char table[PLACE_BYTES];

	snprintf(table, sizeof(table), "%s%s", a->table, local);
	return has_column(c, database, table, a->column) ||
	       run(c, why, "ALTER TABLE %s.%s ADD COLUMN %s %s", database, table, a->column,
		   a->type) ||
	       has_column(c, database, table, a->column);
}

/* A part that a server has of a table comes before the whole. The version comes last, as ever. */
static bool migrate(struct clickhouse *c, const char *database, unsigned long version,
		    bool distributed, char *why)
{
	for (const struct addition *a = additions; a < additions + ADDITIONS; a++)
		if (a->version > version &&
		    ((distributed && !add_column(c, database, a, "_local", why)) ||
		     !add_column(c, database, a, "", why)))
			return false;
	return run(c, why, "INSERT INTO %s.mayfly SELECT toUInt32(%d), max(cluster) FROM %s.mayfly",
		   database, FLEET_SCHEMA_VERSION, database);
}

/* Any name that a configuration may have, and nothing that would have to be escaped. */
static bool is_cluster_name(const char *name)
{
	return *name && strlen(name) < 200 &&
	       !name[strspn(name,
			    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.")];
}

static bool refuse(char *why, const char *reason)
{
	snprintf(why, CLICKHOUSE_WHY, "%s", reason);
	return false;
}

static bool has_cluster(struct clickhouse *c, const char *cluster, char *why)
{
	uint64_t servers;

	if (!is_cluster_name(cluster)) {
		snprintf(why, CLICKHOUSE_WHY, "'%s' is no name of a cluster", cluster);
		return false;
	}
	if (!fleet_count(c, &servers, why,
			 "SELECT count() FROM system.clusters WHERE cluster = '%s'", cluster))
		return false;
	if (!servers)
		snprintf(why, CLICKHOUSE_WHY,
			 "the server's configuration has no cluster '%s' (remote_servers)",
			 cluster);
	return servers != 0;
}

/* Servers that are too old to say it are believed. */
static bool writes_one_replica(struct clickhouse *c, const char *cluster, char *why)
{
	uint64_t several = 0;

	if (has_column(c, "system", "clusters", "internal_replication") &&
	    !fleet_count(c, &several, why,
			 "SELECT count() FROM system.clusters WHERE cluster = '%s' AND NOT "
			 "internal_replication",
			 cluster))
		return false;
	return !several ||
	       refuse(why, "replicas need internal_replication = true in each shard of the "
			   "cluster in the server's configuration");
}

static bool can_replicate(struct clickhouse *c, const char *cluster, char *why)
{
	static const char keeper[] = "SELECT count() FROM system.zookeeper WHERE path = '/'";
	char said[CLICKHOUSE_WHY];
	uint64_t macros;

	switch (clickhouse_run(c, keeper, NULL, 0, NULL, NULL, said)) {
	case CLICKHOUSE_GOOD:
		break;
	case CLICKHOUSE_NO_TABLE:
		return refuse(why, "replicas need ZooKeeper or ClickHouse Keeper, and the server's "
				   "configuration names none");
	case CLICKHOUSE_AWAY:
	case CLICKHOUSE_REFUSED:
		snprintf(why, CLICKHOUSE_WHY, "replicas need ZooKeeper: %.500s", said);
		return false;
	}
	if (!fleet_count(c, &macros, why,
			 "SELECT count() FROM system.macros WHERE macro IN ('shard', 'replica')"))
		return false;
	if (macros != 2)
		return refuse(why, "replicas need the macros 'shard' and 'replica', and the "
				   "server's configuration does not have both");
	return writes_one_replica(c, cluster, why);
}

/* Whether tables that are there are such as are asked for. */
static bool are_alike(struct clickhouse *c, const char *database, bool distributed,
		      const char *cluster, bool replicas, bool old, char *why)
{
	bool replicated;

	if (distributed != (cluster != NULL) && (cluster || !old)) {
		snprintf(why, CLICKHOUSE_WHY, "it has tables already, %s a cluster",
			 distributed ? "of" : "without");
		return false;
	}
	return !replicas ||
	       (fleet_replicated(c, database, &replicated, why) &&
		(replicated || refuse(why, "it has tables already, without replicas")));
}

bool fleet_schema_make(struct clickhouse *c, const char *database, const char *cluster,
		       bool replicas, enum fleet_schema_made *made, char *why)
{
	unsigned long version;
	bool distributed;
	enum clickhouse_failure failure = version_of(c, database, &version, &distributed, why);

	if (failure && failure != CLICKHOUSE_NO_TABLE)
		return false;
	if (!version && ((cluster && !has_cluster(c, cluster, why)) ||
			 (replicas && !can_replicate(c, cluster, why))))
		return false;
	if (version > FLEET_SCHEMA_VERSION)
		return say_newer_version(version, why);
	if (version && !are_alike(c, database, distributed, cluster, replicas,
				  version < FLEET_SCHEMA_VERSION, why))
		return false;
	*made = !version			  ? FLEET_SCHEMA_MADE
		: version == FLEET_SCHEMA_VERSION ? FLEET_SCHEMA_THERE
						  : FLEET_SCHEMA_MIGRATED;
	switch (*made) {
	case FLEET_SCHEMA_MADE:
		return make_tables(c, database, cluster, replicas, why);
	case FLEET_SCHEMA_MIGRATED:
		return migrate(c, database, version, distributed, why);
	case FLEET_SCHEMA_THERE:
		break;
	}
	return true;
}

bool fleet_schema_check(struct clickhouse *c, const struct server_url *url,
			enum clickhouse_failure *failure, char *why)
{
	unsigned long version;
	bool cluster;

	*failure = version_of(c, url->database, &version, &cluster, why);
	if (cluster)
		clickhouse_distributed(c);
	if (*failure && *failure != CLICKHOUSE_NO_TABLE)
		return false;
	if (version == FLEET_SCHEMA_VERSION)
		return true;
	*failure = CLICKHOUSE_NO_TABLE;
	if (version > FLEET_SCHEMA_VERSION)
		return say_newer_version(version, why);
	if (version)
		snprintf(
		    why, CLICKHOUSE_WHY,
		    "its tables have version %lu; 'mayfly fleet init %s' brings them to version "
		    "%d",
		    version, url->shown, FLEET_SCHEMA_VERSION);
	else
		snprintf(why, CLICKHOUSE_WHY,
			 "it has no tables of mayfly; 'mayfly fleet init %s' makes them",
			 url->shown);
	return false;
}
