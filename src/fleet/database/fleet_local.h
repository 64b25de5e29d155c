/* SPDX-License-Identifier: Apache-2.0 */
/* The rows that are on the server that is asked, and statements that change them there. False: c->why. */
#ifndef MAYFLY_FLEET_LOCAL_H
#define MAYFLY_FLEET_LOCAL_H

#include "fleet/database/clickhouse.h"

/* The end of the names of this server's own tables: "_local" where they are parts of a cluster's, else "".
 * NULL: c->why. */
const char *fleet_local(struct clickhouse *c);

/* Whether those tables are replicas of other servers' tables. */
bool fleet_replicated(struct clickhouse *c, bool *replicated);

/* Returns when this server has the rows that its replicas have, if it has such. False: it does not get them for
 * 20 s. */
bool fleet_catch_up(struct clickhouse *c);

/* Deletes the rows of a table of this server, if there are any, and of its replicas: returns when it has here. */
bool fleet_delete(struct clickhouse *c, const char *table, const char *condition);

#endif
