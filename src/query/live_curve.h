/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Live bytes over time as one curve: every drawing of it, in the terminal as in the page, comes from here.
 *
 *	bytes |      __              a step has the moment at which the most was live in it, and the
 *	      |   __|  |_            one at which the least was. Nothing between them is guessed: at both
 *	      |__|       |___        moments exactly so much was live.
 *	      +---------------> time
 *	       step 0 | step 1
 */
#ifndef MAYFLY_LIVE_CURVE_H
#define MAYFLY_LIVE_CURVE_H

#include <mayfly/trace.h>

#include "query/peak.h"

/* So much was live after the events of the moment. */
struct live_point {
	struct moment at;
	double bytes;
};

/* What was live when the step began counts, too. The peak of an exact trace is the most of its step, even
 * where other events have the same time. */
struct live_step {
	struct live_point least, most;
};

/*
 * Fills `steps` equal steps of the query's window. The query's filters choose the blocks, as for
 * mayfly_series_run(). In a trace of snapshots something is known only at the ends of intervals: a step
 * without one has what was live when it began. 0 or a negative enum mayfly_error: MAYFLY_E_RANGE when
 * there are no steps or the window is empty, MAYFLY_E_ABSENT when the trace has no times.
 */
int live_curve_run(const struct mayfly_trace *trace, const struct mayfly_query *query, size_t steps,
		   struct live_step *step);

/* The moments of the curve in order, each once: at most 2 per step. Returns their number. */
size_t live_curve_points(const struct live_step *step, size_t steps, struct live_point *point);

#endif
