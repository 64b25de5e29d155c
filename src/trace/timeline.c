/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timeline.c: a trace as a whole: its four totals, and live bytes over time. One pass each.
 */
#include <mayfly/trace.h>

#include "estimate.h"

#include <string.h>

static void add(struct tally *t, const struct mayfly_info *info, const struct mayfly_event *e)
{
	tally_add(t, info->sampler, e->interval, e->size, e->hits);
}

static void subtract(struct tally *t, const struct mayfly_info *info, const struct mayfly_event *e)
{
	tally_remove(t, info->sampler, e->interval, e->size, e->hits);
}

int mayfly_trace_summary(const struct mayfly_trace *trace, struct mayfly_summary *summary)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);
	struct tally allocated = {0}, live = {0}, largest = {0}, temporary = {0};
	double live_bytes = 0, peak_bytes = 0; /* summed as mayfly_query_run does: one peak */
	uint64_t interval = info->interval_bytes;
	struct mayfly_cursor *cursor;
	struct mayfly_event e;
	int more = mayfly_cursor_open(trace, &cursor);

	if (more)
		return more;
	memset(summary, 0, sizeof(*summary));
	while ((more = mayfly_cursor_next(cursor, &e)) == 1) {
		if (e.kind == MAYFLY_ALLOC) {
			add(&allocated, info, &e);
			add(&live, info, &e);
			live_bytes += e.weight_bytes;
			if (e.hits > 0 && interval < e.interval)
				interval = e.interval;
		} else {
			subtract(&live, info, &e);
			live_bytes -= e.weight_bytes;
			if (e.flags & MAYFLY_FLAG_TEMPORARY)
				add(&temporary, info, &e);
		}
		if (live_bytes > peak_bytes) {
			peak_bytes = live_bytes;
			largest = live;
			summary->peak_time_ns = e.time_ns;
		}
	}
	mayfly_cursor_close(cursor);
	summary->allocated = tally_estimate(&allocated, interval);
	summary->peak = tally_estimate(&largest, interval);
	summary->live_at_end = tally_estimate(&live, interval);
	summary->temporary = tally_estimate(&temporary, interval);
	return more;
}

/* The step of `points` that a time falls into. */
static size_t step_of(int64_t time_ns, int64_t duration_ns, size_t points)
{
	double step;

	if (time_ns <= 0 || duration_ns <= 0)
		return 0;
	step = (double)time_ns / (double)duration_ns * (double)points;
	return step < (double)points ? (size_t)step : points - 1;
}

int mayfly_timeline(const struct mayfly_trace *trace, size_t points, double *live_bytes)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);
	struct mayfly_cursor *cursor;
	struct mayfly_event e;
	double live = 0;
	size_t step = 0;
	int more;

	if (points == 0)
		return MAYFLY_E_RANGE;
	more = mayfly_cursor_open(trace, &cursor);
	if (more)
		return more;
	live_bytes[0] = 0;
	while ((more = mayfly_cursor_next(cursor, &e)) == 1) {
		size_t now = step_of(e.time_ns, info->duration_ns, points);

		while (step < now)
			live_bytes[++step] = live; /* what is live when a step begins */
		live += e.kind == MAYFLY_ALLOC ? e.weight_bytes : -e.weight_bytes;
		if (live_bytes[step] < live)
			live_bytes[step] = live;
	}
	while (step + 1 < points)
		live_bytes[++step] = live;
	mayfly_cursor_close(cursor);
	return more;
}
