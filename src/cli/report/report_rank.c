/* SPDX-License-Identifier: Apache-2.0 */
/* report_rank.c: rows in the order in which they are shown, and what is left out. */
#include "cli/report/report.h"

#include <math.h>
#include <stdlib.h>

const struct mayfly_estimate *report_sorted_by(const struct report *r, const struct mayfly_row *row)
{
	return r->q.query.sort == MAYFLY_SORT_TOTAL ? &row->total : &row->self;
}

enum sureness report_sureness(const struct report *r, const struct mayfly_row *row)
{
	const struct mayfly_estimate *e = report_sorted_by(r, row);

	return figure_sureness(&e->bytes, e->samples);
}

static void sum_add(struct sum *sum, const struct mayfly_estimate *e)
{
	sum->rows++;
	sum->samples += e->samples;
	sum->bytes += e->bytes.estimate;
	sum->variance += e->bytes.stderror * e->bytes.stderror;
	sum->seen += e->bytes.estimate > 0 ? e->bytes.low : 0;
}

struct mayfly_figure report_sum_figure(const struct sum *sum)
{
	double stderror = sqrt(sum->variance);
	double low = sum->bytes - 2 * stderror;
	struct mayfly_figure f = {sum->bytes, stderror, low > sum->seen ? low : sum->seen,
				  sum->bytes + 2 * stderror};

	return f;
}

static bool has_classes(const struct report *r)
{
	return r->q.query.by == MAYFLY_BY_SIZE || r->q.query.by == MAYFLY_BY_LIFETIME;
}

static int compare_class(const void *a, const void *b)
{
	const struct mayfly_row *x = *(const struct mayfly_row *const *)a;
	const struct mayfly_row *y = *(const struct mayfly_row *const *)b;

	if (x->low != y->low)
		return x->low < y->low ? -1 : 1;
	return (x->high > y->high) - (x->high < y->high);
}

static bool any_sure(const struct report *r, const struct mayfly_result *result)
{
	for (size_t i = 0; i < result->rows; i++)
		if (report_sureness(r, &result->row[i]) >= FIGURE_RANGE)
			return true;
	return false;
}

static void rank_row(const struct report *r, struct ranking *ranking, const struct mayfly_row *row,
		     size_t top, bool few_too)
{
	enum sureness sure = report_sureness(r, row);
	const struct mayfly_estimate *e = report_sorted_by(r, row);

	if (!r->all && !(e->bytes.estimate > 0))
		return; /* on stacks only: allocates nothing itself, as far as was seen */
	if (!few_too && sure < FIGURE_RANGE)
		sum_add(&ranking->few, e);
	else if (top && ranking->rows >= top)
		sum_add(&ranking->more, e);
	else
		ranking->row[ranking->rows++] = row;
}

/* Stacks that the answer left out: what the others do not have. */
static void add_left_out(struct ranking *ranking, const struct mayfly_result *result)
{
	double bytes = result->total.bytes.estimate;
	uint64_t samples = result->total.samples;

	for (size_t i = 0; i < result->rows; i++) {
		bytes -= result->row[i].self.bytes.estimate;
		samples -= result->row[i].self.samples;
	}
	ranking->more.rows += result->all_rows - result->rows;
	ranking->more.bytes += bytes;
	ranking->more.seen += bytes;
	ranking->more.samples += samples;
}

bool report_rank(const struct report *r, const struct mayfly_result *result, size_t top,
		 struct ranking *ranking)
{
	/* --top 0 asks for all; and rows that nobody can rank are better than none. */
	bool few_too = r->all || top == 0 || has_classes(r) || !any_sure(r, result);

	*ranking = (struct ranking){0};
	ranking->row = calloc(result->rows + 1, sizeof(*ranking->row));
	if (!ranking->row)
		return false;
	if (r->all || has_classes(r))
		top = 0;
	for (size_t i = 0; i < result->rows; i++)
		rank_row(r, ranking, &result->row[i], top, few_too);
	if (result->all_rows > result->rows)
		add_left_out(ranking, result);
	if (has_classes(r) && !r->q.sort_given)
		qsort(ranking->row, ranking->rows, sizeof(*ranking->row), compare_class);
	return true;
}
