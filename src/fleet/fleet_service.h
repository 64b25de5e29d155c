/* SPDX-License-Identifier: Apache-2.0 */
/* The service of a process that was pushed before, for one that cannot be asked any more. */
#ifndef MAYFLY_FLEET_SERVICE_H
#define MAYFLY_FLEET_SERVICE_H

#include "fleet/clickhouse.h"
#include "fleet/window_rows.h"

/* *service: with which the database has windows of the trace's process on the host of facts, for the caller
 * to free; NULL: it has none. */
enum clickhouse_failure fleet_service_of(struct clickhouse *c, const struct server_url *url,
					 const struct mayfly_trace *trace,
					 const struct window_facts *facts, char **service,
					 char *why);

#endif
