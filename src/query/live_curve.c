/* SPDX-License-Identifier: Apache-2.0 */
/* live_curve.c: live bytes over time. */
#include "query/live_curve.h"

#include "base/search.h"
#include "query/query.h"
#include "trace/read/sums.h"

struct curve_run {
	struct query_state *s;
	struct live_step *step;
	size_t steps, at; /* the current step */
	bool begun;	  /* the first step has */
	int64_t from_ns, to_ns;
	int64_t snapshot_ns; /* the time of the last snapshot */
	uint64_t events;     /* so far */
	double live;
	uint64_t *fits; /* a bit for each block: its lifetime fits; NULL: all do */
	size_t blocks;
	bool plain; /* every block that is not twice in the trace counts, for its size */
};

/* ---- steps ---- */

/* The step that contains a time; r->steps: the time is beyond the window. The last step has its end. */
static size_t curve_step_of(const struct curve_run *r, int64_t time_ns)
{
	double step;

	if (time_ns <= r->from_ns)
		return 0;
	if (time_ns > r->to_ns && r->to_ns < r->s->info->duration_ns)
		return r->steps;
	step = (double)(time_ns - r->from_ns) / (double)(r->to_ns - r->from_ns) * (double)r->steps;
	return step < (double)r->steps ? (size_t)step : r->steps - 1;
}

static int64_t begin_of(const struct curve_run *r, size_t step)
{
	__int128 way = (__int128)(r->to_ns - r->from_ns) * (__int128)step;

	return r->from_ns + (int64_t)(way / (__int128)r->steps);
}

/* Only the last one of several snapshots is known, and nothing of the time since then. */
static void begin_step(struct curve_run *r)
{
	int64_t time_ns = r->s->info->snapshot_ns ? r->snapshot_ns : begin_of(r, r->at);
	const struct live_point now = {{r->events, time_ns}, r->live};

	r->step[r->at] = (struct live_step){now, now};
}

/* Goes on to a later step. What is live when a step begins is live in it. */
static void curve_go(struct curve_run *r, size_t step)
{
	if (!r->begun) {
		r->begun = true;
		begin_step(r);
	}
	while (r->at < step && ++r->at < r->steps)
		begin_step(r);
}

/* After the event with this number. */
static inline void note_in(struct live_step *step, uint64_t events, int64_t time_ns, double live)
{
	const struct live_point now = {{events, time_ns}, live};

	if (live > step->most.bytes)
		step->most = now;
	else if (live < step->least.bytes)
		step->least = now;
}

/* Before an event at this time. False: it is beyond the window. */
static bool curve_come_to(struct curve_run *r, int64_t time_ns)
{
	if (time_ns >= r->from_ns)
		curve_go(r, curve_step_of(r, time_ns));
	return r->at < r->steps;
}

/* ---- events ---- */

/* What a block counts for. */
static double bytes_of(const struct curve_run *r, uint64_t number, const struct cursor_block *b)
{
	double bytes, blocks;

	if (!query_keeps(r->s, b) ||
	    (r->fits && (number >= r->blocks || !query_has_bit(r->fits, number))))
		return 0;
	if (!b->hits)
		return (double)b->size;
	sample_weight(estimate_sampler(r->s->info->sampler, b->flags),
		      trace_interval(r->s->trace, b->flags, b->interval_log2), b->size, b->hits,
		      &bytes, &blocks);
	return bytes;
}

static double plain_bytes(const struct curve_run *r, uint64_t size, uint32_t flags, uint32_t node)
{
	return trace_counts(r->s->trace, MAYFLY_FLAG_HEAP(flags), node) ? (double)size : 0;
}

static inline double alloc_bytes(const struct curve_run *r, const struct cursor_batch *b,
				 size_t alloc)
{
	struct cursor_block block;

	if (r->plain)
		return plain_bytes(r, b->e.size[alloc], b->e.alloc_flags[alloc], b->e.node[alloc]);
	block = query_block(b, alloc);
	return bytes_of(r, b->e.first_sample + alloc, &block);
}

static inline double freed_bytes(const struct curve_run *r, const struct cursor_batch *b,
				 size_t freed)
{
	const struct cursor_block *block = &b->freed[freed];

	return r->plain ? plain_bytes(r, block->size, block->flags, block->node)
			: bytes_of(r, b->e.freed[freed], block);
}

/* The first event from `event` on that is not in the current step, or before the window. */
static size_t end_of_step(const struct curve_run *r, const struct cursor_batch *b, size_t event)
{
	return FIRST_THAT(i, event, b->e.events,
			  r->begun ? curve_step_of(r, b->e.time_ns[i]) > r->at
				   : b->e.time_ns[i] >= r->from_ns);
}

/* The allocations and frees of a batch that have been taken. */
struct taken {
	size_t allocs, frees;
};

/* A report draws the curve of a trace of every allocation: this is most of what it does then, beside
 * the decoding. */
static void take_to(struct curve_run *r, const struct cursor_batch *b, struct taken *taken,
		    size_t end)
{
	struct live_step before = {0}, *step = r->begun ? &r->step[r->at] : &before;
	size_t allocs = taken->allocs, frees = taken->frees;
	double live = r->live;

	for (size_t i = allocs + frees; i < end; i++) {
		if (b->e.is_free[i])
			live -= freed_bytes(r, b, frees++);
		else
			live += alloc_bytes(r, b, allocs++);
		note_in(step, b->chunk->first_event + i + 1, b->e.time_ns[i], live);
	}
	r->live = live;
	r->events += end - taken->allocs - taken->frees;
	*taken = (struct taken){allocs, frees};
}

static bool curve_take_batch(void *context, const struct cursor_batch *b)
{
	struct curve_run *r = context;
	struct taken taken = {0};

	for (size_t i = 0; i < b->e.events; i = taken.allocs + taken.frees) {
		if (!curve_come_to(r, b->e.time_ns[i]))
			return false;
		take_to(r, b, &taken, end_of_step(r, b, i));
	}
	return true;
}

/* ---- lifetimes ---- */

static void mark_fitting(struct curve_run *r, uint64_t number, int64_t lifetime)
{
	if (number < r->blocks && query_lifetime_fits(r->s->query, lifetime))
		query_set_bit(r->fits, number);
}

static bool mark_freed(void *context, const struct cursor_batch *batch, size_t event, size_t freed)
{
	mark_fitting(context, batch->e.freed[freed], query_fate(batch, event, freed).lifetime);
	return true;
}

static void mark_live(void *context, uint64_t number, const struct cursor_block *block)
{
	(void)block;
	mark_fitting(context, number, FOREVER);
}

/* A block counts from its allocation on, long before its lifetime is known. */
static bool find_fitting(struct curve_run *r)
{
	const struct event_pass pass = {.context = r, .freed = mark_freed, .live = mark_live};

	r->blocks = r->s->info->samples;
	if (r->blocks / 8 > trace_budget(r->s->trace))
		return query_fail(r->s, MAYFLY_E_TOO_LARGE);
	r->fits = query_scratch(r->s, r->blocks / 64 + 1, sizeof(*r->fits));
	return r->fits && query_pass(r->s, &pass);
}

static bool take_curve_events(struct curve_run *r)
{
	const struct event_pass pass = {.context = r, .before = curve_take_batch};

	if (query_asks_fate(r->s) && !find_fitting(r))
		return false;
	r->plain = r->s->exact && !r->fits && query_has_no_filter(r->s);
	return query_pass(r->s, &pass);
}

/* ---- snapshots ---- */

static double change_of_part(const struct curve_run *r, const struct sums_part *part)
{
	double bytes = 0;

	for (size_t i = 0; i < part->nodes; i++) {
		uint32_t node = part->node[i] < r->s->info->nodes ? part->node[i] : 0;

		if (!r->s->node_kept || r->s->node_kept[node])
			bytes += (double)part->alloc_bytes[i] - (double)part->free_bytes[i];
	}
	return bytes;
}

static bool take_curve_parts(struct curve_run *r)
{
	struct sums_cursor *cursor;
	struct sums_part part;
	int more = sums_cursor_open(r->s->trace, &cursor);

	if (more)
		return query_fail(r->s, more);
	while ((more = sums_cursor_next(cursor, &part)) == 1 && curve_come_to(r, part.to_ns)) {
		r->events = part.end_event;
		r->snapshot_ns = part.to_ns;
		r->live += change_of_part(r, &part);
		if (r->begun)
			note_in(&r->step[r->at], r->events, part.to_ns, r->live);
	}
	sums_cursor_close(cursor);
	return more >= 0 || query_fail(r->s, more);
}

/* ---- the curve ---- */

static void curve_take(struct curve_run *r)
{
	bool snapshots = r->s->info->snapshot_ns != 0, taken;

	if (snapshots && query_asks_for_blocks(r->s))
		taken = query_fail(r->s, MAYFLY_E_ABSENT);
	else
		taken = snapshots ? take_curve_parts(r) : take_curve_events(r);
	if (taken)
		curve_go(r, r->steps);
}

int live_curve_run(const struct mayfly_trace *trace, const struct mayfly_query *query, size_t steps,
		   struct live_step *step)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);
	struct mayfly_query live = *query;
	struct query_state s = {0};
	struct curve_run r = {.s = &s, .steps = steps, .step = step};
	int error;

	if (steps == 0 || query->from_ns < 0 || query->from_ns >= query->to_ns ||
	    query->from_ns > info->duration_ns)
		return MAYFLY_E_RANGE;
	if (info->absent & (MAYFLY_ABSENT_TIMES | MAYFLY_ABSENT_LIVE))
		return MAYFLY_E_ABSENT;
	r.from_ns = query->from_ns;
	r.to_ns = query->to_ns < info->duration_ns ? query->to_ns : info->duration_ns;
	if (r.to_ns <= r.from_ns)
		r.to_ns = r.from_ns + 1;
	/* Which rows are asked for does not matter, and blocks from before the window count. */
	live.metric = MAYFLY_LIVE;
	live.by = MAYFLY_BY_FUNCTION;
	live.from_ns = 0;
	live.to_ns = INT64_MAX;
	if (mayfly_query_absent(trace, &live))
		return MAYFLY_E_ABSENT;
	if (query_choose(&s, trace, &live))
		curve_take(&r);
	error = s.error;
	query_end(&s);
	return error;
}

static bool earlier(const struct moment *a, const struct moment *b)
{
	return a->events != b->events ? a->events < b->events : a->time_ns < b->time_ns;
}

/* A step may begin before the last event of the one before it by what rounding leaves out. */
static void add_point(struct live_point *point, size_t *points, const struct live_point *next)
{
	const struct moment *last = *points ? &point[*points - 1].at : NULL;

	if (last && !earlier(last, &next->at))
		return;
	point[*points] = *next;
	if (last && next->at.time_ns < last->time_ns)
		point[*points].at.time_ns = last->time_ns;
	++*points;
}

size_t live_curve_points(const struct live_step *step, size_t steps, struct live_point *point)
{
	size_t points = 0;

	for (size_t i = 0; i < steps; i++) {
		const struct live_point *pair[2] = {&step[i].least, &step[i].most};

		if (earlier(&pair[1]->at, &pair[0]->at)) {
			pair[0] = &step[i].most;
			pair[1] = &step[i].least;
		}
		add_point(point, &points, pair[0]);
		add_point(point, &points, pair[1]);
	}
	return points;
}
