/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timeline.c: a trace as a whole: its four totals, and live bytes over time, from the per-stack
 * counters (sums.h) if they suffice, otherwise from the events.
 */
#include <mayfly/trace.h>

#include "query/estimate.h"
#include "query/parts.h"
#include "query/query.h"
#include "trace/read/reader.h"

/* ---- totals ---- */

/* The total of a query, without its rows; it does not depend on the grouping. */
static int ask_total(const struct mayfly_trace *trace, enum mayfly_metric metric,
		     struct mayfly_estimate *total, int64_t *time_ns)
{
	struct query_state s = {0};
	struct mayfly_query query;

	mayfly_query_defaults(&query);
	query.metric = metric;
	if (query_begin(&s, trace, &query)) {
		struct tally all = query_tally(&s, &s.all, 0);

		*total = tally_estimate(&all, query_unseen(&s, 0, SPREAD_ALL));
		*time_ns = query_answer_time(&s);
	}
	query_end(&s);
	return s.error == MAYFLY_E_ABSENT ? 0 : s.error;
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

/* Up to this many events are read (fast enough); beyond, the index of chunks is accurate enough. */
#define FEW_EVENTS (2u << 20)

struct steps {
	double *largest;
	size_t count, at;
	int64_t duration_ns;
	double live;
};

/* The step that contains a time. */
static size_t step_of(const struct steps *s, int64_t time_ns)
{
	double step;

	if (time_ns <= 0 || s->duration_ns <= 0)
		return 0;
	step = (double)time_ns / (double)s->duration_ns * (double)s->count;
	return step < (double)s->count ? (size_t)step : s->count - 1;
}

/* Advances to a later step. Bytes that are live when a step begins are live in it. */
static void step_to(struct steps *s, size_t step)
{
	while (s->at < step)
		s->largest[++s->at] = s->live;
}

static void step_raise(struct steps *s, size_t step, double live)
{
	if (s->largest[step] < live)
		s->largest[step] = live;
}

static int steps_of_events(const struct mayfly_trace *trace, struct steps *s)
{
	struct mayfly_cursor *cursor;
	struct mayfly_event e;
	int more = mayfly_cursor_open(trace, &cursor);

	if (more)
		return more;
	while ((more = mayfly_cursor_next(cursor, &e)) == 1) {
		if (!trace_counts(trace, e.heap, e.node))
			continue;
		step_to(s, step_of(s, e.time_ns));
		s->live += e.kind == MAYFLY_ALLOC ? e.weight_bytes : -e.weight_bytes;
		step_raise(s, s->at, s->live);
	}
	mayfly_cursor_close(cursor);
	return more;
}

/*
 * A chunk (of snapshots: an interval) inside one step gives the largest value of that step. A chunk
 * across several steps gives the live bytes at both of its ends; a straight line is assumed between
 * them. Its largest value belongs to one of the steps: for the peak of the trace this step is known
 * (`peak`); otherwise the end with the larger value gets it.
 */
static void step_over(struct steps *s, const struct trace_chunk *chunk, size_t peak)
{
	size_t first = step_of(s, chunk->from_ns), last = step_of(s, chunk->to_ns);
	double before = s->live, live = (double)chunk->live_bytes;

	step_to(s, first);
	first = s->at;
	for (size_t i = first + 1; i <= last; i++) {
		s->live = before + (live - before) * (double)(i - first) / (double)(last - first);
		step_to(s, i);
	}
	s->live = live;
	step_raise(s, s->at, live);
	if (peak < first || peak > s->at)
		peak = before > live ? first : s->at;
	step_raise(s, peak, (double)chunk->largest_bytes);
}

static void steps_of_chunks(const struct mayfly_trace *trace, const struct parts_peak *peak,
			    struct steps *s)
{
	for (size_t i = 0; i < trace->chunks; i++) {
		const struct trace_chunk *chunk = &trace->chunk[i];
		bool has_peak = chunk->first_event < peak->events &&
				peak->events <= chunk->first_event + chunk->events;

		step_over(s, chunk, has_peak ? step_of(s, peak->time_ns) : SIZE_MAX);
	}
}

int mayfly_timeline(const struct mayfly_trace *trace, size_t points, double *live_bytes)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);
	struct steps s = {.largest = live_bytes, .count = points};
	bool counted = info->snapshot_ns ||
		       (trace_sums_parts(trace) > 0 && info->samples + info->frees > FEW_EVENTS);
	struct parts_peak peak;
	int error;

	if (points == 0)
		return MAYFLY_E_RANGE;
	if (info->absent & (MAYFLY_ABSENT_TIMES | MAYFLY_ABSENT_LIVE))
		return MAYFLY_E_ABSENT;
	s.duration_ns = info->duration_ns;
	live_bytes[0] = 0;
	error = counted ? parts_find_peak(trace, &peak) : steps_of_events(trace, &s);
	if (error)
		return error;
	if (counted)
		steps_of_chunks(trace, &peak, &s);
	step_to(&s, points - 1);
	return 0;
}
