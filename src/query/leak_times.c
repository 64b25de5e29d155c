/* SPDX-License-Identifier: Apache-2.0 */
/* When leaks arose: see leak_times.h. */
#include "query/leak_times.h"

#include "query/query.h"

struct leak_times_run {
	struct query_state s;
	struct leak_times *a;
	struct leak_time *row;
};

/* A block that was never freed. */
static void take_leak(void *context, uint64_t number, const struct cursor_block *b)
{
	struct leak_times_run *r = context;
	const struct shown *shown = &r->s.shown;

	(void)number;
	if (!query_keeps(&r->s, b) || !query_in_window(r->s.query, b->time_ns) ||
	    !query_lifetime_fits(r->s.query, FOREVER))
		return;
	for (uint32_t i = shown->head[query_slot(&r->s, b, NEVER_FREED)]; i != NONE;
	     i = shown->cell[i].next) {
		struct leak_time *row = &r->row[shown->cell[i].row];

		if (row->first_ns < 0 || b->time_ns < row->first_ns)
			row->first_ns = b->time_ns;
		if (b->time_ns > row->last_ns)
			row->last_ns = b->time_ns;
	}
}

static bool take_kept(void *context, const struct cursor_batch *b, size_t event, size_t freed)
{
	struct leak_times_run *r = context;

	(void)event;
	if (query_was_kept(&r->s, b, freed))
		take_leak(r, b->e.freed[freed], &b->freed[freed]);
	return true;
}

static void fill_growth(struct leak_time *row, const int64_t *time_ns)
{
	const size_t half = LEAK_TIMES_POINTS / 2 - 1, quarter = LEAK_TIMES_POINTS * 3 / 4 - 1;
	const size_t end = LEAK_TIMES_POINTS - 1;
	double seconds = (double)(time_ns[end] - time_ns[half]) / 1e9;
	const double *live = row->live_bytes;

	row->growth = seconds > 0 ? (live[end] - live[half]) / seconds : 0;
	row->growing = live[half] < live[quarter] && live[quarter] < live[end];
}

static void fill_leak_times(struct leak_times_run *r, const struct mayfly_series *series)
{
	const struct event_pass pass = {.context = r, .freed = take_kept, .live = take_leak};
	struct leak_times *a = r->a;

	a->rows = r->s.shown.rows;
	a->time_ns = series->time_ns;
	/* One row more for all others, which nobody asks for. */
	a->row = r->row = answer_array(&r->s, a, a->rows + 1, sizeof(*r->row));
	if (r->s.error || series->rows != a->rows + 1)
		return;
	for (size_t i = 0; i <= a->rows; i++) {
		r->row[i] = (struct leak_time){
		    .first_ns = -1,
		    .last_ns = -1,
		    .live_bytes = series->live_bytes + i * series->points,
		};
		fill_growth(&r->row[i], series->time_ns);
	}
	if (!r->s.info->snapshot_ns)
		query_pass(&r->s, &pass);
}

int leak_times_run(const struct mayfly_trace *trace, const struct mayfly_query *query, size_t rows,
		   struct leak_times **times)
{
	struct leak_times_run r = {0};
	struct mayfly_series *series;
	int error = mayfly_series_run(trace, query, LEAK_TIMES_POINTS, rows, &series);

	if (error)
		return error;
	r.a = answer_new(&r.s, sizeof(*r.a));
	if (r.a) {
		answer_adopt(r.a, series);
		if (query_shown(&r.s, r.a, trace, query, rows))
			fill_leak_times(&r, series);
	} else {
		mayfly_series_free(series);
	}
	return answer_finish(&r.s, r.a, times);
}

void leak_times_free(struct leak_times *times)
{
	answer_free(times);
}
