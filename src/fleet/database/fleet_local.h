/* SPDX-License-Identifier: Apache-2.0 */
/* The rows that are on the server that is asked, and statements that change them there. */
#ifndef MAYFLY_FLEET_LOCAL_H
#define MAYFLY_FLEET_LOCAL_H

#include <stdint.h>

#include "fleet/database/clickhouse.h"

/* The end of the names of this server's own tables: "_local" where they are parts of a cluster's, else "".
 * NULL: why[CLICKHOUSE_WHY]. */
const char *fleet_local(struct clickhouse *c, const char *database, char *why);

/* Whether those tables are replicas of other servers' tables. */
bool fleet_replicated(struct clickhouse *c, const char *database, bool *replicated, char *why);

/* Returns when this server has the rows that its replicas have, if it has such. False: it does not get them for
 * 20 s, or why[] says what else. */
bool fleet_catch_up(struct clickhouse *c, const char *database, char *why);

/* A statement whose answer is a number, or none: 0. */
bool fleet_count(struct clickhouse *c, uint64_t *number, char *why, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Deletes the rows of a table of this server, if there are any, and of its replicas: returns when it has here. */
bool fleet_delete(struct clickhouse *c, const char *database, const char *table,
		  const char *condition, char *why);

#endif
