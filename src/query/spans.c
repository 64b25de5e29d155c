/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spans.c: types of spans, how long they take, and what is allocated inside.
 *
 *	thread 1	BEGIN a   BEGIN b   END b       BEGIN c   END a   END c
 *	open		|-- a --------------------------------------|
 *						|-- b --|		|-- c -----------|
 *	blocks		    1	      2		    3	      4		5
 *	allocated	a: 1 2 3 4	b: 2	c: 4 5
 *	self		a: 1 3		b: 2	c: 4 5
 *
 * Two passes over the blocks: the first finds the blocks that are live at the end (a bit each), so
 * that the second can count each block completely at its allocation. The second pass merges in the
 * track events, each of which knows the number of block events before it.
 *
 * A lane holds the open spans of one thread: the spans in the order of their begins, each linked to
 * the previous one of the same type, and the distinct types, which are few.
 */
#include "query/query.h"

#include <stdlib.h>
#include <string.h>

#include "query/span_costs.h"

#define MOST_OPEN  4096u /* open spans of a thread */
#define MOST_TYPES 256u	 /* and their distinct types */

struct span {
	int64_t begin_ns, self_ns;
	double bytes;	       /* of its thread when it began: struct lane */
	uint64_t blocks;       /* likewise */
	int64_t first_ns;      /* of its blocks, by their times; INT64_MAX: it has none yet */
	uint32_t below, above; /* began before and after this one; free spans link by `above` */
	uint32_t same;	       /* the previous one of this type; all three: index or NONE */
	uint32_t type;
	bool counts;
};

struct open_type {
	uint32_t type;
	uint32_t last; /* its span that began last */
	uint32_t over; /* number of ignored spans, over a limit; these end first */
};

struct lane {
	struct span *span;
	size_t spans, span_room; /* spans: includes the free ones */
	struct open_type *open;
	size_t types, type_room;
	uint32_t top, free, count;
	int64_t changed_ns; /* when `top` last changed */
	/* What was allocated inside of spans so far; what a span allocated is the difference between
	 * its end and its begin, however many are open. */
	double bytes;
	uint64_t blocks;
	int64_t last_ns; /* the time of the last of these blocks */
};

/* The figures of a type. */
struct sum {
	struct durations durations; /* of the spans that have ended */
	uint64_t open;
	int64_t self_ns;
	struct tally allocated, self, live;
	struct span_costs costs;
};

/* The answer, and what is not in <mayfly/trace.h>. */
struct spans_answer {
	struct mayfly_spans spans;
	const struct span_bytes *bytes; /* [spans.rows], in any order */
};

struct spans_run {
	struct query_state *s;
	struct mayfly_spans *a;
	uint64_t budget;

	/* first pass */
	uint64_t *live, *fits; /* a bit for each block; fits: NULL if all lifetimes fit */
	size_t live_room, fits_room;
	uint64_t blocks, events; /* events: before the current one, in the second pass */

	/* second pass */
	struct mayfly_track_cursor *track;
	struct mayfly_track_event event; /* the next one */
	bool more;			 /* there is one */
	struct lane *lane;		 /* [threads] */
	uint32_t *sum_of;		 /* type -> sum; NONE */
	struct sum *sum;
	uint32_t *type_of; /* sum -> type */
	size_t sums, sum_room, type_room;
};

/* ---- first pass: fates of blocks ---- */

static void spans_take_live(void *context, uint64_t number, const struct cursor_block *block)
{
	struct spans_run *r = context;

	(void)block;
	if (number >= r->blocks)
		return;
	query_set_bit(r->live, number);
	if (r->fits && query_lifetime_fits(r->s->query, FOREVER))
		query_set_bit(r->fits, number);
}

static bool take_lifetime(void *context, const struct cursor_batch *b, size_t event, size_t freed)
{
	struct spans_run *r = context;

	if (r->fits && b->e.freed[freed] < r->blocks &&
	    query_lifetime_fits(r->s->query, query_fate(b, event, freed).lifetime))
		query_set_bit(r->fits, b->e.freed[freed]);
	return true;
}

static bool take_allocs(void *context, const struct cursor_batch *b)
{
	struct spans_run *r = context;
	const struct mayfly_query *q = r->s->query;

	r->blocks = b->e.first_sample + b->e.allocs;
	if (!query_grow(r->s, &r->budget, &r->live, &r->live_room, r->blocks / 64,
			sizeof(*r->live)))
		return false;
	query_note_intervals(r->s, b);
	if (q->min_lifetime_ns == 0 && q->max_lifetime_ns == INT64_MAX)
		return true;
	return query_grow(r->s, &r->budget, &r->fits, &r->fits_room, r->blocks / 64,
			  sizeof(*r->fits));
}

/* ---- open spans ---- */

static int64_t since(int64_t from_ns, int64_t to_ns)
{
	int64_t ns;

	if (to_ns <= from_ns)
		return 0;
	return __builtin_sub_overflow(to_ns, from_ns, &ns) ? INT64_MAX : ns;
}

static struct sum *sum_of(struct spans_run *r, uint32_t type)
{
	if (r->sum_of[type] == NONE) {
		if (!query_grow(r->s, &r->budget, &r->sum, &r->sum_room, r->sums,
				sizeof(*r->sum)) ||
		    !query_grow(r->s, &r->budget, &r->type_of, &r->type_room, r->sums,
				sizeof(*r->type_of)))
			return NULL;
		r->type_of[r->sums] = type;
		r->sum_of[type] = (uint32_t)r->sums++;
	}
	return &r->sum[r->sum_of[type]];
}

static struct open_type *find_open(struct lane *lane, uint32_t type)
{
	for (size_t i = 0; i < lane->types; i++)
		if (lane->open[i].type == type)
			return &lane->open[i];
	return NULL;
}

/* Adds the time that has passed to the span that began last. */
static void pass_time(struct lane *lane, int64_t now_ns)
{
	if (lane->top != NONE)
		duration_sum(&lane->span[lane->top].self_ns, since(lane->changed_ns, now_ns));
	lane->changed_ns = now_ns;
}

/* A place for a span; NONE: out of memory. */
static uint32_t new_span(struct spans_run *r, struct lane *lane)
{
	uint32_t index = lane->free;

	if (index != NONE) {
		lane->free = lane->span[index].above;
		return index;
	}
	if (!query_grow(r->s, &r->budget, &lane->span, &lane->span_room, lane->spans,
			sizeof(*lane->span)))
		return NONE;
	return (uint32_t)lane->spans++;
}

static bool spans_push(struct spans_run *r, struct lane *lane, struct open_type *open, bool counts)
{
	const struct mayfly_track_event *e = &r->event;
	uint32_t index = new_span(r, lane);

	if (index == NONE)
		return false;
	lane->span[index] = (struct span){
	    .begin_ns = e->time_ns,
	    .bytes = lane->bytes,
	    .blocks = lane->blocks,
	    .first_ns = INT64_MAX,
	    .below = lane->top,
	    .above = NONE,
	    .same = open->last,
	    .type = e->type,
	    .counts = counts,
	};
	if (lane->top != NONE)
		lane->span[lane->top].above = index;
	lane->top = open->last = index;
	lane->count++;
	return true;
}

static bool spans_begin(struct spans_run *r, struct lane *lane)
{
	const struct mayfly_track_event *e = &r->event;
	bool counts = query_in_window(r->s->query, e->time_ns);
	struct open_type *open = find_open(lane, e->type);

	pass_time(lane, e->time_ns);
	if (lane->count >= MOST_OPEN || (!open && lane->types >= MOST_TYPES)) {
		r->a->ignored += counts;
		if (open)
			open->over++;
		return true;
	}
	if (!open) {
		if (!query_grow(r->s, &r->budget, &lane->open, &lane->type_room, lane->types,
				sizeof(*lane->open)))
			return false;
		open = &lane->open[lane->types++];
		*open = (struct open_type){.type = e->type, .last = NONE};
	}
	return sum_of(r, e->type) && spans_push(r, lane, open, counts);
}

static void unlink_span(struct lane *lane, uint32_t index)
{
	struct span *span = &lane->span[index];

	if (span->below != NONE)
		lane->span[span->below].above = span->above;
	if (span->above != NONE)
		lane->span[span->above].below = span->below;
	else
		lane->top = span->below;
	span->above = lane->free;
	lane->free = index;
	lane->count--;
}

/* The span ends now. */
static bool count_span(struct spans_run *r, const struct lane *lane, const struct span *span)
{
	const struct mayfly_track_event *e = &r->event;
	const struct worst_span one = {
	    .begin_ns = span->begin_ns,
	    .end_ns = e->time_ns,
	    .first_ns = span->first_ns,
	    .last_ns = lane->last_ns,
	    .thread = e->thread,
	    .bytes = lane->bytes - span->bytes,
	    .blocks = lane->blocks - span->blocks,
	};
	struct sum *sum = &r->sum[r->sum_of[e->type]];
	int error;

	duration_sum(&sum->self_ns, span->self_ns);
	error = durations_add(&sum->durations, since(span->begin_ns, e->time_ns), &r->budget);
	if (!error)
		error = span_costs_add(&sum->costs, &one, &r->budget);
	return !error || query_fail(r->s, error);
}

static bool spans_end(struct spans_run *r, struct lane *lane)
{
	const struct mayfly_track_event *e = &r->event;
	struct open_type *open = find_open(lane, e->type);
	struct span *span;

	if (!open) {
		r->a->unmatched += query_in_window(r->s->query, e->time_ns);
		return true;
	}
	if (open->over) {
		open->over--;
		return true;
	}
	pass_time(lane, e->time_ns);
	span = &lane->span[open->last];
	if (span->counts && !count_span(r, lane, span))
		return false;
	unlink_span(lane, open->last);
	open->last = span->same;
	if (open->last == NONE)
		*open = lane->open[--lane->types];
	return true;
}

static bool is_span(const struct spans_run *r, const struct mayfly_track_event *e)
{
	return (e->kind == MAYFLY_TRACK_BEGIN || e->kind == MAYFLY_TRACK_END) &&
	       (!r->s->thread_kept || r->s->thread_kept[e->thread]);
}

static bool take_span(struct spans_run *r)
{
	if (!is_span(r, &r->event))
		return true;
	if (r->event.kind == MAYFLY_TRACK_BEGIN)
		return spans_begin(r, &r->lane[r->event.thread]);
	return spans_end(r, &r->lane[r->event.thread]);
}

static bool next_event(struct spans_run *r)
{
	int more = mayfly_track_cursor_next(r->track, &r->event);

	r->more = more == 1;
	return more >= 0 || query_fail(r->s, more);
}

/* Takes all track events before block event number `events`. */
static bool take_track(struct spans_run *r, uint64_t events)
{
	while (r->more && r->event.events_before <= events) {
		if (!take_span(r) || !next_event(r))
			return false;
	}
	return true;
}

/* ---- second pass ---- */

static void spans_take_block(struct spans_run *r, const struct cursor_block *b, uint64_t number)
{
	struct lane *lane = &r->lane[b->thread];
	bool live = query_has_bit(r->live, number);
	struct tally one = {0};
	uint32_t innermost;

	if (!query_in_window(r->s->query, b->time_ns) || !query_keeps_allocated(r->s, b) ||
	    (r->fits && !query_has_bit(r->fits, number)))
		return;
	tally_add(&one, estimate_sampler(r->s->info->sampler, b->flags),
		  trace_interval(r->s->trace, b->flags, b->interval_log2), b->size, b->hits);
	/* A span has blocks if one inside it has. */
	for (uint32_t i = lane->top; i != NONE && lane->span[i].first_ns == INT64_MAX;
	     i = lane->span[i].below)
		lane->span[i].first_ns = b->time_ns;
	lane->last_ns = b->time_ns;
	lane->bytes += one.exact_bytes + one.sampled_bytes;
	lane->blocks++;
	for (size_t i = 0; i < lane->types; i++) {
		struct sum *sum = &r->sum[r->sum_of[lane->open[i].type]];

		tally_merge(&sum->allocated, &one);
		if (live)
			tally_merge(&sum->live, &one);
	}
	innermost = lane->span[lane->top].type;
	tally_merge(&r->sum[r->sum_of[innermost]].self, &one);
}

/* Takes the track events before a block event. */
static bool spans_step(struct spans_run *r)
{
	uint64_t events = r->events++;

	return !r->more || r->event.events_before > events || take_track(r, events);
}

static bool spans_take_free(void *context, const struct cursor_batch *b, size_t event, size_t freed)
{
	(void)b;
	(void)event;
	(void)freed;
	return spans_step(context);
}

static bool spans_take_alloc(void *context, const struct cursor_batch *b, size_t event,
			     size_t alloc)
{
	struct spans_run *r = context;
	uint32_t thread = b->e.thread[alloc];

	(void)event;
	if (!spans_step(r))
		return false;
	if (thread < r->s->info->threads && r->lane[thread].top != NONE) {
		struct cursor_block block = query_block(b, alloc);

		spans_take_block(r, &block, b->e.first_sample + alloc);
	}
	return true;
}

static bool spans_join(struct spans_run *r)
{
	const struct event_pass fates = {
	    .context = r,
	    .before = take_allocs,
	    .freed = take_lifetime,
	    .live = spans_take_live,
	};
	const struct event_pass blocks = {
	    .context = r,
	    .alloc = spans_take_alloc,
	    .freed = spans_take_free,
	};
	const struct mayfly_query *q = r->s->query;
	bool has_blocks = !r->s->info->snapshot_ns && q->min_size <= q->max_size;
	bool done;
	int error;

	if (has_blocks && !query_pass(r->s, &fates))
		return false;
	error = mayfly_track_cursor_open(r->s->trace, &r->track);
	if (error)
		return query_fail(r->s, error);
	done = next_event(r) && (!has_blocks || query_pass(r->s, &blocks)) &&
	       take_track(r, UINT64_MAX);
	mayfly_track_cursor_close(r->track);
	return done;
}

/* ---- rows ---- */

static void count_open(struct spans_run *r)
{
	for (size_t i = 0; i < r->s->info->threads; i++) {
		const struct lane *lane = &r->lane[i];

		for (uint32_t k = lane->top; k != NONE; k = lane->span[k].below)
			r->sum[r->sum_of[lane->span[k].type]].open += lane->span[k].counts;
	}
}

static void fill_row(const struct spans_run *r, struct mayfly_span_row *row, size_t i)
{
	struct sum *sum = &r->sum[i];
	struct durations *d = &sum->durations;
	struct unseen unseen = query_unseen(r->s, 0, SPREAD_SELF);

	*row = (struct mayfly_span_row){
	    .type = r->type_of[i],
	    .count = d->count,
	    .open = sum->open,
	    .total_ns = d->total_ns,
	    .self_ns = sum->self_ns,
	    .min_ns = d->min_ns,
	    .max_ns = d->max_ns,
	};
	memcpy(row->in_class, d->in_class, sizeof(row->in_class));
	durations_sort(d);
	row->p50_ns = durations_percentile(d, 50);
	row->p90_ns = durations_percentile(d, 90);
	row->p99_ns = durations_percentile(d, 99);
	if (r->s->info->snapshot_ns)
		unseen.interval = 0; /* the trace has no blocks to estimate */
	row->allocated = tally_estimate(&sum->allocated, unseen);
	row->self_allocated = tally_estimate(&sum->self, unseen);
	row->live = tally_estimate(&sum->live, unseen);
}

/* A type whose spans all began before the window may have nothing to show. */
static bool spans_is_empty(const struct sum *sum)
{
	return !sum->durations.count && !sum->open && !sum->allocated.seen_blocks &&
	       !sum->allocated.exact_count;
}

static int spans_compare_rows(const void *a, const void *b)
{
	const struct mayfly_span_row *x = a, *y = b;

	if (x->total_ns != y->total_ns)
		return x->total_ns > y->total_ns ? -1 : 1;
	if (x->count != y->count)
		return x->count > y->count ? -1 : 1;
	return (x->type > y->type) - (x->type < y->type);
}

static void spans_fill_rows(struct spans_run *r)
{
	struct mayfly_span_row *row = answer_array(r->s, r->a, r->sums, sizeof(*row));
	struct span_bytes *bytes = answer_array(r->s, r->a, r->sums, sizeof(*bytes));
	struct spread spread = {0};

	if (r->s->error)
		return;
	count_open(r);
	for (size_t i = 0; i < r->sums; i++)
		spread_add(&spread, &r->sum[i].allocated);
	r->s->spread[SPREAD_SELF] = spread_variance(&spread);
	for (size_t i = 0; i < r->sums; i++) {
		if (spans_is_empty(&r->sum[i]))
			continue;
		bytes[r->a->rows] = span_costs_finish(&r->sum[i].costs, r->type_of[i]);
		fill_row(r, &row[r->a->rows++], i);
	}
	if (r->a->rows)
		qsort(row, r->a->rows, sizeof(*row), spans_compare_rows);
	r->a->row = row;
	((struct spans_answer *)(void *)r->a)->bytes = bytes;
}

/* ---- the answer ---- */

/* The part of the question that is about blocks; metric and grouping do not apply. */
static struct mayfly_query spans_query(const struct mayfly_query *query)
{
	struct mayfly_query q = *query;

	q.metric = MAYFLY_ALLOCATED;
	q.by = MAYFLY_BY_FUNCTION;
	q.sort = MAYFLY_SORT_SELF;
	q.at_ns = MAYFLY_AT_END;
	return q;
}

static bool make_lanes(struct spans_run *r)
{
	size_t threads = r->s->info->threads, types = r->s->info->track_types;

	r->lane = query_scratch(r->s, threads, sizeof(*r->lane));
	r->sum_of = query_scratch(r->s, types, sizeof(*r->sum_of));
	if (r->s->error)
		return false;
	memset(r->sum_of, 0xff, types * sizeof(*r->sum_of));
	for (size_t i = 0; i < threads; i++)
		r->lane[i].top = r->lane[i].free = NONE;
	return true;
}

static bool has_spans(const struct mayfly_trace *trace, const struct mayfly_info *info)
{
	for (size_t i = 0; info->track_events && i < info->track_types; i++)
		if (mayfly_trace_track_type(trace, i)->kind == MAYFLY_TYPE_SPAN)
			return true;
	return false;
}

static void run_spans(struct spans_run *r, const struct mayfly_trace *trace,
		      const struct mayfly_query *query)
{
	r->budget = trace_budget(trace);
	/* Spans can be recorded without any blocks. */
	if (mayfly_query_absent(trace, query) &
	    ~(uint32_t)(MAYFLY_ABSENT_ALLOCATED | MAYFLY_ABSENT_ALLOCATIONS))
		query_fail(r->s, MAYFLY_E_ABSENT);
	else if (query_choose(r->s, trace, query) && make_lanes(r) &&
		 has_spans(trace, r->s->info) && spans_join(r))
		spans_fill_rows(r);
}

static void free_run(struct spans_run *r)
{
	for (size_t i = 0; r->lane && i < r->s->info->threads; i++) {
		free(r->lane[i].span);
		free(r->lane[i].open);
	}
	for (size_t i = 0; i < r->sums; i++) {
		durations_free(&r->sum[i].durations);
		span_costs_free(&r->sum[i].costs);
	}
	free(r->sum);
	free(r->type_of);
	free(r->live);
	free(r->fits);
}

int mayfly_spans_run(const struct mayfly_trace *trace, const struct mayfly_query *query,
		     struct mayfly_spans **spans)
{
	struct mayfly_query q = spans_query(query);
	struct query_state s = {0};
	struct spans_run r = {.s = &s, .a = answer_new(&s, sizeof(struct spans_answer))};

	if (r.a)
		run_spans(&r, trace, &q);
	free_run(&r);
	return answer_finish(&s, r.a, spans);
}

const struct span_bytes *span_bytes_of(const struct mayfly_spans *spans, uint32_t type)
{
	const struct spans_answer *a = (const struct spans_answer *)(const void *)spans;

	for (size_t i = 0; i < spans->rows; i++)
		if (a->bytes[i].type == type)
			return &a->bytes[i];
	return NULL;
}

void mayfly_spans_free(struct mayfly_spans *spans)
{
	answer_free(spans);
}
