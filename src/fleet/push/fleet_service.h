/* SPDX-License-Identifier: Apache-2.0 */
/* The service of a process that was pushed before, for one that cannot be asked any more. */
#ifndef MAYFLY_FLEET_SERVICE_H
#define MAYFLY_FLEET_SERVICE_H

#include "fleet/database/clickhouse.h"
#include "fleet/push/window_rows.h"

/* *service: the one under which the database has windows of the trace's process on the host of facts; the
 * caller frees it. NULL: there is none. False: c->why. */
bool fleet_service_of(struct clickhouse *c, const struct mayfly_trace *trace,
		      const struct window_facts *facts, char **service);

#endif
