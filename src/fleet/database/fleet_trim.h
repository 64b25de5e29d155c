/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forgets processes that ended long ago. Of a process that goes on nothing is removed: what the database
 * lacks of it would be pushed again.
 */
#ifndef MAYFLY_FLEET_TRIM_H
#define MAYFLY_FLEET_TRIM_H

#include "fleet/database/clickhouse.h"

/* All rows of the processes whose last window ended before this moment; of a cluster's tables, those on
 * this server. Returns when they are gone. False: c->why. */
bool fleet_trim(struct clickhouse *c, int64_t before_ns, uint64_t *processes);

#endif
