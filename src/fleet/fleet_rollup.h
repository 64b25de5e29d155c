/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joins old windows: those of a process that begin in the same 5 minutes, hour or day become one, which has
 * what they have allocated in sum, and what was live at the end of the last one, and at the peak by then.
 *
 *	window  9:00  9:01  9:02 ...		window  9:00 ... 9:59
 *	push      p1    p2    p3		push      r < p1
 *
 * The joined window is another push of the first one, with a smaller number, so it counts instead of it. In
 * place of each of the others counts a push without samples (exact = 2, "joined"). Both come into the
 * database in one block of rows, so a question sees all of it or nothing. Then the rows that do not count any
 * more are deleted, and at last those without samples. So it may be interrupted, repeated, and run beside
 * pushes: what the database has of a process is the same at any time. Of two at once, the one that puts its
 * windows in place later leaves out those of which the other has joined one. It sees that in the same
 * statement, but not what another one does during it (doc/FLEET.md).
 */
#ifndef MAYFLY_FLEET_ROLLUP_H
#define MAYFLY_FLEET_ROLLUP_H

#include <stdint.h>

#include "fleet/clickhouse.h"

#define FLEET_JOINED 2 /* windows.exact */

struct fleet_rollup {
	int64_t before_ns; /* of windows that ended before */
	int64_t to_ns;	   /* a day is a multiple of it */
};

/* *windows became *joined. Of a cluster's tables, those of this server are deleted. False:
 * why[CLICKHOUSE_WHY]. */
bool fleet_rollup(struct clickhouse *c, const struct server_url *url,
		  const struct fleet_rollup *how, uint64_t *windows, uint64_t *joined, char *why);

#endif
