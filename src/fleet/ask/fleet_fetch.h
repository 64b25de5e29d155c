/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A question to a fleet's database as a trace: for each stack what all windows have allocated, and
 * what the last one of each process holds at its end, in sum. Over time (filter->every_ns) it is a trace
 * of snapshots: what was allocated in each step, and what the processes that ran at its end held then,
 * as their last windows up to it say.
 *
 *	windows that count ──> which ones have something in a step
 *	for each step ──> the sums of these windows, by stack	the servers add up
 *	all stacks ──> their frames ──> the names
 *
 * When windows are joined meanwhile (fleet_rollup.h), all is asked again.
 *
 * Such a trace is one of per-stack counters, without threads and sizes. Its note says how many
 * processes of how many hosts it adds up, and the intervals of the sums. Rows have the errors of
 * sampling (`errs`, doc/FORMAT.md), unless all windows are exact.
 */
#ifndef MAYFLY_FLEET_FETCH_H
#define MAYFLY_FLEET_FETCH_H

#include "fleet/database/clickhouse.h"
#include "fleet/database/fleet_filter.h"
#include "trace/write/writer.h"

/* name: the question's, for the reader of the trace. False: c->why. */
bool fleet_fetch(struct clickhouse *c, const char *name, const struct fleet_filter *filter,
		 trace_sink *sink, void *context);

#endif
