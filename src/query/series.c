/* SPDX-License-Identifier: Apache-2.0 */
/*
 * series.c: the rows of an answer over time.
 *
 * The answer to the question tells which rows exist, and for which of them each slot counts
 * (query.h). One pass over the events adds the change of each event to the first moment at or after
 * it; in the end changes are summed from moment to moment. Memory does not depend on the number of
 * events.
 */
#include "query/query.h"
#include "trace/read/sums.h"

#include <stdlib.h>
#include <string.h>

#define MOST_NUMBERS (1u << 24) /* limit of rows times points */

/* mayfly_series_free() frees this whole struct. */
struct series_answer {
	struct mayfly_series series;  /* must be first: the caller's pointer is to it */
	struct mayfly_result *result; /* the rows point into it */
	struct mayfly_row *row;
	int64_t *time_ns;
	double *numbers;
};

struct series_run {
	struct query_state *s;
	struct series_answer *a;
	size_t points, rows; /* rows: excludes the one for all others, which has index `rows` */
	int64_t *bound;	     /* time of each moment; INT64_MAX if the last is the end */
	struct shown shown;
	double *live_bytes, *live_blocks, *allocated_bytes, *allocated_blocks;
	int64_t *live_count, *allocated_count; /* of samples: with none the sum is exactly 0 */
	size_t at;			       /* first moment at or after the current event */
};

/* ---- changes ---- */

struct change {
	double bytes, blocks;
	int64_t count;
};

static struct change change_of(const struct series_run *r, const struct cursor_block *b, int sign)
{
	struct change c = {(double)b->size, 1, sign};

	if (b->hits)
		sample_weight(estimate_sampler(r->s->info->sampler, b->flags),
			      trace_interval(r->s->trace, b->flags, b->interval_log2), b->size,
			      b->hits, &c.bytes, &c.blocks);
	c.bytes *= sign;
	c.blocks *= sign;
	return c;
}

static void change_row(struct series_run *r, size_t i, const struct change *c, bool allocated)
{
	r->live_bytes[i] += c->bytes;
	r->live_blocks[i] += c->blocks;
	r->live_count[i] += c->count;
	if (!allocated)
		return;
	r->allocated_bytes[i] += c->bytes;
	r->allocated_blocks[i] += c->blocks;
	r->allocated_count[i] += c->count;
}

/* Changes what is live from a moment on; allocated: also what was allocated. */
static void change(struct series_run *r, uint32_t slot, size_t point, struct change c,
		   bool allocated)
{
	uint32_t list = r->shown.head[slot];

	if (point >= r->points)
		return;
	if (list == NONE)
		change_row(r, r->rows * r->points + point, &c, allocated);
	for (; list != NONE; list = r->shown.cell[list].next)
		change_row(r, r->shown.cell[list].row * r->points + point, &c, allocated);
}

/* The first moment at or after this time. */
static size_t point_of(const struct series_run *r, int64_t time_ns)
{
	size_t low = 0, high = r->points;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (r->bound[middle] < time_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* An allocation counts at once, as a block that is never freed. */
static void series_take_alloc(struct series_run *r, const struct cursor_block *b)
{
	const struct mayfly_query *q = r->s->query;

	if (query_keeps(r->s, b) && query_lifetime_fits(q, FOREVER))
		change(r, query_slot(r->s, b, NEVER_FREED), r->at, change_of(r, b, 1), true);
}

/* If fates matter, the free takes that back and counts the block with its real fate. */
static void series_take_free(struct series_run *r, const struct cursor_block *b, struct fate fate,
			     bool fates)
{
	const struct mayfly_query *q = r->s->query;
	uint32_t slot;
	size_t born;

	if (!query_keeps(r->s, b))
		return;
	slot = query_slot(r->s, b, fate);
	if (!fates) {
		change(r, slot, r->at, change_of(r, b, -1), false);
		return;
	}
	born = point_of(r, b->time_ns);
	if (query_lifetime_fits(q, FOREVER))
		change(r, query_slot(r->s, b, NEVER_FREED), born, change_of(r, b, -1), true);
	if (query_lifetime_fits(q, fate.lifetime)) {
		change(r, slot, born, change_of(r, b, 1), true);
		change(r, slot, r->at, change_of(r, b, -1), false);
	}
}

static void series_take_batch(struct series_run *r, const struct cursor_batch *b, bool fates)
{
	size_t alloc = 0, freed = 0;

	for (size_t i = 0; i < b->e.events; i++) {
		while (r->at < r->points && r->bound[r->at] < b->e.time_ns[i])
			r->at++;
		if (b->e.is_free[i]) {
			const struct cursor_block *block = &b->freed[freed];

			series_take_free(
			    r, block, query_fate(block, b->e.time_ns[i], b->e.free_thread[freed]),
			    fates);
			freed++;
		} else {
			struct cursor_block block = query_block(b, alloc++);

			series_take_alloc(r, &block);
		}
	}
}

static bool series_take_events(struct series_run *r)
{
	bool fates = query_asks_fate(r->s);
	struct mayfly_cursor *cursor;
	struct cursor_batch batch;
	int more = mayfly_cursor_open(r->s->trace, &cursor);

	if (more)
		return query_fail(r->s, more);
	/* With fates, frees after the last moment are needed too: they tell lifetimes. */
	while ((r->at < r->points || fates) && (more = cursor_next_batch(cursor, &batch)) == 1)
		series_take_batch(r, &batch, fates);
	mayfly_cursor_close(cursor);
	return more >= 0 || query_fail(r->s, more);
}

static void take_part(struct series_run *r, const struct sums_part *part)
{
	for (size_t i = 0; i < part->nodes; i++) {
		uint32_t node = part->node[i] < r->s->slots ? part->node[i] : 0;
		struct change born = {(double)part->alloc_bytes[i], (double)part->allocs[i],
				      (int64_t)part->allocs[i]};
		struct change died = {-(double)part->free_bytes[i], -(double)part->frees[i],
				      -(int64_t)part->frees[i]};

		if (r->s->node_kept && !r->s->node_kept[node])
			continue;
		change(r, node, r->at, born, true);
		change(r, node, r->at, died, false);
	}
}

/* Moments are the ends of intervals here: set_times(). */
static bool take_parts(struct series_run *r)
{
	struct sums_cursor *cursor;
	struct sums_part part;
	int more = sums_cursor_open(r->s->trace, &cursor);

	if (more)
		return query_fail(r->s, more);
	while ((more = sums_cursor_next(cursor, &part)) == 1) {
		while (r->at < r->points && r->bound[r->at] <= part.from_ns)
			r->at++;
		if (r->at == r->points)
			break;
		take_part(r, &part);
	}
	sums_cursor_close(cursor);
	return more >= 0 || query_fail(r->s, more);
}

/* ---- the answer ---- */

static void add_up(const struct series_run *r, double *value, const int64_t *changes)
{
	for (size_t row = 0; row <= r->rows; row++) {
		double sum = 0;
		int64_t count = 0;

		for (size_t i = row * r->points; i < (row + 1) * r->points; i++) {
			sum += value[i];
			count += changes[i];
			if (count <= 0)
				sum = 0; /* drops rounding errors */
			value[i] = sum > 0 ? sum : 0;
		}
	}
}

static void set_times(struct series_run *r)
{
	const struct mayfly_query *q = r->s->query;
	int64_t end = q->to_ns < r->s->info->duration_ns ? q->to_ns : r->s->info->duration_ns;

	for (size_t i = 0; i < r->points; i++) {
		__int128 way = (__int128)(end - q->from_ns) * (__int128)(i + 1);

		r->bound[i] =
		    query_rounded(r->s, q->from_ns + (int64_t)(way / (__int128)r->points));
		r->a->time_ns[i] = r->bound[i];
	}
	if (q->to_ns >= r->s->info->duration_ns)
		r->bound[r->points - 1] = INT64_MAX;
}

static bool make_numbers(struct series_run *r)
{
	size_t numbers = (r->rows + 1) * r->points;
	struct mayfly_series *series = &r->a->series;

	r->a->time_ns = query_zeroed(r->s, r->points, sizeof(*r->a->time_ns));
	r->a->numbers = query_zeroed(r->s, numbers, 4 * sizeof(double));
	r->bound = query_zeroed(r->s, r->points, sizeof(*r->bound));
	r->live_count = query_zeroed(r->s, numbers, sizeof(*r->live_count));
	r->allocated_count = query_zeroed(r->s, numbers, sizeof(*r->allocated_count));
	if (!r->a->time_ns || !r->a->numbers || !r->bound || !r->live_count || !r->allocated_count)
		return false;
	series->time_ns = r->a->time_ns;
	series->live_bytes = r->live_bytes = r->a->numbers;
	series->live_blocks = r->live_blocks = r->a->numbers + numbers;
	series->allocated_bytes = r->allocated_bytes = r->a->numbers + 2 * numbers;
	series->allocated_blocks = r->allocated_blocks = r->a->numbers + 3 * numbers;
	return true;
}

static bool fill_numbers(struct series_run *r)
{
	set_times(r);
	if (r->s->info->snapshot_ns ? !take_parts(r) : !series_take_events(r))
		return false;
	add_up(r, r->live_bytes, r->live_count);
	add_up(r, r->live_blocks, r->live_count);
	add_up(r, r->allocated_bytes, r->allocated_count);
	add_up(r, r->allocated_blocks, r->allocated_count);
	return true;
}

static bool series_make_rows(struct series_run *r)
{
	r->a->row = query_shown_rows(r->s, r->a->result, r->rows);
	r->a->series.points = r->points;
	r->a->series.rows = r->rows + 1;
	r->a->series.row = r->a->row;
	return r->a->row != NULL;
}

static void run_end(struct series_run *r)
{
	free(r->bound);
	query_shown_free(&r->shown);
	free(r->live_count);
	free(r->allocated_count);
}

/* Live bytes are asked of all blocks: here the window only selects the moments. */
static struct mayfly_query ranking_query(const struct mayfly_query *query)
{
	struct mayfly_query q = *query;

	if (q.metric == MAYFLY_LIVE || q.metric == MAYFLY_PEAK) {
		q.from_ns = 0;
		q.to_ns = INT64_MAX;
	}
	return q;
}

static int run_series(struct query_state *s, const struct mayfly_trace *trace,
		      const struct mayfly_query *query, size_t points, size_t rows,
		      struct series_answer *a)
{
	struct mayfly_query ranking = ranking_query(query);
	struct series_run r = {.s = s, .a = a, .points = points};
	bool done;

	a->result = query_answer(s, trace, &ranking);
	if (!a->result)
		return s->error;
	s->query = query;
	r.rows = rows < a->result->rows ? rows : a->result->rows;
	if (r.rows + 1 > MOST_NUMBERS / points)
		return MAYFLY_E_TOO_LARGE;
	done = make_numbers(&r) && series_make_rows(&r) && query_shown_make(s, r.rows, &r.shown) &&
	       fill_numbers(&r);
	run_end(&r);
	return done ? s->error : s->error ? s->error : MAYFLY_E_MEMORY;
}

int mayfly_series_run(const struct mayfly_trace *trace, const struct mayfly_query *query,
		      size_t points, size_t rows, struct mayfly_series **series)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);
	struct query_state s = {0};
	struct series_answer *a;
	int error;

	if (points == 0 || points > MOST_NUMBERS || query->from_ns >= query->to_ns ||
	    query->from_ns < 0 || query->from_ns > info->duration_ns)
		return MAYFLY_E_RANGE;
	if (info->absent & (MAYFLY_ABSENT_TIMES | MAYFLY_ABSENT_LIVE))
		return MAYFLY_E_ABSENT;
	a = calloc(1, sizeof(*a));
	if (!a)
		return MAYFLY_E_MEMORY;
	error = run_series(&s, trace, query, points, rows, a);
	query_end(&s);
	if (error)
		mayfly_series_free(&a->series);
	else
		*series = &a->series;
	return error;
}

void mayfly_series_free(struct mayfly_series *series)
{
	struct series_answer *a = (struct series_answer *)series;

	if (!a)
		return;
	mayfly_result_free(a->result);
	free(a->row);
	free(a->time_ns);
	free(a->numbers);
	free(a);
}
