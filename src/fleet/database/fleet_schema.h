/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of a fleet's database: doc/FLEET.md says what they mean. */
#ifndef MAYFLY_FLEET_SCHEMA_H
#define MAYFLY_FLEET_SCHEMA_H

#include "fleet/database/clickhouse.h"

#define FLEET_SCHEMA_VERSION 2
#define FLEET_TRIED_OLDEST   "18.16"
#define FLEET_TRIED_NEWEST   "26.7"

enum fleet_schema_made { FLEET_SCHEMA_MADE, FLEET_SCHEMA_MIGRATED, FLEET_SCHEMA_THERE };

/* Makes the database and its tables, or brings those of an older version to this one; their rows stay.
 * cluster: of the server's configuration, whose servers share the rows, or NULL; then each of them needs
 * the tables. replicas: the servers of each of its shards have the same rows. *made: what there was to do.
 * False: c->why; what the server's configuration lacks is said before anything is made. */
bool fleet_schema_make(struct clickhouse *c, const char *cluster, bool replicas,
		       enum fleet_schema_made *made);

/* The server's version if mayfly was never tried with it, which the caller frees; NULL if it was, or if the server
 * does not say. */
char *fleet_schema_untried(struct clickhouse *c);

/* Whether the tables are there, in this version, and from now on, how to ask them. False: c->why says what
 * to do. */
bool fleet_schema_check(struct clickhouse *c);

#endif
