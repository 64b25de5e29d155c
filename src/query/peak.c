/* SPDX-License-Identifier: Apache-2.0 */
/* peak.c: the moments that may be the peak of a trace of samples: see peak.h. */
#include "query/peak.h"

#include <math.h>
#include <stdlib.h>

#include "trace/read/reader.h"

/* How far below the largest sum, in standard errors of the difference, the peak may be. */
#define WIDTH 1.5

struct peak_search {
	const struct mayfly_trace *trace;
	bool mapped; /* only of mappings */
	struct peak *peak;
	uint64_t events;

	/* pass 1 */
	double all;		/* live bytes */
	double both, chance[2]; /* those that both halves have, and those of one half */
	uint64_t live[2], live_at_best[2];
	double largest;
	double largest_of[2]; /* of a half alone */
	double other[2];      /* the largest of the other half while a half is at its largest */
	bool open[2];	      /* a half is at its largest now */

	struct moment end; /* after the last event */

	/* pass 2 */
	double live_of[PEAK_MOMENTS + 1]; /* live bytes now, by the moment at which they count */
	double counted;			  /* the peak, as the samples are counted */

	/* passes 3 and 4 */
	uint64_t *at_best; /* a bit for each sample: it is live at the best moment */
	uint64_t words;
	double only_best, only_now; /* variances of the samples that only one of both moments has */
	double bytes;
	double farthest[2]; /* before and after the best moment */
};

static struct weight weight_of(const struct mayfly_trace *trace, const struct mayfly_event *e)
{
	uint32_t flags = e->heap << MAYFLY_FLAG_HEAP_SHIFT;

	return weigh_sample(estimate_sampler(trace->info.sampler, flags), e->interval, e->size,
			    e->hits);
}

unsigned peak_moment_of(const struct mayfly_trace *trace, const struct mayfly_event *e)
{
	struct weight w = weight_of(trace, e);

	return peak_moment(e->sample, weight_certain(&w));
}

static struct moment now(const struct peak_search *s, const struct mayfly_event *e)
{
	return (struct moment){s->events, e->time_ns};
}

/*
 * Half h is at its largest from one of its events to the next. Between them, the other half decides
 * where it is counted, or else most of a rise between two samples would be lost.
 */
static void look_at_half(struct peak_search *s, const struct mayfly_event *e, int h)
{
	double this = s->both + 2 * s->chance[h], other = s->both + 2 * s->chance[1 - h];
	bool larger = this > s->largest_of[h];

	if (this < s->largest_of[h])
		s->open[h] = false;
	if (larger || (s->open[h] && other > s->other[h])) {
		s->peak->near[1 - h] = now(s, e);
		s->other[h] = other;
	}
	if (larger) {
		s->largest_of[h] = this;
		s->open[h] = true;
	}
}

static void find_largest(struct peak_search *s, const struct mayfly_event *e)
{
	struct weight w = weight_of(s->trace, e);
	double sign = e->kind == MAYFLY_ALLOC ? 1 : -1, certain = weight_certain(&w);
	unsigned h = peak_half(e->sample);

	s->all += sign * w.bytes;
	s->both += sign * w.bytes * certain;
	s->chance[h] += sign * w.bytes * (1 - certain);
	if (e->hits)
		s->live[h] += e->kind == MAYFLY_ALLOC ? 1 : UINT64_MAX;
	s->end = now(s, e);
	if (s->all > s->largest) {
		s->largest = s->all;
		s->peak->best = now(s, e);
		s->live_at_best[0] = s->live[0];
		s->live_at_best[1] = s->live[1];
	}
	look_at_half(s, e, 0);
	look_at_half(s, e, 1);
}

/* Adds up what is live at the moments at which the samples are counted. */
static void add_counted(struct peak_search *s, const struct mayfly_event *e)
{
	s->live_of[peak_moment_of(s->trace, e)] +=
	    e->kind == MAYFLY_ALLOC ? e->weight_bytes : -e->weight_bytes;
	for (unsigned k = 0; k <= PEAK_BEST; k++)
		if (s->events == peak_at(s->peak, k).events)
			s->counted += s->live_of[k];
}

static void mark_best(struct peak_search *s, const struct mayfly_event *e)
{
	uint64_t bit = (uint64_t)1 << e->sample % 64;

	if (s->events > s->peak->best.events || e->sample / 64 >= s->words)
		return;
	if (e->kind == MAYFLY_ALLOC) {
		s->at_best[e->sample / 64] |= bit;
		s->only_best += weight_of(s->trace, e).variance_bytes;
	} else {
		s->at_best[e->sample / 64] &= ~bit;
		s->only_best -= weight_of(s->trace, e).variance_bytes;
	}
}

/* Keeps the moments before and after the best one that may be the peak and share the fewest samples
 * with it. A row that is the same there is the same at all moments that may be the peak. */
static void look_far(struct peak_search *s, const struct mayfly_event *e)
{
	bool born = e->kind == MAYFLY_ALLOC;
	bool shared = e->sample / 64 < s->words && s->at_best[e->sample / 64] >> e->sample % 64 & 1;
	double v = weight_of(s->trace, e).variance_bytes, missing, differ;
	int side;

	s->bytes += born ? e->weight_bytes : -e->weight_bytes;
	if (shared)
		s->only_best += born ? -v : v;
	else
		s->only_now += born ? v : -v;
	missing = fmax(0, s->largest - s->bytes);
	differ = s->only_best + s->only_now;
	side = s->events > s->peak->best.events;
	if (differ <= s->farthest[side] || missing * missing > WIDTH * WIDTH * differ)
		return;
	s->farthest[side] = differ;
	s->peak->near[2 + side] = now(s, e);
}

static int pass(struct peak_search *s,
		void (*look)(struct peak_search *s, const struct mayfly_event *e))
{
	struct mayfly_cursor *cursor;
	struct mayfly_event e;
	int more = mayfly_cursor_open(s->trace, &cursor);

	if (more)
		return more;
	s->events = 0;
	while ((more = mayfly_cursor_next(cursor, &e)) == 1) {
		s->events++;
		if (s->mapped ? e.heap == MAYFLY_HEAP_MAPPING
			      : trace_counts(s->trace, e.heap, e.node))
			look(s, &e);
	}
	mayfly_cursor_close(cursor);
	return more;
}

static void count_and_mark(struct peak_search *s, const struct mayfly_event *e)
{
	add_counted(s, e);
	if (s->at_best)
		mark_best(s, e);
}

/* The peak is not below what is live at the end. */
static int compare_with_end(struct peak_search *s)
{
	int error = pass(s, count_and_mark);

	if (error || s->counted >= s->all)
		return error;
	s->peak->best = s->peak->near[0] = s->peak->near[1] = s->end;
	s->largest = s->all;
	s->only_best = 0;
	return s->at_best ? pass(s, mark_best) : 0;
}

static int search(const struct mayfly_trace *trace, bool mapped, struct peak *peak)
{
	struct peak_search s = {
	    .trace = trace, .mapped = mapped, .peak = peak, .words = trace->info.samples / 64 + 1};
	bool sampled;
	int error;

	*peak = (struct peak){0};
	error = pass(&s, find_largest);
	if (error)
		return error;
	if (!s.live_at_best[0] || !s.live_at_best[1]) /* an empty half finds nothing */
		peak->near[0] = peak->near[1] = peak->best;
	sampled = s.live_at_best[0] + s.live_at_best[1] > 0;
	/* A hostile file may claim many samples: then the other moments are left out. */
	if (sampled && s.words <= trace_budget(trace) / sizeof(*s.at_best)) {
		s.at_best = calloc(s.words, sizeof(*s.at_best));
		if (!s.at_best)
			return MAYFLY_E_MEMORY;
	}
	error = compare_with_end(&s);
	peak->near[2] = peak->near[3] = peak->best;
	if (!error && s.at_best)
		error = pass(&s, look_far);
	free(s.at_best);
	return error;
}

/* A report asks several questions about the peak. */
int peak_find(const struct mayfly_trace *trace, bool mapped, struct peak *peak)
{
	const struct peak *kept = trace_finding(trace);
	struct peak *found;
	int error;

	if (kept && !mapped) {
		*peak = *kept;
		return 0;
	}
	error = search(trace, mapped, peak);
	if (error || mapped)
		return error;
	found = malloc(sizeof(*found));
	if (found) {
		*found = *peak;
		trace_set_finding(trace, found);
	}
	return 0;
}
