/* SPDX-License-Identifier: Apache-2.0 */
/* diff.c: changes and whether they may be chance. diff_align.c finds what belongs together. */
#include "diff.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- one figure ---- */

/* An estimate as a sum of what is certain and `count` equal samples of this weight. */
struct side {
	double certain, weight, count;
};

static struct side side_of(const struct mayfly_figure *f, double per)
{
	double sampled = f->estimate - f->certain, v = f->stderror * f->stderror;
	struct side s = {.certain = f->certain / per};

	if (sampled > 0 && v > 0) {
		s.weight = v / sampled / per;
		s.count = sampled * sampled / v;
	} else {
		s.weight = fmax(0, f->high - f->estimate) / 3 / per; /* nothing was seen: 3 R */
	}
	return s;
}

/*
 * The variance of the change, supposing that there is none: what was sampled in both traces then
 * differs by what is certain, and the most likely such pair of means is the root of a quadratic.
 * Estimating each side's variance by itself instead would call chance what is not: a side without
 * samples would have none.
 */
static double null_variance(const struct side *a, const struct side *b)
{
	double shift = b->certain - a->certain;
	double rate = 1 / a->weight + 1 / b->weight;
	double middle = rate * shift + a->count + b->count;
	double root = sqrt(fmax(0, middle * middle - 4 * rate * a->count * shift));
	double mean = (middle + root) / (2 * rate);

	return a->weight * mean + b->weight * fmax(0, mean - shift);
}

/* Of a side that is exact the mean is known; the other one has it too. */
static double half_known_variance(const struct side *sampled, const struct side *exact)
{
	return sampled->weight * fmax(0, exact->certain - sampled->certain);
}

/* Below so many samples, of both sides, nothing is said. */
#define FEWEST 6

static double change_p(const struct side *a, const struct side *b, double change, uint64_t n)
{
	double weight = fmax(a->weight, b->weight), v;

	if (weight <= 0)
		return change == 0;
	if (n < FEWEST && fabs(change) < FEWEST * weight)
		return 1;
	if (a->weight > 0 && b->weight > 0)
		v = null_variance(a, b);
	else if (a->weight > 0)
		v = half_known_variance(a, b);
	else
		v = half_known_variance(b, a);
	if (v <= 0)
		return change == 0;
	return erfc(fabs(change) / sqrt(2 * v));
}

struct diff_figure diff_compare(const struct mayfly_figure *before, uint64_t n_before,
				const struct mayfly_figure *after, uint64_t n_after,
				struct diff_per per)
{
	struct side a = side_of(before, per.before), b = side_of(after, per.after);
	struct diff_figure d = {
	    .before = before->estimate / per.before,
	    .after = after->estimate / per.after,
	};
	uint64_t n = n_before + n_after;
	bool exact = a.weight <= 0 && b.weight <= 0;

	d.change = d.after - d.before;
	d.stderror = hypot(before->stderror / per.before, after->stderror / per.after);
	/* Each end of the change is as far off as an end of each side (Zou and Donner, Statistics
	 * in Medicine 27, 2008). */
	d.low = d.change - hypot((after->estimate - after->low) / per.after,
				 (before->high - before->estimate) / per.before);
	d.high = d.change + hypot((after->high - after->estimate) / per.after,
				  (before->estimate - before->low) / per.before);
	d.p = d.adjusted = change_p(&a, &b, d.change, n);
	if (exact)
		d.verdict = d.change != 0 ? DIFF_REAL : DIFF_SAME;
	else if (n < FEWEST && fabs(d.change) < FEWEST * fmax(a.weight, b.weight))
		d.verdict = DIFF_FEW;
	else
		d.verdict = d.p <= DIFF_LEVEL ? DIFF_REAL : DIFF_NOISE;
	return d;
}

/* ---- rows ---- */

static const struct mayfly_estimate *estimate_of(const struct mayfly_row *row, bool total,
						 const struct mayfly_result *result)
{
	return !row ? &result->nothing : total ? &row->total : &row->self;
}

static bool add_row(struct trace_diff *d, const struct mayfly_row *before,
		    const struct mayfly_row *after, bool total, struct diff_per per)
{
	const struct mayfly_estimate *a = estimate_of(before, total, d->before);
	const struct mayfly_estimate *b = estimate_of(after, total, d->after);

	/* Functions that are on stacks only. */
	if (a->samples == 0 && b->samples == 0)
		return false;
	d->row[d->rows++] = (struct diff_row){
	    .before = before,
	    .after = after,
	    .bytes = diff_compare(&a->bytes, a->samples, &b->bytes, b->samples, per),
	    .blocks = diff_compare(&a->blocks, a->samples, &b->blocks, b->samples, per),
	};
	return true;
}

static bool make_rows(struct trace_diff *d, const size_t *pair, bool total, struct diff_per per)
{
	size_t most = d->before->rows + d->after->rows;
	bool *taken = calloc(d->after->rows + 1, sizeof(*taken));

	d->row = malloc((most + 1) * sizeof(*d->row));
	if (!d->row || !taken) {
		free(taken);
		return false;
	}
	for (size_t i = 0; i < d->before->rows; i++) {
		const struct mayfly_row *after = NULL;

		if (pair[i] != SIZE_MAX) {
			after = &d->after->row[pair[i]];
			taken[pair[i]] = true;
		}
		add_row(d, &d->before->row[i], after, total, per);
	}
	for (size_t i = 0; i < d->after->rows; i++)
		if (!taken[i])
			add_row(d, NULL, &d->after->row[i], total, per);
	free(taken);
	return true;
}

/* ---- many rows ---- */

static int compare_p(const void *a, const void *b)
{
	const struct diff_row *x = *(struct diff_row *const *)a, *y = *(struct diff_row *const *)b;

	return (x->bytes.p > y->bytes.p) - (x->bytes.p < y->bytes.p);
}

/*
 * Benjamini and Hochberg: of m tests sorted by p, number k is significant when p <= level k / m
 * holds for it or a later one; so its adjusted p is the least p m / k from there on. Rows with too
 * few samples are not tested and do not count.
 */
static bool adjust(struct trace_diff *d)
{
	struct diff_row **order = malloc((d->rows + 1) * sizeof(*order));
	size_t tests = 0;
	double least = 1;

	if (!order)
		return false;
	for (size_t i = 0; i < d->rows; i++)
		if (d->row[i].bytes.verdict == DIFF_NOISE || d->row[i].bytes.verdict == DIFF_REAL)
			order[tests++] = &d->row[i];
	qsort(order, tests, sizeof(*order), compare_p);
	for (size_t k = tests; k > 0; k--) {
		struct diff_figure *f = &order[k - 1]->bytes;

		least = fmin(least, f->p * (double)tests / (double)k);
		f->adjusted = least;
		f->verdict = least <= DIFF_LEVEL ? DIFF_REAL : DIFF_NOISE;
	}
	free(order);
	return true;
}

/* How much of the change is certain at the least. */
static double near_end(const struct diff_figure *f)
{
	return f->change > 0 ? f->low : -f->high;
}

static int compare_rows(const void *x, const void *y)
{
	const struct diff_row *a = x, *b = y;
	double first, second;

	if (a->bytes.verdict != b->bytes.verdict)
		return a->bytes.verdict > b->bytes.verdict ? -1 : 1;
	if (a->bytes.verdict == DIFF_REAL) {
		first = near_end(&a->bytes);
		second = near_end(&b->bytes);
	} else {
		first = fabs(a->bytes.change);
		second = fabs(b->bytes.change);
	}
	if (first != second)
		return first > second ? -1 : 1;
	if (a->bytes.after != b->bytes.after)
		return a->bytes.after > b->bytes.after ? -1 : 1;
	/* Rows of one result are sorted, by name in the end. */
	if (a->after && b->after)
		return a->after < b->after ? -1 : a->after > b->after;
	if (a->before && b->before)
		return a->before < b->before ? -1 : a->before > b->before;
	return a->after ? -1 : 1;
}

/* ---- the answer ---- */

static int compare_all(struct trace_diff *d, const struct mayfly_trace *before,
		       const struct mayfly_trace *after, const struct mayfly_query *query,
		       struct diff_per per)
{
	const struct mayfly_estimate *a = &d->before->total, *b = &d->after->total;
	size_t *pair = diff_align(before, d->before, after, d->after, query->by);
	bool done = pair && make_rows(d, pair, query->sort == MAYFLY_SORT_TOTAL, per) && adjust(d);

	free(pair);
	if (!done)
		return MAYFLY_E_MEMORY;
	qsort(d->row, d->rows, sizeof(*d->row), compare_rows);
	d->bytes = diff_compare(&a->bytes, a->samples, &b->bytes, b->samples, per);
	d->blocks = diff_compare(&a->blocks, a->samples, &b->blocks, b->samples, per);
	return 0;
}

int trace_diff_run(const struct mayfly_trace *before, const struct mayfly_trace *after,
		   const struct mayfly_query *query, struct diff_per per, struct trace_diff **diff)
{
	struct trace_diff *d;
	int error;

	if (!(per.before > 0) || !(per.after > 0))
		return MAYFLY_E_RANGE;
	d = calloc(1, sizeof(*d));
	if (!d)
		return MAYFLY_E_MEMORY;
	error = mayfly_query_run(before, query, &d->before);
	if (!error)
		error = mayfly_query_run(after, query, &d->after);
	if (!error)
		error = compare_all(d, before, after, query, per);
	if (error)
		trace_diff_free(d);
	else
		*diff = d;
	return error;
}

void trace_diff_free(struct trace_diff *d)
{
	if (!d)
		return;
	mayfly_result_free(d->before);
	mayfly_result_free(d->after);
	free(d->row);
	free(d);
}
