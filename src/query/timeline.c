/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timeline.c: a trace as a whole: its four totals, from the per-stack counters (sums.h) if they
 * suffice, otherwise from the events; and live bytes over time, from live_curve.c.
 */
#include <mayfly/trace.h>

#include <stdlib.h>

#include "query/estimate.h"
#include "query/live_curve.h"
#include "query/parts.h"
#include "query/query_two.h"
#include "trace/read/reader.h"

/* ---- totals ---- */

static int ask_total(const struct mayfly_trace *trace, enum mayfly_metric metric,
		     struct mayfly_estimate *total, int64_t *time_ns)
{
	struct mayfly_query query;
	int error;

	mayfly_query_defaults(&query);
	query.metric = metric;
	error = query_total(trace, &query, total, time_ns);
	return error == MAYFLY_E_ABSENT ? 0 : error;
}

static int summary_of_queries(const struct mayfly_trace *trace, struct mayfly_summary *summary)
{
	int64_t end_ns;
	int error = ask_total(trace, MAYFLY_ALLOCATED, &summary->allocated, &end_ns);

	if (!error)
		error = ask_total(trace, MAYFLY_TEMPORARY, &summary->temporary, &end_ns);
	if (!error)
		error = ask_total(trace, MAYFLY_LIVE, &summary->live_at_end, &end_ns);
	if (!error)
		error = ask_total(trace, MAYFLY_PEAK, &summary->peak, &summary->peak_time_ns);
	return error;
}

static struct mayfly_estimate counted(uint64_t bytes, uint64_t blocks, double interval)
{
	struct tally t = {
	    .exact_bytes = (double)bytes, .exact_blocks = (double)blocks, .exact_count = blocks};

	return tally_estimate(&t, (struct unseen){.interval = interval});
}

static struct mayfly_estimate left(const struct parts_totals *t, double interval)
{
	return counted(parts_left(t->alloc_bytes, t->free_bytes), parts_left(t->allocs, t->frees),
		       interval);
}

static void summary_of_parts(const struct mayfly_info *info, const struct parts_view *view,
			     struct mayfly_summary *summary)
{
	double interval = (double)info->interval_bytes;

	summary->allocated = counted(parts_left(view->end.alloc_bytes, view->end.inherited_bytes),
				     parts_left(view->end.allocs, view->end.inherited), interval);
	summary->temporary = counted(view->end.temp_bytes, view->end.temps, interval);
	summary->peak = left(&view->peak, interval);
	summary->live_at_end = left(&view->end, interval);
	summary->peak_time_ns = view->peak_time_ns;
}

/* Clears the sums that the trace does not know. */
static void clear_absent(uint32_t absent, struct mayfly_summary *s)
{
	static const struct mayfly_estimate nothing;

	if (absent & MAYFLY_ABSENT_ALLOCATED)
		s->allocated = nothing;
	if (absent & MAYFLY_ABSENT_LIVE)
		s->live_at_end = nothing;
	if (absent & MAYFLY_ABSENT_TEMPORARY)
		s->temporary = nothing;
	if (absent & MAYFLY_ABSENT_PEAK)
		s->peak = nothing;
	if (absent & (MAYFLY_ABSENT_PEAK | MAYFLY_ABSENT_TIMES))
		s->peak_time_ns = 0;
}

int mayfly_trace_summary(const struct mayfly_trace *trace, struct mayfly_summary *summary)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);
	struct parts_view view;
	int error = parts_scan(trace, &view);

	if (error)
		return error;
	*summary = (struct mayfly_summary){0};
	if ((view.parts == 0 && info->snapshot_ns == 0) || trace->sum_errors)
		error = summary_of_queries(trace, summary);
	else
		summary_of_parts(info, &view, summary);
	clear_absent(info->absent, summary);
	return error;
}

/* ---- live bytes over time ---- */

/* A step of `count` that contains a time. */
static size_t step_of(const struct mayfly_info *info, int64_t time_ns, size_t count)
{
	double step;

	if (time_ns <= 0 || info->duration_ns <= 0)
		return 0;
	step = (double)time_ns / (double)info->duration_ns * (double)count;
	return step < (double)count ? (size_t)step : count - 1;
}

/* Between two snapshots, how much was live at most is known, but not of what. */
static void raise_between(const struct mayfly_trace *trace, double *live_bytes, size_t count)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);

	for (size_t i = 0; i < trace->chunks; i++) {
		const struct trace_chunk *chunk = &trace->chunk[i];
		double *step = &live_bytes[step_of(info, chunk->to_ns, count)];

		if (*step < (double)chunk->largest_bytes)
			*step = (double)chunk->largest_bytes;
	}
}

int mayfly_timeline(const struct mayfly_trace *trace, size_t points, double *live_bytes)
{
	struct live_step *step = calloc(points + 1, sizeof(*step));
	struct mayfly_query all;
	int error = step ? 0 : MAYFLY_E_MEMORY;

	mayfly_query_defaults(&all);
	if (!error)
		error = live_curve_run(trace, &all, points, step);
	for (size_t i = 0; !error && i < points; i++)
		live_bytes[i] = step[i].most.bytes;
	if (!error && mayfly_trace_info(trace)->snapshot_ns)
		raise_between(trace, live_bytes, points);
	free(step);
	return error;
}
