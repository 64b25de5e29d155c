/* SPDX-License-Identifier: Apache-2.0 */
/* diff.c: changes and whether they may be due to chance. diff_align.c finds the pairs of rows. */
#include "query/diff.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- one figure ---- */

/* An estimate, modelled as a certain part plus `count` samples of equal weight. */
struct side {
	double certain, weight, count;
};

static struct side side_of(const struct mayfly_figure *f, double per, double caution)
{
	double sampled = f->estimate - f->certain, v = fmax(1, caution) * f->stderror * f->stderror;
	struct side s = {.certain = f->certain / per};

	if (sampled > 0 && v > 0) {
		s.weight = v / sampled / per;
		s.count = sampled * sampled / v;
	} else {
		s.weight = fmax(0, f->high - f->estimate) / 3 / per; /* no samples: `high` is 3 R */
	}
	return s;
}

/*
 * The expected sampled part of a under the null hypothesis that nothing changed. The sampled parts
 * of both sides then differ only by the difference of their certain parts, and the most likely pair
 * of means with that difference is the root of a quadratic. Variances come from this mean: a side
 * without samples would otherwise have no variance, and chance would be called a real change. When
 * one side is exact, its value determines the mean of the other.
 */
static double null_mean(const struct side *a, const struct side *b)
{
	double shift = b->certain - a->certain;
	double rate, middle, root;

	if (b->weight <= 0)
		return fmax(0, shift);
	if (a->weight <= 0)
		return 0;
	rate = 1 / a->weight + 1 / b->weight;
	middle = rate * shift + a->count + b->count;
	root = sqrt(fmax(0, middle * middle - 4 * rate * a->count * shift));
	return (middle + root) / (2 * rate);
}

/* Twice the log-likelihood ratio of a count: its most likely mean against `mean`. */
static double deviance(const struct side *s, double mean)
{
	double expected = s->weight > 0 ? mean / s->weight : 0;

	if (s->count <= 0)
		return 2 * expected;
	if (expected <= 0)
		return s->weight > 0 ? INFINITY : 0;
	return fmax(0, 2 * (s->count * log(s->count / expected) - s->count + expected));
}

/* With fewer samples of both sides together there is no verdict. */
#define FEWEST 6

static bool has_few(const struct side *a, const struct side *b, double change, uint64_t n)
{
	return n < FEWEST && fabs(change) < FEWEST * fmax(a->weight, b->weight);
}

/*
 * The less certain of two tests of the same hypothesis. The score test trusts rare samples of a
 * coarse interval too much when the other side has a fine one; the likelihood-ratio test trusts a
 * side without samples too much. If one of them errs, the other is right.
 */
static double change_p(const struct side *a, const struct side *b, double change)
{
	double shift = b->certain - a->certain, mean, v, score, likelihood;

	if (change == 0)
		return 1;
	if (a->weight <= 0 && b->weight <= 0)
		return 0;
	mean = null_mean(a, b);
	v = a->weight * mean + b->weight * fmax(0, mean - shift);
	if (v <= 0)
		return 0;
	score = fabs(change) / sqrt(v);
	likelihood = sqrt(deviance(a, mean) + deviance(b, fmax(0, mean - shift)));
	return erfc(fmin(score, likelihood) * M_SQRT1_2);
}

/* The same estimate at another moment, with as much noise for each byte. */
static struct mayfly_figure moved(const struct mayfly_figure *f, double to)
{
	struct mayfly_figure m = *f;
	double scale = f->estimate > 0 ? to / f->estimate : 1;

	m.estimate = to;
	m.stderror *= sqrt(scale);
	m.certain *= scale;
	return m;
}

/*
 * Figures of the peak are compared at those of the moments which may be the peak that are most like
 * each other. 1 if some are alike.
 */
static double moments_p(const struct mayfly_figure *before, const struct mayfly_figure *after,
			struct diff_per per)
{
	double most = (before->estimate + before->above) / per.before;
	double least = (before->estimate - before->below) / per.before;
	struct mayfly_figure x, y;
	struct side a, b;

	if ((after->estimate - after->below) / per.after > most) {
		x = moved(before, most * per.before);
		y = moved(after, after->estimate - after->below);
	} else if ((after->estimate + after->above) / per.after < least) {
		x = moved(before, least * per.before);
		y = moved(after, after->estimate + after->above);
	} else {
		return 1;
	}
	a = side_of(&x, per.before, per.caution);
	b = side_of(&y, per.after, per.caution);
	return change_p(&a, &b, y.estimate / per.after - x.estimate / per.before);
}

static bool has_moments(const struct mayfly_figure *f)
{
	return f->below > 0 || f->above > 0;
}

struct diff_figure diff_compare(const struct mayfly_figure *before, uint64_t n_before,
				const struct mayfly_figure *after, uint64_t n_after,
				struct diff_per per)
{
	struct side a = side_of(before, per.before, per.caution),
		    b = side_of(after, per.after, per.caution);
	struct diff_figure d = {
	    .before = before->estimate / per.before,
	    .after = after->estimate / per.after,
	};
	uint64_t n = n_before + n_after;
	bool exact = a.weight <= 0 && b.weight <= 0;

	d.change = d.after - d.before;
	d.stderror = hypot(before->stderror / per.before, after->stderror / per.after);
	/* The distance of each limit from the change combines the distances of one limit of each
	 * side (Zou and Donner, Statistics in Medicine 27, 2008). */
	d.low = d.change - hypot((after->estimate - after->low) / per.after,
				 (before->high - before->estimate) / per.before);
	d.high = d.change + hypot((after->high - after->estimate) / per.after,
				  (before->estimate - before->low) / per.before);
	if (exact)
		d.verdict = d.change != 0 ? DIFF_REAL : DIFF_SAME;
	else
		d.verdict = has_few(&a, &b, d.change, n) ? DIFF_FEW : DIFF_NOISE;
	if (d.verdict == DIFF_FEW)
		d.p = 1;
	else if (has_moments(before) || has_moments(after))
		d.p = moments_p(before, after, per);
	else
		d.p = change_p(&a, &b, d.change);
	d.adjusted = d.p;
	if (d.verdict == DIFF_NOISE && d.p <= DIFF_LEVEL)
		d.verdict = DIFF_REAL;
	return d;
}

/* ---- rows ---- */

static const struct mayfly_estimate *estimate_of(const struct mayfly_row *row, bool total,
						 const struct mayfly_result *result)
{
	return !row ? &result->nothing : total ? &row->total : &row->self;
}

static bool diff_add_row(struct trace_diff *d, const struct mayfly_row *before,
			 const struct mayfly_row *after, bool total, struct diff_per per)
{
	const struct mayfly_estimate *a = estimate_of(before, total, d->before);
	const struct mayfly_estimate *b = estimate_of(after, total, d->after);

	/* Functions that did not allocate themselves: only their totals can change. */
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

static bool diff_make_rows(struct trace_diff *d, const size_t *pair, bool total,
			   struct diff_per per)
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
		diff_add_row(d, &d->before->row[i], after, total, per);
	}
	for (size_t i = 0; i < d->after->rows; i++)
		if (!taken[i])
			diff_add_row(d, NULL, &d->after->row[i], total, per);
	free(taken);
	return true;
}

/* ---- many rows ---- */

static int compare_p(const void *a, const void *b)
{
	const struct diff_figure *x = *(struct diff_figure *const *)a,
				 *y = *(struct diff_figure *const *)b;

	return (x->p > y->p) - (x->p < y->p);
}

/*
 * Benjamini and Hochberg: when m tests are sorted by p, number k is significant if p <= level k / m
 * holds for it or for a later one; so its adjusted p is the smallest p m / k from there on. Rows
 * with too few samples are not tested and do not count in m.
 */
bool diff_adjust(struct diff_figure *first, size_t stride, size_t figures)
{
	struct diff_figure **order = malloc((figures + 1) * sizeof(*order));
	size_t tests = 0;
	double least = 1;

	if (!order)
		return false;
	for (size_t i = 0; i < figures; i++) {
		struct diff_figure *f = (struct diff_figure *)((char *)first + i * stride);

		if (f->verdict == DIFF_NOISE || f->verdict == DIFF_REAL)
			order[tests++] = f;
	}
	qsort(order, tests, sizeof(*order), compare_p);
	for (size_t k = tests; k > 0; k--) {
		struct diff_figure *f = order[k - 1];

		least = fmin(least, f->p * ((double)tests / (double)k));
		f->adjusted = least;
		f->verdict = least <= DIFF_LEVEL ? DIFF_REAL : DIFF_NOISE;
	}
	free(order);
	return true;
}

/* The smallest size of the change within its 95 % interval. */
static double near_end(const struct diff_figure *f)
{
	return f->change > 0 ? f->low : -f->high;
}

static int diff_compare_rows(const void *x, const void *y)
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
	/* Rows of one result are sorted already, by name as the last key. */
	if (a->after && b->after)
		return a->after < b->after ? -1 : a->after > b->after;
	if (a->before && b->before)
		return a->before < b->before ? -1 : a->before > b->before;
	return a->after ? -1 : 1;
}

bool trace_diff_order(struct trace_diff *d)
{
	if (!diff_adjust(&d->row->bytes, sizeof(*d->row), d->rows))
		return false;
	qsort(d->row, d->rows, sizeof(*d->row), diff_compare_rows);
	return true;
}

/* Without standard errors nothing can be tested. */
bool diff_is_blind(const struct mayfly_trace *before, const struct mayfly_trace *after)
{
	return (mayfly_trace_info(before)->absent | mayfly_trace_info(after)->absent) &
	       MAYFLY_ABSENT_ERRORS;
}

void diff_forget_verdict(struct diff_figure *f)
{
	f->p = f->adjusted = 1;
	if (f->verdict != DIFF_SAME)
		f->verdict = DIFF_UNKNOWN;
}

static void forget_verdicts(struct trace_diff *d)
{
	diff_forget_verdict(&d->bytes);
	diff_forget_verdict(&d->blocks);
	for (size_t i = 0; i < d->rows; i++) {
		diff_forget_verdict(&d->row[i].bytes);
		diff_forget_verdict(&d->row[i].blocks);
	}
}

/*
 * What strata take off a variance is an estimate. The rows with the largest changes among many are
 * mostly rows whose variance lost too much: without this factor, 6 to 11 % of unchanged pairs of
 * some programs had a row called significant.
 */
#define STRATA_CAUTION 1.25

double diff_caution(const struct mayfly_trace *before, const struct mayfly_trace *after)
{
	bool grouped = mayfly_trace_info(before)->grouped || mayfly_trace_info(after)->grouped;

	return grouped ? STRATA_CAUTION : 0;
}

/* ---- the answer ---- */

static int compare_all(struct trace_diff *d, const struct mayfly_trace *before,
		       const struct mayfly_trace *after, const struct mayfly_query *query,
		       struct diff_per per)
{
	const struct mayfly_estimate *a = &d->before->total, *b = &d->after->total;
	size_t *pair = diff_align(before, d->before, after, d->after, query->by);
	bool done = pair && diff_make_rows(d, pair, query->sort == MAYFLY_SORT_TOTAL, per);

	free(pair);
	if (!done || !trace_diff_order(d))
		return MAYFLY_E_MEMORY;
	d->bytes = diff_compare(&a->bytes, a->samples, &b->bytes, b->samples, per);
	d->blocks = diff_compare(&a->blocks, a->samples, &b->blocks, b->samples, per);
	if (diff_is_blind(before, after)) {
		forget_verdicts(d);
		qsort(d->row, d->rows, sizeof(*d->row), diff_compare_rows);
	}
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
	per.caution = diff_caution(before, after);
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
