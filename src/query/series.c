/* SPDX-License-Identifier: Apache-2.0 */
/*
 * series.c: the rows of an answer over time.
 *
 * The answer to the question tells which rows exist, and for which of them each slot counts
 * (query.h). One pass over the events adds the change of each event to the first moment at or after
 * it; in the end changes are summed from moment to moment. Memory does not depend on the number of
 * events.
 *
 * series_run_largest() chooses rows after the pass: it keeps, of each candidate, what is live now, the
 * largest that it was at a moment, and a list of what changed before each moment, from which the rows are
 * filled. A second pass is made where that list would be too long, and for totals: a block counts for
 * several candidates there.
 */
#include "query/series.h"

#include "base/array.h"
#include "base/search.h"
#include "query/query.h"
#include "query/row_key.h"
#include "trace/read/sums.h"

#include <stdlib.h>

#define MOST_NUMBERS	(1u << 24) /* limit of rows times points */
#define MOST_CANDIDATES (1u << 16)
#define MOST_LISTED	(1u << 19) /* 28 MiB of changes */

/* A candidate in the pass that chooses rows. */
struct running {
	double live, most;
	int64_t count;
	size_t at; /* the first moment that shows `live` */
};

struct change {
	double bytes, blocks;
	int64_t count;
};

/* What changed of a candidate between a moment and the one before it. */
struct listed_change {
	uint32_t candidate, point;
	struct change live, allocated;
};

struct series_run {
	struct query_state *s;
	struct mayfly_series *a;
	size_t points;
	const struct live_point *point; /* the moments; NULL: evenly spaced ones */
	int64_t *bound;			/* time of each moment; INT64_MAX if the last is the end */
	double *live_bytes, *live_blocks, *allocated_bytes, *allocated_blocks;
	int64_t *live_count, *allocated_count; /* of samples: with none the sum is exactly 0 */
	size_t at;			       /* first moment at or after the current event */
	bool fates;			       /* query_asks_fate() */
	struct running *running;	       /* of candidates, while rows are chosen; then NULL */
	const uint32_t *chosen;	    /* candidate -> row, or NONE: all others'; NULL: all are rows */
	struct listed_change *list; /* NULL: there is none, or not any more */
	size_t listed, list_room;
	uint32_t *
	    newest; /* candidate -> 1 + the index of its newest change in the list; NULL: no list */
};

/* ---- changes ---- */

static void add_change(struct change *to, const struct change *c)
{
	to->bytes += c->bytes;
	to->blocks += c->blocks;
	to->count += c->count;
}

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

/* What is live until now was seen at the moments that have passed. */
static void see_running(struct running *x, size_t at)
{
	if (at > x->at && x->live > x->most)
		x->most = x->live;
	x->at = at;
}

static void run_on(struct running *x, const struct change *c, size_t point)
{
	see_running(x, point);
	x->live += c->bytes;
	x->count += c->count;
	if (x->count <= 0)
		x->live = 0; /* drops rounding errors */
}

static void change_live(struct series_run *r, size_t i, const struct change *c)
{
	r->live_bytes[i] += c->bytes;
	r->live_blocks[i] += c->blocks;
	r->live_count[i] += c->count;
}

static void change_allocated(struct series_run *r, size_t i, const struct change *c)
{
	r->allocated_bytes[i] += c->bytes;
	r->allocated_blocks[i] += c->blocks;
	r->allocated_count[i] += c->count;
}

static void change_row(struct series_run *r, size_t i, const struct change *c, bool allocated)
{
	change_live(r, i, c);
	if (allocated)
		change_allocated(r, i, c);
}

/* ---- the list of changes ---- */

static void drop_list(struct series_run *r)
{
	free(r->list);
	r->list = NULL;
	r->newest = NULL;
}

/* The change of a candidate before this moment; NULL: the list has ended. */
static struct listed_change *listed_at(struct series_run *r, uint32_t candidate, uint32_t point)
{
	uint32_t *newest = &r->newest[candidate];

	if (*newest && r->list[*newest - 1].point == point)
		return &r->list[*newest - 1];
	if (r->listed == MOST_LISTED ||
	    !array_reserve(&r->list, &r->list_room, r->listed, sizeof(*r->list))) {
		drop_list(r);
		return NULL;
	}
	r->list[r->listed] = (struct listed_change){candidate, point, {0}, {0}};
	*newest = (uint32_t)++r->listed;
	return &r->list[*newest - 1];
}

static void list_change(struct series_run *r, uint32_t candidate, size_t point,
			const struct change *c, bool allocated)
{
	struct listed_change *l = r->newest ? listed_at(r, candidate, (uint32_t)point) : NULL;

	if (!l)
		return;
	add_change(&l->live, c);
	if (allocated)
		add_change(&l->allocated, c);
}

/* As a pass over the events would. */
static void take_list(struct series_run *r)
{
	for (size_t i = 0; i < r->listed; i++) {
		const struct listed_change *l = &r->list[i];
		uint32_t row = r->chosen[l->candidate];
		size_t at = (row == NONE ? r->a->rows - 1 : row) * r->points + l->point;

		change_live(r, at, &l->live);
		change_allocated(r, at, &l->allocated);
	}
}

/* Changes what is live from a moment on; allocated: also what was allocated. */
static void change(struct series_run *r, uint32_t slot, size_t point, struct change c,
		   bool allocated)
{
	const struct shown *shown = &r->s->shown;
	bool others = true;

	if (point >= r->points)
		return;
	for (uint32_t i = shown->head[slot]; i != NONE; i = shown->cell[i].next) {
		uint32_t row = shown->cell[i].row;

		if (r->running) {
			run_on(&r->running[row], &c, point);
			list_change(r, row, point, &c, allocated);
			continue;
		}
		if (r->chosen)
			row = r->chosen[row];
		if (row == NONE)
			continue;
		others = false;
		change_row(r, row * r->points + point, &c, allocated);
	}
	if (others && r->chosen)
		change_row(r, (r->a->rows - 1) * r->points + point, &c, allocated);
}

/* The first moment at or after this time. */
static size_t point_of(const struct series_run *r, int64_t time_ns)
{
	return FIRST_THAT(i, 0, r->points, r->bound[i] >= time_ns);
}

/* Before an event of the batch. Many events may have the same time, and a given moment may lie between
 * two of them; where fates matter, blocks are found by the times of their births. */
static void advance(struct series_run *r, const struct cursor_batch *batch, size_t event)
{
	uint64_t before = batch->chunk->first_event + event;

	if (r->point && !r->fates)
		while (r->at < r->points && r->point[r->at].at.events <= before)
			r->at++;
	else
		while (r->at < r->points && r->bound[r->at] < batch->e.time_ns[event])
			r->at++;
}

static bool is_allocated(const struct cursor_block *b)
{
	return !(b->flags & MAYFLY_FLAG_INHERITED);
}

/* An allocation counts at once, as a block that is never freed. */
static bool series_take_alloc(void *context, const struct cursor_batch *batch, size_t event,
			      size_t alloc)
{
	struct series_run *r = context;
	const struct cursor_block b = query_block(batch, alloc);

	advance(r, batch, event);
	if (query_keeps(r->s, &b) && query_lifetime_fits(r->s->query, FOREVER))
		change(r, query_slot(r->s, &b, NEVER_FREED), r->at, change_of(r, &b, 1),
		       is_allocated(&b));
	return true;
}

/* If fates matter, the free takes that back and counts the block with its real fate. */
static bool series_take_free(void *context, const struct cursor_batch *batch, size_t event,
			     size_t freed)
{
	struct series_run *r = context;
	const struct mayfly_query *q = r->s->query;
	const struct cursor_block *b = &batch->freed[freed];
	struct fate fate = query_fate(batch, event, freed);
	uint32_t slot;
	size_t born;

	advance(r, batch, event);
	if (!query_keeps(r->s, b) || query_was_kept(r->s, batch, freed))
		return true;
	slot = query_slot(r->s, b, fate);
	if (!r->fates) {
		change(r, slot, r->at, change_of(r, b, -1), false);
		return true;
	}
	born = point_of(r, b->time_ns);
	if (query_lifetime_fits(q, FOREVER))
		change(r, query_slot(r->s, b, NEVER_FREED), born, change_of(r, b, -1),
		       is_allocated(b));
	if (query_lifetime_fits(q, fate.lifetime)) {
		change(r, slot, born, change_of(r, b, 1), is_allocated(b));
		change(r, slot, r->at, change_of(r, b, -1), false);
	}
	return true;
}

/* With fates, frees after the last moment are needed too: they tell lifetimes. */
static bool series_goes_on(void *context, const struct cursor_batch *b)
{
	const struct series_run *r = context;

	(void)b;
	return r->at < r->points || r->fates;
}

static bool series_take_events(struct series_run *r)
{
	const struct event_pass pass = {
	    .context = r,
	    .alloc = series_take_alloc,
	    .freed = series_take_free,
	    .after = series_goes_on,
	};

	r->fates = query_asks_fate(r->s);
	return query_pass(r->s, &pass);
}

static void take_part(struct series_run *r, const struct sums_part *part)
{
	for (size_t i = 0; i < part->nodes; i++) {
		uint32_t node = part->node[i] < r->s->slots ? part->node[i] : 0;
		struct change inherited = {(double)part->inherited_bytes[i],
					   (double)part->inherited[i], (int64_t)part->inherited[i]};
		struct change born = {
		    (double)(part->alloc_bytes[i] - part->inherited_bytes[i]),
		    (double)(part->allocs[i] - part->inherited[i]),
		    (int64_t)(part->allocs[i] - part->inherited[i]),
		};
		struct change died = {-(double)part->free_bytes[i], -(double)part->frees[i],
				      -(int64_t)part->frees[i]};

		if (r->s->node_kept && !r->s->node_kept[node])
			continue;
		change(r, node, r->at, born, true);
		change(r, node, r->at, inherited, false);
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
	for (size_t row = 0; row < r->a->rows; row++) {
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

static void set_times(struct series_run *r, int64_t *time_ns)
{
	for (size_t i = 0; i < r->points; i++)
		time_ns[i] = r->bound[i] = r->point[i].at.time_ns;
}

static void space_times(struct series_run *r, int64_t *time_ns)
{
	const struct mayfly_query *q = r->s->query;
	int64_t end = q->to_ns < r->s->info->duration_ns ? q->to_ns : r->s->info->duration_ns;

	for (size_t i = 0; i < r->points; i++) {
		__int128 way = (__int128)(end - q->from_ns) * (__int128)(i + 1);

		r->bound[i] =
		    query_rounded(r->s, q->from_ns + (int64_t)(way / (__int128)r->points));
		time_ns[i] = r->bound[i];
	}
	if (q->to_ns >= r->s->info->duration_ns)
		r->bound[r->points - 1] = INT64_MAX;
}

static bool make_moments(struct series_run *r)
{
	int64_t *time_ns = answer_array(r->s, r->a, r->points, sizeof(*time_ns));

	r->a->points = r->points;
	r->a->time_ns = time_ns;
	r->bound = query_scratch(r->s, r->points, sizeof(*r->bound));
	if (r->s->error)
		return false;
	if (r->point)
		set_times(r, time_ns);
	else
		space_times(r, time_ns);
	return true;
}

static bool take_all(struct series_run *r)
{
	r->at = 0;
	return r->s->info->snapshot_ns ? take_parts(r) : series_take_events(r);
}

/* a->rows and a->row are there. */
static void fill_series(struct series_run *r)
{
	struct mayfly_series *a = r->a;
	struct query_state *s = r->s;
	size_t numbers = a->rows * r->points;

	if (a->rows > MOST_NUMBERS / r->points) {
		query_fail(s, MAYFLY_E_TOO_LARGE);
		return;
	}
	a->live_bytes = r->live_bytes = answer_array(s, a, numbers, sizeof(double));
	a->live_blocks = r->live_blocks = answer_array(s, a, numbers, sizeof(double));
	a->allocated_bytes = r->allocated_bytes = answer_array(s, a, numbers, sizeof(double));
	a->allocated_blocks = r->allocated_blocks = answer_array(s, a, numbers, sizeof(double));
	r->live_count = query_scratch(s, numbers, sizeof(*r->live_count));
	r->allocated_count = query_scratch(s, numbers, sizeof(*r->allocated_count));
	if (s->error)
		return;
	if (r->list)
		take_list(r);
	else if (!take_all(r))
		return;
	add_up(r, r->live_bytes, r->live_count);
	add_up(r, r->live_blocks, r->live_count);
	add_up(r, r->allocated_bytes, r->allocated_count);
	add_up(r, r->allocated_blocks, r->allocated_count);
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

/* 0: it can be answered. */
static int series_problem(const struct mayfly_trace *trace, const struct mayfly_query *query,
			  size_t points)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);

	if (points == 0 || points > MOST_NUMBERS || query->from_ns >= query->to_ns ||
	    query->from_ns < 0 || query->from_ns > info->duration_ns)
		return MAYFLY_E_RANGE;
	return info->absent & (MAYFLY_ABSENT_TIMES | MAYFLY_ABSENT_LIVE) ? MAYFLY_E_ABSENT : 0;
}

static int series_at(const struct mayfly_trace *trace, const struct mayfly_query *query,
		     const struct live_point *point, size_t points, size_t rows,
		     struct mayfly_series **series)
{
	const struct mayfly_query ranking = ranking_query(query);
	struct query_state s = {0};
	struct series_run r = {.s = &s, .point = point, .points = points};
	const struct mayfly_result *result;
	int error = series_problem(trace, query, points);

	if (error)
		return error;
	r.a = answer_new(&s, sizeof(*r.a));
	result = query_shown(&s, r.a, trace, &ranking, rows);
	if (result) {
		s.query = query;
		r.a->rows = s.shown.rows + 1;
		r.a->row = query_shown_rows(&s, r.a, result);
		if (make_moments(&r))
			fill_series(&r);
	}
	return answer_finish(&s, r.a, series);
}

int mayfly_series_run(const struct mayfly_trace *trace, const struct mayfly_query *query,
		      size_t points, size_t rows, struct mayfly_series **series)
{
	return series_at(trace, query, NULL, points, rows, series);
}

/* ---- rows by their own largest value ---- */

/* What a row was at its largest, for sorting. */
struct largest {
	double most;
	uint32_t candidate;
};

static int compare_largest(const void *a, const void *b)
{
	const struct largest *x = a, *y = b;

	if (x->most != y->most)
		return x->most > y->most ? -1 : 1;
	return (x->candidate > y->candidate) - (x->candidate < y->candidate);
}

/* Fills list[rows] with the candidates that are shown, the largest first. Returns their number. */
static size_t choose_rows(struct series_run *r, size_t rows, struct largest *list)
{
	size_t candidates = r->s->shown.rows, count = 0;

	r->running = query_scratch(r->s, candidates + 1, sizeof(*r->running));
	if (r->s->query->sort != MAYFLY_SORT_TOTAL)
		r->newest = query_scratch(r->s, candidates + 1, sizeof(*r->newest));
	if (!r->running || !take_all(r))
		return 0;
	for (size_t i = 0; i < candidates; i++) {
		see_running(&r->running[i], r->points);
		if (r->running[i].most > 0)
			list[count++] = (struct largest){r->running[i].most, (uint32_t)i};
	}
	r->running = NULL;
	if (count)
		qsort(list, count, sizeof(*list), compare_largest);
	return count < rows ? count : rows;
}

/* The rows with what they had at the peak, as the question asks for. */
static bool name_rows(struct series_run *r, const struct mayfly_query *query,
		      const struct mayfly_result *candidates, const struct largest *list)
{
	size_t rows = r->a->rows - 1, *peak_row;
	struct mayfly_row *row = answer_array(r->s, r->a, rows + 1, sizeof(*row));
	struct mayfly_result *peak;
	int error;

	if (!row)
		return false;
	for (size_t i = 0; i < rows; i++) {
		row[i] = candidates->row[list[i].candidate];
		row[i].self = row[i].total = candidates->nothing;
	}
	row[rows].function = row[rows].file = row[rows].module = "";
	r->a->row = row;
	error = mayfly_query_run(r->s->trace, query, &peak);
	if (error)
		return query_fail(r->s, error);
	peak_row = rows_pair(row, rows, peak->row, peak->rows, query->by);
	for (size_t i = 0; peak_row && i < rows; i++) {
		if (peak_row[i] == SIZE_MAX)
			continue;
		row[i].self = peak->row[peak_row[i]].self;
		row[i].total = peak->row[peak_row[i]].total;
	}
	mayfly_result_free(peak);
	free(peak_row);
	return peak_row || query_fail(r->s, MAYFLY_E_MEMORY);
}

static void run_largest(struct series_run *r, const struct mayfly_query *query,
			const struct mayfly_result *candidates, size_t rows)
{
	const struct mayfly_query peak = ranking_query(query);
	struct query_state *s = r->s;
	struct largest *list = query_scratch(s, s->shown.rows + 1, sizeof(*list));
	uint32_t *chosen = query_scratch(s, s->shown.rows + 1, sizeof(*chosen));

	if (!make_moments(r))
		return;
	r->a->rows = choose_rows(r, rows, list) + 1;
	if (s->error)
		return;
	for (size_t i = 0; i <= s->shown.rows; i++)
		chosen[i] = NONE;
	for (size_t i = 0; i + 1 < r->a->rows; i++)
		chosen[list[i].candidate] = (uint32_t)i;
	r->chosen = chosen;
	if (name_rows(r, &peak, candidates, list))
		fill_series(r);
}

/* Later frees change earlier moments where lifetimes count; and nobody lists all rows by what other
 * processes allocated. Both are sorted as ever. */
static bool ranks_at_once(const struct mayfly_info *info, const struct mayfly_query *query)
{
	return query->metric == MAYFLY_PEAK && !info->inherited && query->min_lifetime_ns <= 0 &&
	       query->max_lifetime_ns == INT64_MAX &&
	       !(grouping_of(query->by).flags & GROUPING_BY_FATE) &&
	       !(info->absent & MAYFLY_ABSENT_ALLOCATED);
}

int series_run_largest(const struct mayfly_trace *trace, const struct mayfly_query *query,
		       const struct live_point *point, size_t points, size_t rows,
		       struct mayfly_series **series)
{
	struct mayfly_query candidates = ranking_query(query);
	struct query_state s = {0};
	struct series_run r = {.s = &s, .point = point, .points = points};
	const struct mayfly_result *result;
	int error = series_problem(trace, query, points);

	if (error)
		return error;
	if (!ranks_at_once(mayfly_trace_info(trace), query))
		return series_at(trace, query, point, points, rows, series);
	candidates.metric = MAYFLY_ALLOCATED;
	candidates.stack_rows = MOST_CANDIDATES;
	r.a = answer_new(&s, sizeof(*r.a));
	result = query_shown(&s, r.a, trace, &candidates, MOST_CANDIDATES);
	if (result) {
		s.query = query;
		run_largest(&r, query, result, rows);
	}
	drop_list(&r);
	return answer_finish(&s, r.a, series);
}

void mayfly_series_free(struct mayfly_series *series)
{
	answer_free(series);
}
