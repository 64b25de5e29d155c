/* SPDX-License-Identifier: Apache-2.0 */
/*
 * churn.c: the rows of what was allocated in a window, and the mean of their live bytes.
 *
 * Each block adds its bytes times its lifetime inside the window; this sum divided by the length of
 * the window is the mean:
 *
 *	from                             to
 *	 |----- block 1 -----|           |
 *	 |        |------- block 2 ------+---- freed later
 */
#include "query/query.h"

#include <stdlib.h>

/* mayfly_churn_free() frees this whole struct. */
struct churn_answer {
	struct mayfly_churn churn;    /* must be first: the caller's pointer is to it */
	struct mayfly_result *result; /* the rows point into it */
	struct mayfly_row *row;
	double *mean_live;
};

struct churn_run {
	struct query_state *s;
	struct churn_answer *a;
	struct shown shown;
	double *sum; /* [rows + 1] bytes times ns; the last one is of all other rows */
	double total;
};

static double bytes_of(const struct churn_run *r, const struct cursor_block *b)
{
	double bytes = (double)b->size, blocks;

	if (b->hits)
		sample_weight(estimate_sampler(r->s->info->sampler, b->flags),
			      trace_interval(r->s->trace, b->flags, b->interval_log2), b->size,
			      b->hits, &bytes, &blocks);
	return bytes;
}

static void churn_take_block(struct churn_run *r, const struct cursor_block *b, struct fate fate)
{
	const struct mayfly_query *q = r->s->query;
	int64_t from_ns = r->a->churn.from_ns, to_ns = r->a->churn.to_ns;
	int64_t died = fate.lifetime < to_ns - b->time_ns ? b->time_ns + fate.lifetime : to_ns;
	int64_t lived = died - (b->time_ns > from_ns ? b->time_ns : from_ns);
	uint32_t list;
	double sum;

	if (!query_in_window(q, b->time_ns) || !query_lifetime_fits(q, fate.lifetime) ||
	    !query_keeps(r->s, b) || lived <= 0)
		return;
	sum = bytes_of(r, b) * (double)lived;
	r->total += sum;
	list = r->shown.head[query_slot(r->s, b, fate)];
	if (list == NONE)
		r->sum[r->shown.rows] += sum;
	for (; list != NONE; list = r->shown.cell[list].next)
		r->sum[r->shown.cell[list].row] += sum;
}

static void churn_take_batch(struct churn_run *r, const struct cursor_batch *b)
{
	size_t freed = 0;

	for (size_t i = 0; i < b->e.events; i++) {
		const struct cursor_block *block = &b->freed[freed];

		if (!b->e.is_free[i])
			continue;
		churn_take_block(r, block,
				 query_fate(block, b->e.time_ns[i], b->e.free_thread[freed]));
		freed++;
	}
}

static void churn_take_live(void *context, uint64_t number, const struct cursor_block *block)
{
	(void)number;
	churn_take_block(context, block, NEVER_FREED);
}

static bool churn_take_events(struct churn_run *r)
{
	bool fates = query_asks_fate(r->s);
	struct mayfly_cursor *cursor;
	struct cursor_batch batch;
	int more = mayfly_cursor_open(r->s->trace, &cursor);

	if (more)
		return query_fail(r->s, more);
	cursor_start_at(cursor, query_first_chunk(r->s));
	/* A block that outlives the window counts up to its end; its later fate does not matter. */
	while ((more = cursor_next_batch(cursor, &batch)) == 1) {
		churn_take_batch(r, &batch);
		if (!fates && batch.chunk->from_ns >= r->a->churn.to_ns)
			break;
	}
	if (more >= 0)
		cursor_live(cursor, churn_take_live, r);
	mayfly_cursor_close(cursor);
	return more >= 0 || query_fail(r->s, more);
}

static bool make_answer(struct churn_run *r, size_t rows)
{
	struct mayfly_churn *c = &r->a->churn;
	double time = (double)(c->to_ns - c->from_ns);

	r->sum = query_zeroed(r->s, rows + 1, sizeof(*r->sum));
	c->row = r->a->row = query_shown_rows(r->s, r->a->result, rows);
	c->mean_live = r->a->mean_live = query_zeroed(r->s, rows + 1, sizeof(*c->mean_live));
	if (r->s->error || !churn_take_events(r))
		return false;
	for (size_t i = 0; i <= rows; i++)
		r->a->mean_live[i] = r->sum[i] / time;
	c->mean_live_total = r->total / time;
	c->total = r->a->result->total;
	c->rows = rows + 1;
	return true;
}

static bool run_churn(struct churn_run *r, const struct mayfly_trace *trace,
		      const struct mayfly_query *query, size_t rows)
{
	r->a->result = query_answer(r->s, trace, query);
	if (!r->a->result)
		return false;
	if (r->s->info->snapshot_ns)
		return query_fail(r->s, MAYFLY_E_ABSENT);
	if (r->a->result->rows < rows)
		rows = r->a->result->rows;
	return query_shown_make(r->s, rows, &r->shown) && make_answer(r, rows);
}

int mayfly_churn_run(const struct mayfly_trace *trace, const struct mayfly_query *query,
		     size_t rows, struct mayfly_churn **churn)
{
	int64_t end = mayfly_trace_info(trace)->duration_ns;
	struct mayfly_query q = *query;
	struct query_state s = {0};
	struct churn_run r = {.s = &s};

	q.metric = MAYFLY_ALLOCATED;
	if (q.to_ns < end)
		end = q.to_ns;
	if (q.from_ns < 0 || q.from_ns >= end)
		return MAYFLY_E_RANGE;
	r.a = calloc(1, sizeof(*r.a));
	if (!r.a)
		return MAYFLY_E_MEMORY;
	r.a->churn.from_ns = q.from_ns;
	r.a->churn.to_ns = end;
	run_churn(&r, trace, &q, rows);
	query_shown_free(&r.shown);
	free(r.sum);
	query_end(&s);
	if (s.error)
		mayfly_churn_free(&r.a->churn);
	else
		*churn = &r.a->churn;
	return s.error;
}

void mayfly_churn_free(struct mayfly_churn *churn)
{
	struct churn_answer *a = (struct churn_answer *)churn;

	if (!a)
		return;
	mayfly_result_free(a->result);
	free(a->row);
	free(a->mean_live);
	free(a);
}
