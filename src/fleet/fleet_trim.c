/* SPDX-License-Identifier: Apache-2.0 */
/* Forgets old processes: see fleet_trim.h. */
#include "fleet/fleet_trim.h"

#include <inttypes.h>
#include <stdio.h>

#include "fleet/fleet_local.h"

#define CONDITION_BYTES 512

bool fleet_trim(struct clickhouse *c, const struct server_url *url, int64_t before_ns,
		uint64_t *processes, char *why)
{
	const char *database = url->database, *local = fleet_local(c, database, why);
	char old[CONDITION_BYTES];

	snprintf(old, sizeof(old),
		 "process IN (SELECT process FROM %s.windows GROUP BY process HAVING max(end_ns) < "
		 "%" PRId64 ")",
		 database, before_ns);
	if (!local ||
	    !fleet_count(c, processes, why, "SELECT uniqExact(process) FROM %s.windows%s WHERE %s",
			 database, local, old))
		return false;
	/* Samples first: without the windows, nobody would know whose they are. */
	return !*processes ||
	       (fleet_delete(c, database, why,
			     "ALTER TABLE %s.samples%s DELETE WHERE push IN (SELECT push FROM "
			     "%s.windows%s WHERE %s)",
			     database, local, database, local, old) &&
		fleet_delete(c, database, why, "ALTER TABLE %s.windows%s DELETE WHERE %s", database,
			     local, old));
}
