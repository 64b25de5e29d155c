/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What grew between two moments: see grown.h. Four questions that the terminal can ask, too, are put
 * side by side: live at both moments, and of the later one what is older than the first moment, and
 * what is younger.
 */
#include "query/grown.h"

#include <math.h>
#include <stdlib.h>

#include "query/row_key.h"

#define TWO_SIDED 1.959963984540054 /* quantile of the normal distribution for a 95 % interval */

enum { BEFORE, OLD, YOUNG, AFTER, ANSWERS };

struct grown_run {
	const struct mayfly_trace *trace;
	struct mayfly_query query;
	struct mayfly_result *answer[ANSWERS];
	size_t *old_of, *young_of; /* row of BEFORE -> row of the other answer, or SIZE_MAX */
	struct grown *a;
	struct grown_row *row; /* a->row */
};

/* An answer and what its rows refer to. */
struct grown_owner {
	struct grown grown;
	struct mayfly_result *answer[ANSWERS];
};

static int64_t window_end(const struct mayfly_query *query, const struct mayfly_info *info)
{
	return query->to_ns < info->duration_ns ? query->to_ns : info->duration_ns;
}

static int ask_four(struct grown_run *r)
{
	int64_t from = r->query.from_ns;
	int64_t to = window_end(&r->query, mayfly_trace_info(r->trace));

	for (int i = 0; i < ANSWERS; i++) {
		struct mayfly_query q = r->query;
		int error;

		q.metric = MAYFLY_LIVE;
		q.at_ns = i == BEFORE ? from : to;
		q.from_ns = i == YOUNG ? from + 1 : 0;
		q.to_ns = i == OLD ? from + 1 : INT64_MAX;
		error = mayfly_query_run(r->trace, &q, &r->answer[i]);
		if (error)
			return error;
	}
	r->a->from_ns = from;
	r->a->to_ns = to;
	return 0;
}

/* The samples of `part` are among those of `whole`, so the rest is a sum of its own. */
static struct mayfly_figure rest_of(const struct mayfly_figure *whole,
				    const struct mayfly_figure *part)
{
	double variance = whole->stderror * whole->stderror - part->stderror * part->stderror;
	struct mayfly_figure f = {
	    .estimate = fmax(whole->estimate - part->estimate, 0),
	    .stderror = variance > 0 ? sqrt(variance) : 0,
	    .certain = fmax(whole->certain - part->certain, 0),
	};

	f.low = fmax(f.estimate - TWO_SIDED * f.stderror, f.certain);
	f.high = f.estimate + TWO_SIDED * f.stderror;
	return f;
}

static struct mayfly_estimate freed_of(const struct mayfly_estimate *before,
				       const struct mayfly_estimate *old,
				       const struct mayfly_estimate *nothing)
{
	if (before->samples <= old->samples)
		return *nothing;
	return (struct mayfly_estimate){
	    .bytes = rest_of(&before->bytes, &old->bytes),
	    .blocks = rest_of(&before->blocks, &old->blocks),
	    .samples = before->samples - old->samples,
	};
}

static const struct mayfly_estimate *sum_of(const struct grown_run *r, int answer, size_t row)
{
	const struct mayfly_result *a = r->answer[answer];

	if (row == SIZE_MAX)
		return &a->nothing;
	return r->query.sort == MAYFLY_SORT_TOTAL ? &a->row[row].total : &a->row[row].self;
}

/* Rows on stacks only have nothing of their own. */
static void add_row(struct grown_run *r, const struct mayfly_row *key, size_t before, size_t old,
		    size_t young)
{
	struct grown_row *row = &r->row[r->a->rows];

	*row = (struct grown_row){
	    .key = key,
	    .before = *sum_of(r, BEFORE, before),
	    .survived = *sum_of(r, YOUNG, young),
	};
	row->freed = freed_of(&row->before, sum_of(r, OLD, old), &r->answer[OLD]->nothing);
	if (!row->freed.samples && !row->survived.samples)
		return;
	row->change = row->survived.bytes.estimate - row->freed.bytes.estimate;
	r->a->rows++;
}

static int compare_grown(const void *a, const void *b)
{
	const struct grown_row *x = a, *y = b;

	if (fabs(x->change) != fabs(y->change))
		return fabs(x->change) > fabs(y->change) ? -1 : 1;
	return (x->key > y->key) - (x->key < y->key);
}

static int fill_grown(struct grown_run *r)
{
	const struct mayfly_result *before = r->answer[BEFORE], *young = r->answer[YOUNG];
	enum mayfly_by by = r->query.by;
	bool *seen = calloc(young->rows + 1, sizeof(*seen));

	r->old_of =
	    rows_pair(before->row, before->rows, r->answer[OLD]->row, r->answer[OLD]->rows, by);
	r->young_of = rows_pair(before->row, before->rows, young->row, young->rows, by);
	r->row = calloc(before->rows + young->rows + 1, sizeof(*r->row));
	r->a->row = r->row;
	if (!seen || !r->old_of || !r->young_of || !r->row) {
		free(seen);
		return MAYFLY_E_MEMORY;
	}
	for (size_t i = 0; i < before->rows; i++) {
		if (r->young_of[i] != SIZE_MAX)
			seen[r->young_of[i]] = true;
		add_row(r, &before->row[i], i, r->old_of[i], r->young_of[i]);
	}
	for (size_t i = 0; i < young->rows; i++)
		if (!seen[i])
			add_row(r, &young->row[i], SIZE_MAX, SIZE_MAX, i);
	free(seen);
	if (r->a->rows)
		qsort(r->row, r->a->rows, sizeof(*r->row), compare_grown);
	r->a->before = before->total;
	r->a->after = r->answer[AFTER]->total;
	r->a->survived = young->total;
	r->a->freed = freed_of(&before->total, &r->answer[OLD]->total, &r->answer[OLD]->nothing);
	return 0;
}

int grown_run(const struct mayfly_trace *trace, const struct mayfly_query *query,
	      struct grown **grown)
{
	struct grown_owner *owner = calloc(1, sizeof(*owner));
	struct grown_run r = {.trace = trace, .query = *query};
	int error;

	if (!owner)
		return MAYFLY_E_MEMORY;
	r.a = &owner->grown;
	if (query->from_ns < 0 || query->from_ns >= window_end(query, mayfly_trace_info(trace)))
		error = MAYFLY_E_RANGE;
	else
		error = ask_four(&r);
	if (!error)
		error = fill_grown(&r);
	for (int i = 0; i < ANSWERS; i++)
		owner->answer[i] = r.answer[i];
	free(r.old_of);
	free(r.young_of);
	if (error)
		grown_free(&owner->grown);
	else
		*grown = &owner->grown;
	return error;
}

void grown_free(struct grown *grown)
{
	struct grown_owner *owner = (struct grown_owner *)(void *)grown;

	if (!owner)
		return;
	for (int i = 0; i < ANSWERS; i++)
		mayfly_result_free(owner->answer[i]);
	free((void *)(uintptr_t)grown->row);
	free(owner);
}
