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

struct churn_run {
	struct query_state *s;
	struct mayfly_churn *a;
	double *sum; /* [rows + 1] bytes times ns; the last one is of all other rows */
	double total;
	bool fates; /* query_asks_fate() */
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
	const struct shown *shown = &r->s->shown;
	int64_t from_ns = r->a->from_ns, to_ns = r->a->to_ns;
	int64_t died = fate.lifetime < to_ns - b->time_ns ? b->time_ns + fate.lifetime : to_ns;
	int64_t lived = died - (b->time_ns > from_ns ? b->time_ns : from_ns);
	double sum;

	if (!query_in_window(q, b->time_ns) || !query_lifetime_fits(q, fate.lifetime) ||
	    !query_keeps_allocated(r->s, b) || lived <= 0)
		return;
	sum = bytes_of(r, b) * (double)lived;
	r->total += sum;
	for (uint32_t i = shown->head[query_slot(r->s, b, fate)]; i != NONE;
	     i = shown->cell[i].next)
		r->sum[shown->cell[i].row] += sum;
}

static bool churn_take_free(void *context, const struct cursor_batch *b, size_t event, size_t freed)
{
	churn_take_block(context, &b->freed[freed], query_fate(b, event, freed));
	return true;
}

/* A block that outlives the window counts up to its end; its later fate does not matter. */
static bool churn_goes_on(void *context, const struct cursor_batch *b)
{
	const struct churn_run *r = context;

	return r->fates || b->chunk->from_ns < r->a->to_ns;
}

static void churn_take_live(void *context, uint64_t number, const struct cursor_block *block)
{
	(void)number;
	churn_take_block(context, block, NEVER_FREED);
}

static void run_churn(struct churn_run *r, const struct mayfly_trace *trace,
		      const struct mayfly_query *query, size_t rows)
{
	struct mayfly_churn *c = r->a;
	const struct mayfly_result *result = query_shown(r->s, c, trace, query, rows);
	struct event_pass pass = {
	    .context = r,
	    .freed = churn_take_free,
	    .after = churn_goes_on,
	    .live = churn_take_live,
	};
	double *mean, time = (double)(c->to_ns - c->from_ns);

	if (!result)
		return;
	c->rows = r->s->shown.rows + 1;
	c->row = query_shown_rows(r->s, c, result);
	c->mean_live = mean = answer_array(r->s, c, c->rows, sizeof(*mean));
	r->sum = query_scratch(r->s, c->rows, sizeof(*r->sum));
	r->fates = query_asks_fate(r->s);
	pass.first_chunk = query_first_chunk(r->s);
	if (r->s->error || !query_pass(r->s, &pass))
		return;
	for (size_t i = 0; i < c->rows; i++)
		mean[i] = r->sum[i] / time;
	c->mean_live_total = r->total / time;
	c->total = result->total;
}

int mayfly_churn_run(const struct mayfly_trace *trace, const struct mayfly_query *query,
		     size_t rows, struct mayfly_churn **churn)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);
	int64_t end = info->duration_ns;
	struct mayfly_query q = *query;
	struct query_state s = {0};
	struct churn_run r = {.s = &s};

	q.metric = MAYFLY_ALLOCATED;
	if (q.to_ns < end)
		end = q.to_ns;
	if (q.from_ns < 0 || q.from_ns >= end)
		return MAYFLY_E_RANGE;
	if (info->snapshot_ns)
		return MAYFLY_E_ABSENT;
	r.a = answer_new(&s, sizeof(*r.a));
	if (r.a) {
		r.a->from_ns = q.from_ns;
		r.a->to_ns = end;
		run_churn(&r, trace, &q, rows);
	}
	return answer_finish(&s, r.a, churn);
}

void mayfly_churn_free(struct mayfly_churn *churn)
{
	answer_free(churn);
}
