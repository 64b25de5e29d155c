/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a question to a fleet's database is about: its windows, in steps of time or without times.
 *
 *	filter ──> fleet_windows: how many of what, and when
 *	           └── every= ──> fleet_steps ──> fleet_moments: each window, and the steps where it counts
 *
 * All functions: false: c->why. sql: of fleet_filter_read().
 */
#ifndef MAYFLY_FLEET_MOMENTS_H
#define MAYFLY_FLEET_MOMENTS_H

#include <stdint.h>

#include "fleet/database/clickhouse.h"

#define FLEET_SERVICE_LONGEST 200 /* in bytes, so that it fits into the address of a request */

/* What the windows say of themselves. */
struct fleet_windows {
	unsigned long long processes, hosts, exact, interval;
	long long begin_ns, end_ns, length_ns; /* the mean length of one */
	double share;			       /* the smallest */
	/* " AND service = ...", a condition on samples that lets the server read less; or "". */
	char service[2 * FLEET_SERVICE_LONGEST + 40];
};

bool fleet_windows_fetch(struct clickhouse *c, const char *sql, struct fleet_windows *w);

/* count 0: without times. */
struct fleet_steps {
	int64_t begin_ns, length_ns;
	uint32_t count;
};

/* They end with the last window. every_ns: their distance; -1: one that fits. */
bool fleet_steps_choose(struct clickhouse *c, const struct fleet_windows *w, int64_t every_ns,
			struct fleet_steps *steps);

/* A window that counts: what was allocated in it belongs to step k, and what was live at its end counts at
 * the ends of the steps from k to before `until`. */
struct fleet_moment {
	uint64_t push, one; /* one: its process, which was chosen with the chance `share` */
	double share;
	unsigned day; /* of its samples, since 1970 */
	int32_t k, until;
};

struct fleet_moments {
	struct fleet_moment *moment; /* by ascending push */
	size_t count, room;
	bool changed;
};

/* *m is all zero before. The caller frees it in both cases. */
bool fleet_moments_fetch(struct clickhouse *c, const char *sql, const struct fleet_steps *steps,
			 struct fleet_moments *m);
/* Whether all of them still count. When windows are joined, others count instead of them, and then their samples
 * are removed: sums that were asked for meanwhile are of no use (m->changed). */
bool fleet_moments_still_count(struct clickhouse *c, const char *sql,
			       const struct fleet_steps *steps, struct fleet_moments *m);
void fleet_moments_free(struct fleet_moments *m);

#endif
