/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joins old windows: those of a process that begin in the same 5 minutes, hour or day become one. It has
 * the sum of what they allocated, what was live at the end of the last one, and the peak up to then.
 *
 *	window  9:00  9:01  9:02 ...		window  9:00 ... 9:59
 *	push      p1    p2    p3		push      r < p1
 *
 * The push with the smallest number is the one of a window that counts. The joined window is a push of the
 * first window with a smaller number, and replaces it. Each of the other windows gets a push without
 * samples (exact = 2, "joined"), which replaces it, too. Before that, the server proves that the sums of what is
 * joined are those of what it replaces; if not, nothing is replaced. All these rows are inserted as one block, so a
 * question sees all of them or none. After that, the rows that do not count any more are deleted, and
 * the rows without samples last. So a rollup may be interrupted, repeated, and run beside pushes: what
 * the database has of a process is the same at any time. If two run at once, the later one leaves out
 * each joined window that shares a window with one of the earlier rollup. It checks this in the
 * statement that inserts, so it does not see what the other one does during that (doc/FLEET.md).
 */
#ifndef MAYFLY_FLEET_ROLLUP_H
#define MAYFLY_FLEET_ROLLUP_H

#include "fleet/database/clickhouse.h"

#define FLEET_JOINED 2 /* windows.exact */

struct fleet_rollup {
	int64_t before_ns; /* of windows that ended before */
	int64_t to_ns;	   /* a day is a multiple of it */
};

/* *windows and *joined grow by the windows that are joined, and by what they became. Rows of a cluster's
 * tables are deleted on this server. False: c->why. */
bool fleet_rollup(struct clickhouse *c, const struct fleet_rollup *how, uint64_t *windows,
		  uint64_t *joined);

#endif
