/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forgets processes that ended long ago. Nothing is removed of a process that goes on: what the database
 * lacks of it would be pushed again.
 */
#ifndef MAYFLY_FLEET_TRIM_H
#define MAYFLY_FLEET_TRIM_H

#include "fleet/database/clickhouse.h"

/* Removes all rows of the processes whose last window ended before this moment; in a cluster, those on
 * this server. Returns when they are gone. False: c->why. */
bool fleet_trim(struct clickhouse *c, int64_t before_ns, uint64_t *processes);

#endif
