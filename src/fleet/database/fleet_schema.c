/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of a fleet's database: see fleet_schema.h. The SQL is what servers from 18.16 on take. */
#include "fleet/database/fleet_schema.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fleet/database/fleet_local.h"

#define PLACE_BYTES 200

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

/* *cluster: the tables are those of a cluster. *version is 0 when there are none. */
static bool version_of(struct clickhouse *c, unsigned long *version, bool *cluster)
{
	char *answer =
	    clickhouse_text(c, "SELECT max(version), max(cluster) FROM %s.mayfly", c->url.database);
	const char *name = answer ? strchr(answer, '\t') : NULL;

	*version = answer ? strtoul(answer, NULL, 10) : 0;
	*cluster = name && name[1] && name[1] != '\n';
	free(answer);
	return answer || c->failure == CLICKHOUSE_NO_TABLE;
}

static bool say_newer_version(struct clickhouse *c, unsigned long version)
{
	return clickhouse_fail(c,
			       "its tables have version %lu, and this mayfly has version %d: use "
			       "another database, or the mayfly that made them",
			       version, FLEET_SCHEMA_VERSION);
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
static bool make_tables(struct clickhouse *c, const char *cluster, bool replicas)
{
	const char *database = c->url.database;
	bool good = clickhouse_run(c, "CREATE DATABASE IF NOT EXISTS %s", database);
	char place[PLACE_BYTES];

	for (const struct table *t = tables; good && t < tables + TABLES; t++) {
		say_place(place, database, t->name, replicas);
		good = clickhouse_run(
		    c, "CREATE TABLE IF NOT EXISTS %s.%s%s (%s) ENGINE = %s%sMergeTree(%s) %s",
		    database, t->name, cluster ? "_local" : "", t->columns,
		    replicas ? "Replicated" : "", t->kind, place, t->order);
		if (good && cluster)
			good = clickhouse_run(c,
					      "CREATE TABLE IF NOT EXISTS %s.%s (%s) ENGINE = "
					      "Distributed('%s', '%s', '%s_local', %s)",
					      database, t->name, t->columns, cluster, database,
					      t->name, t->part_by);
	}
	return good &&
	       clickhouse_run(
		   c,
		   "CREATE TABLE IF NOT EXISTS %s.mayfly (version UInt32, cluster String) "
		   "ENGINE = MergeTree() ORDER BY version",
		   database) &&
	       clickhouse_run(c, "INSERT INTO %s.mayfly VALUES (%d, '%s')", database,
			      FLEET_SCHEMA_VERSION, cluster ? cluster : "");
}

/* ADD COLUMN IF NOT EXISTS is newer than 18.16. */
static bool has_column(struct clickhouse *c, const char *database, const char *table,
		       const char *column)
{
	uint64_t columns;

	return clickhouse_number(
		   c, &columns,
		   "SELECT count() FROM system.columns WHERE database = '%s' AND table = "
		   "'%s' AND name = '%s'",
		   database, table, column) &&
	       columns;
}

/* Two that do it at once do no harm; a replica has what another one was given. */
static bool add_column(struct clickhouse *c, const struct addition *a, const char *local)
{
	const char *database = c->url.database;
	char table[PLACE_BYTES];

	snprintf(table, sizeof(table), "%s%s", a->table, local);
	return has_column(c, database, table, a->column) ||
	       clickhouse_run(c, "ALTER TABLE %s.%s ADD COLUMN %s %s", database, table, a->column,
			      a->type) ||
	       has_column(c, database, table, a->column);
}

/* A part that a server has of a table comes before the whole. The version comes last, as ever. */
static bool migrate(struct clickhouse *c, unsigned long version, bool distributed)
{
	const char *database = c->url.database;

	for (const struct addition *a = additions; a < additions + ADDITIONS; a++)
		if (a->version > version &&
		    ((distributed && !add_column(c, a, "_local")) || !add_column(c, a, "")))
			return false;
	return clickhouse_run(
	    c, "INSERT INTO %s.mayfly SELECT toUInt32(%d), max(cluster) FROM %s.mayfly", database,
	    FLEET_SCHEMA_VERSION, database);
}

/* Any name that a configuration may have, and nothing that would have to be escaped. */
static bool is_cluster_name(const char *name)
{
	return *name && strlen(name) < 200 &&
	       !name[strspn(name,
			    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.")];
}

static bool has_cluster(struct clickhouse *c, const char *cluster)
{
	uint64_t servers;

	if (!is_cluster_name(cluster))
		return clickhouse_fail(c, "'%s' is no name of a cluster", cluster);
	if (!clickhouse_number(c, &servers,
			       "SELECT count() FROM system.clusters WHERE cluster = '%s'", cluster))
		return false;
	return servers || clickhouse_fail(c,
					  "the server's configuration has no cluster '%s' "
					  "(remote_servers)",
					  cluster);
}

/* Servers that are too old to say it are believed. */
static bool writes_one_replica(struct clickhouse *c, const char *cluster)
{
	uint64_t several = 0;

	if (has_column(c, "system", "clusters", "internal_replication") &&
	    !clickhouse_number(c, &several,
			       "SELECT count() FROM system.clusters WHERE cluster = '%s' AND NOT "
			       "internal_replication",
			       cluster))
		return false;
	return !several ||
	       clickhouse_fail(c, "replicas need internal_replication = true in each shard of the "
				  "cluster in the server's configuration");
}

static bool can_replicate(struct clickhouse *c, const char *cluster)
{
	uint64_t macros;

	if (!clickhouse_run(c, "SELECT count() FROM system.zookeeper WHERE path = '/'"))
		return c->failure == CLICKHOUSE_NO_TABLE
			   ? clickhouse_fail(c, "replicas need ZooKeeper or ClickHouse Keeper, and "
						"the server's configuration names none")
			   : clickhouse_fail(c, "replicas need ZooKeeper: %.500s", c->why);
	if (!clickhouse_number(
		c, &macros,
		"SELECT count() FROM system.macros WHERE macro IN ('shard', 'replica')"))
		return false;
	if (macros != 2)
		return clickhouse_fail(c, "replicas need the macros 'shard' and 'replica', and the "
					  "server's configuration does not have both");
	return writes_one_replica(c, cluster);
}

/* Whether tables that are there are such as are asked for. */
static bool are_alike(struct clickhouse *c, bool distributed, const char *cluster, bool replicas,
		      bool old)
{
	bool replicated;

	if (distributed != (cluster != NULL) && (cluster || !old))
		return clickhouse_fail(c, "it has tables already, %s a cluster",
				       distributed ? "of" : "without");
	return !replicas ||
	       (fleet_replicated(c, &replicated) &&
		(replicated || clickhouse_fail(c, "it has tables already, without replicas")));
}

bool fleet_schema_make(struct clickhouse *c, const char *cluster, bool replicas,
		       enum fleet_schema_made *made)
{
	unsigned long version;
	bool distributed;

	if (!version_of(c, &version, &distributed))
		return false;
	if (!version &&
	    ((cluster && !has_cluster(c, cluster)) || (replicas && !can_replicate(c, cluster))))
		return false;
	if (version > FLEET_SCHEMA_VERSION)
		return say_newer_version(c, version);
	if (version &&
	    !are_alike(c, distributed, cluster, replicas, version < FLEET_SCHEMA_VERSION))
		return false;
	*made = !version			  ? FLEET_SCHEMA_MADE
		: version == FLEET_SCHEMA_VERSION ? FLEET_SCHEMA_THERE
						  : FLEET_SCHEMA_MIGRATED;
	switch (*made) {
	case FLEET_SCHEMA_MADE:
		return make_tables(c, cluster, replicas);
	case FLEET_SCHEMA_MIGRATED:
		return migrate(c, version, distributed);
	case FLEET_SCHEMA_THERE:
		break;
	}
	return true;
}

static bool is_version(const char *version, const char *tried)
{
	return strncmp(version, tried, strlen(tried)) == 0 && version[strlen(tried)] == '.';
}

char *fleet_schema_untried(struct clickhouse *c)
{
	char *version = clickhouse_text(c, "SELECT version()");

	if (!version)
		return NULL;
	version[strspn(version, "0123456789.")] = 0;
	if (*version && !is_version(version, FLEET_TRIED_OLDEST) &&
	    !is_version(version, FLEET_TRIED_NEWEST))
		return version;
	free(version);
	return NULL;
}

bool fleet_schema_check(struct clickhouse *c)
{
	unsigned long version;
	bool cluster;

	if (!version_of(c, &version, &cluster))
		return false;
	if (cluster)
		clickhouse_distributed(c);
	if (version == FLEET_SCHEMA_VERSION)
		return true;
	if (version > FLEET_SCHEMA_VERSION)
		return say_newer_version(c, version);
	if (version)
		return clickhouse_fail(c,
				       "its tables have version %lu; 'mayfly fleet init %s' brings "
				       "them to version %d",
				       version, c->url.shown, FLEET_SCHEMA_VERSION);
	return clickhouse_fail(c, "it has no tables of mayfly; 'mayfly fleet init %s' makes them",
			       c->url.shown);
}
