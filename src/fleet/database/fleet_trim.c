/* SPDX-License-Identifier: Apache-2.0 */
/* Forgets old processes: see fleet_trim.h. */
#include "fleet/database/fleet_trim.h"

#include <inttypes.h>
#include <stdio.h>

#include "fleet/database/fleet_local.h"

#define CONDITION_BYTES 400
#define DAY_NS		INT64_C(86400000000000)

bool fleet_trim(struct clickhouse *c, int64_t before_ns, uint64_t *processes)
{
	const char *database = c->url.database, *local = fleet_local(c);
	unsigned last_day = before_ns < 0 ? 0 : (unsigned)(before_ns / DAY_NS);
	char old[CONDITION_BYTES], of_old[2 * CONDITION_BYTES], windows[20], samples[20];

	clickhouse_current(c);
	if (!local || !fleet_catch_up(c))
		return false;
	snprintf(windows, sizeof(windows), "windows%s", local);
	snprintf(samples, sizeof(samples), "samples%s", local);
	/* The day is what the server looks at first: newer days are not read. */
	snprintf(old, sizeof(old),
		 "day <= toDate(%u) AND process IN (SELECT process FROM %s.windows GROUP BY "
		 "process HAVING max(end_ns) < %" PRId64 ")",
		 last_day, database, before_ns);
	snprintf(of_old, sizeof(of_old),
		 "day <= toDate(%u) AND push IN (SELECT push FROM %s.%s WHERE %s)", last_day,
		 database, windows, old);
	/* Samples first: without the windows, nobody would know whose they are. */
	return clickhouse_number(c, processes, "SELECT uniqExact(process) FROM %s.%s WHERE %s",
				 database, windows, old) &&
	       (!*processes || (fleet_delete(c, samples, of_old) && fleet_delete(c, windows, old)));
}
