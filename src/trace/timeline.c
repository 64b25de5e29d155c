/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timeline.c: a trace as a whole: its four totals, and live bytes over time.
 */
#include <mayfly/trace.h>

#include "estimate.h"

static void add(struct tally *t, const struct mayfly_info *info, const struct mayfly_event *e)
{
	tally_add(t, info->sampler, e->interval, e->size, e->hits);
}

static void subtract(struct tally *t, const struct mayfly_info *info, const struct mayfly_event *e)
{
	tally_remove(t, info->sampler, e->interval, e->size, e->hits);
}

struct sums {
	struct tally allocated, live, largest, temporary;
	double live_bytes, peak_bytes; /* summed as mayfly_query_run does: one peak */
	int64_t peak_time_ns;
	uint64_t interval;
};

static void add_event(struct sums *s, const struct mayfly_info *info, const struct mayfly_event *e)
{
	if (e->kind == MAYFLY_ALLOC) {
		add(&s->allocated, info, e);
		add(&s->live, info, e);
		s->live_bytes += e->weight_bytes;
		if (e->hits > 0 && s->interval < e->interval)
			s->interval = e->interval;
	} else {
		subtract(&s->live, info, e);
		s->live_bytes -= e->weight_bytes;
		if (e->flags & MAYFLY_FLAG_TEMPORARY)
			add(&s->temporary, info, e);
	}
	if (s->live_bytes > s->peak_bytes) {
		s->peak_bytes = s->live_bytes;
		s->largest = s->live;
		s->peak_time_ns = e->time_ns;
	}
}

static int ask_total(const struct mayfly_trace *trace, enum mayfly_metric metric,
		     struct mayfly_estimate *total)
{
	struct mayfly_result *result;
	struct mayfly_query query;
	int error;

	mayfly_query_defaults(&query);
	query.metric = metric;
	query.by = MAYFLY_BY_THREAD;
	error = mayfly_query_run(trace, &query, &result);
	if (error)
		return error;
	*total = result->total;
	mayfly_result_free(result);
	return 0;
}

int mayfly_trace_summary(const struct mayfly_trace *trace, struct mayfly_summary *summary)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);
	struct sums s = {.interval = info->interval_bytes};
	struct mayfly_cursor *cursor;
	struct mayfly_event e;
	int more = mayfly_cursor_open(trace, &cursor);

	if (more)
		return more;
	while ((more = mayfly_cursor_next(cursor, &e)) == 1)
		add_event(&s, info, &e);
	mayfly_cursor_close(cursor);
	if (more)
		return more;
	summary->allocated = tally_estimate(&s.allocated, s.interval);
	summary->temporary = tally_estimate(&s.temporary, s.interval);
	summary->peak = tally_estimate(&s.largest, s.interval);
	summary->live_at_end = tally_estimate(&s.live, s.interval);
	summary->peak_time_ns = s.peak_time_ns;
	if (s.allocated.seen_blocks == 0)
		return 0;
	/* Sums of samples from which some were taken away again keep the largest weights. */
	more = ask_total(trace, MAYFLY_PEAK, &summary->peak);
	return more ? more : ask_total(trace, MAYFLY_LIVE, &summary->live_at_end);
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
