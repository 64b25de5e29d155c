/* SPDX-License-Identifier: Apache-2.0 */
/*
 * survival.c: the fates of blocks that are allocated in OCaml's minor heap, by row.
 *
 *	alloc ──> minor heap ──┬── collected there                      "collected"
 *	                       └── promoted ──> major heap ──┬── collected   } "promoted"
 *	                                                     └── live at the end
 *
 * One pass over the events writes a fate for each sampled block; fates are then sorted by row, and
 * the shares and quantiles of each row are read off. Memory: 32 bytes per sample.
 *
 * A sample counts with its weight in bytes. Errors are those of a share of n equal samples, with
 * n = (sum of weights)^2 / sum of squared weights: Wilson's interval for shares; for a quantile,
 * the values at both ends of the interval of its share.
 */
#include "query/query.h"

#include <math.h>
#include <stdlib.h>

struct life {
	uint32_t row;
	bool promoted;
	double weight;
	int64_t to_promotion; /* ns */
	int64_t lifetime;     /* FOREVER: live at the end */
};

struct survival_run {
	struct query_state *s;
	struct mayfly_survival *a;
	uint32_t *fate_of; /* number of a sample -> fate; NONE: it does not count */
	size_t samples, sample_room;
	struct life *fate;
	size_t fates, fate_room;
	uint64_t budget;
};

/* ---- events ---- */

static bool survival_take_alloc(struct survival_run *r, const struct mayfly_event *e)
{
	const struct mayfly_query *q = r->s->query;
	const struct cursor_block b = {
	    .size = e->size,
	    .time_ns = e->time_ns,
	    .node = e->node,
	    .thread = e->thread,
	    .hits = e->hits,
	    .flags = (uint8_t)(e->heap << MAYFLY_FLAG_HEAP_SHIFT),
	    .labels = e->labels,
	};
	const struct shown *shown = &r->s->shown;
	uint32_t row = shown->cell[shown->head[e->node < r->s->slots ? e->node : 0]].row;

	if (!query_grow(r->s, &r->budget, &r->fate_of, &r->sample_room, r->samples,
			sizeof(*r->fate_of)))
		return false;
	r->fate_of[r->samples++] = NONE;
	if (row == shown->rows || e->inherited || e->node >= r->s->slots ||
	    !query_keeps(r->s, &b) || e->time_ns < q->from_ns ||
	    (e->time_ns >= q->to_ns && q->to_ns != INT64_MAX))
		return true;
	if (r->fates >= NONE ||
	    !query_grow(r->s, &r->budget, &r->fate, &r->fate_room, r->fates, sizeof(*r->fate)))
		return query_fail(r->s, MAYFLY_E_MEMORY);
	r->fate_of[r->samples - 1] = (uint32_t)r->fates;
	r->fate[r->fates++] =
	    (struct life){.row = row, .weight = e->weight_bytes, .lifetime = FOREVER};
	return true;
}

static bool survival_take(struct survival_run *r, const struct mayfly_event *e)
{
	struct life *f;

	if (e->kind == MAYFLY_ALLOC)
		return survival_take_alloc(r, e);
	if (e->sample >= r->samples || r->fate_of[e->sample] == NONE)
		return true;
	f = &r->fate[r->fate_of[e->sample]];
	if (e->kind == MAYFLY_FREE) {
		f->lifetime = e->time_ns > e->alloc_time_ns ? e->time_ns - e->alloc_time_ns : 0;
	} else if (!f->promoted) {
		f->promoted = true;
		f->to_promotion = e->time_ns > e->alloc_time_ns ? e->time_ns - e->alloc_time_ns : 0;
	}
	return true;
}

static bool survival_take_events(struct survival_run *r)
{
	struct mayfly_cursor *cursor;
	struct mayfly_event e;
	int more = mayfly_cursor_open(r->s->trace, &cursor);

	if (more)
		return query_fail(r->s, more);
	mayfly_cursor_promotions(cursor);
	while ((more = mayfly_cursor_next(cursor, &e)) == 1 && survival_take(r, &e))
		;
	mayfly_cursor_close(cursor);
	return more >= 0 ? !r->s->error : query_fail(r->s, more);
}

/* ---- figures ---- */

#define Z 1.9599639845400542 /* the normal quantile of 97.5 % */

static double clamp(double x)
{
	return x < 0 ? 0 : x > 1 ? 1 : x;
}

/* The figure of a share p of n equal samples. */
static struct mayfly_figure share(double p, double n, bool exact)
{
	double middle = (p + Z * Z / (2 * n)) / (1 + Z * Z / n);
	double half = Z / (1 + Z * Z / n) * sqrt(p * (1 - p) / n + Z * Z / (4 * n * n));

	if (exact || !(n > 0))
		return (struct mayfly_figure){p, 0, p, p};
	return (struct mayfly_figure){
	    .estimate = p,
	    .stderror = sqrt(p * (1 - p) / n),
	    .low = fmin(p, clamp(middle - half)),
	    .high = fmax(p, clamp(middle + half)),
	};
}

struct timed {
	int64_t ns;
	double weight;
};

static int compare_times(const void *a, const void *b)
{
	const struct timed *x = a, *y = b;

	return (x->ns > y->ns) - (x->ns < y->ns);
}

/* The smallest time up to which the share q of the weight lies; times ascend. */
static int64_t time_at(const struct timed *t, size_t count, double whole, double q)
{
	double sum = 0;

	for (size_t i = 0; i < count; i++) {
		sum += t[i].weight;
		if (sum >= q * whole)
			return t[i].ns;
	}
	return count ? t[count - 1].ns : 0;
}

static struct mayfly_quantile quantile(const struct timed *t, size_t count, double q, bool exact)
{
	struct mayfly_quantile result = {.samples = count};
	double whole = 0, squares = 0, half;

	for (size_t i = 0; i < count; i++) {
		whole += t[i].weight;
		squares += t[i].weight * t[i].weight;
	}
	if (!count || !(squares > 0))
		return result;
	half = exact ? 0 : Z * sqrt(q * (1 - q) * squares) / whole;
	result.estimate_ns = time_at(t, count, whole, q);
	/* Beyond the outermost samples it is only known that times are not negative. */
	result.low_ns = q - half > 0 ? time_at(t, count, whole, q - half) : 0;
	result.high_ns = q + half < 1 ? time_at(t, count, whole, q + half) : FOREVER;
	if (exact)
		result.low_ns = result.high_ns = result.estimate_ns;
	return result;
}

/* f: the fates of one row, or of all; times: room for as many. */
static void fill_row(const struct survival_run *r, const struct life *f, size_t count,
		     struct timed *times, struct mayfly_survival_row *row)
{
	double whole = 0, squares = 0, promoted = 0, collected = 0, n;
	bool exact = r->s->exact;
	size_t used = 0;

	for (size_t i = 0; i < count; i++) {
		whole += f[i].weight;
		squares += f[i].weight * f[i].weight;
		promoted += f[i].promoted ? f[i].weight : 0;
		collected += !f[i].promoted && f[i].lifetime != FOREVER ? f[i].weight : 0;
		times[i] = (struct timed){f[i].lifetime, f[i].weight};
	}
	n = squares > 0 ? whole * whole / squares : 0;
	row->promoted = share(whole > 0 ? promoted / whole : 0, n, exact);
	row->collected = share(whole > 0 ? collected / whole : 0, n, exact);
	qsort(times, count, sizeof(*times), compare_times);
	row->lifetime_median = quantile(times, count, 0.5, exact);
	for (size_t i = 0; i < count; i++)
		if (f[i].promoted)
			times[used++] = (struct timed){f[i].to_promotion, f[i].weight};
	qsort(times, used, sizeof(*times), compare_times);
	row->promotion_median = quantile(times, used, 0.5, exact);
	row->promotion_p90 = quantile(times, used, 0.9, exact);
}

static int survival_compare_rows(const void *a, const void *b)
{
	const struct life *x = a, *y = b;

	return (x->row > y->row) - (x->row < y->row);
}

static void survival_fill_rows(struct survival_run *r, const struct mayfly_result *result)
{
	struct mayfly_survival *a = r->a;
	struct timed *times = query_scratch(r->s, r->fates, sizeof(*times));
	struct mayfly_survival_row *row = answer_array(r->s, a, result->rows, sizeof(*row));
	size_t at = 0;

	if (!times || !row)
		return;
	fill_row(r, r->fate, r->fates, times, &a->all);
	a->all.allocated = result->total;
	if (r->fates)
		qsort(r->fate, r->fates, sizeof(*r->fate), survival_compare_rows);
	for (size_t i = 0; i < result->rows; i++) {
		size_t end = at;

		while (end < r->fates && r->fate[end].row == i)
			end++;
		fill_row(r, r->fate + at, end - at, times, &row[i]);
		row[i].key = &result->row[i];
		row[i].allocated = result->row[i].self;
		at = end;
	}
	a->rows = result->rows;
	a->row = row;
}

/* ---- the answer ---- */

static struct mayfly_query survival_query(const struct mayfly_query *query)
{
	struct mayfly_query q = *query;

	q.metric = MAYFLY_ALLOCATED;
	q.sort = MAYFLY_SORT_SELF;
	q.heaps = 1u << MAYFLY_HEAP_OCAML_MINOR;
	q.stack_rows = 0;
	return q;
}

int mayfly_survival_run(const struct mayfly_trace *trace, const struct mayfly_query *query,
			struct mayfly_survival **survival)
{
	const struct mayfly_query q = survival_query(query);
	struct query_state s = {0};
	struct survival_run r = {.s = &s, .budget = trace_budget(trace)};
	const struct mayfly_result *result;

	if (!query_by_node(query) || query->min_lifetime_ns > 0 ||
	    query->max_lifetime_ns < INT64_MAX)
		return MAYFLY_E_RANGE;
	r.a = answer_new(&s, sizeof(*r.a));
	result = query_shown(&s, r.a, trace, &q, SIZE_MAX);
	if (result && survival_take_events(&r))
		survival_fill_rows(&r, result);
	free(r.fate_of);
	free(r.fate);
	return answer_finish(&s, r.a, survival);
}

void mayfly_survival_free(struct mayfly_survival *survival)
{
	answer_free(survival);
}
