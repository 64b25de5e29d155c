/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of a fleet's database: doc/FLEET.md says what they mean. */
#ifndef MAYFLY_FLEET_SCHEMA_H
#define MAYFLY_FLEET_SCHEMA_H

#include <stdbool.h>

#include "fleet/clickhouse.h"

#define FLEET_SCHEMA_VERSION 1

/* Makes the database and its tables. cluster: of the server's configuration, whose servers share the
 * rows, or NULL; then each of them needs the tables. *made: they were not there. False:
 * why[CLICKHOUSE_WHY]. */
bool fleet_schema_make(struct clickhouse *c, const char *database, const char *cluster, bool *made,
		       char *why);

/* Whether the tables are there, in this version, and from now on, how to ask them. False: why[] says what
 * to do. */
bool fleet_schema_check(struct clickhouse *c, const struct server_url *url,
			enum clickhouse_failure *failure, char *why);

#endif
