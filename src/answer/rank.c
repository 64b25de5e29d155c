/* SPDX-License-Identifier: Apache-2.0 */
/* Rows in the order in which they are shown, and what is left out. */
#include "answer/rank.h"

#include <math.h>
#include <stdlib.h>

const struct mayfly_estimate *sorted_by(const struct mayfly_query *query,
					const struct mayfly_row *row)
{
	return query->sort == MAYFLY_SORT_TOTAL ? &row->total : &row->self;
}

enum confidence row_confidence(const struct mayfly_query *query, const struct mayfly_row *row)
{
	const struct mayfly_estimate *e = sorted_by(query, row);

	return figure_confidence(&e->bytes, e->samples);
}

static void sum_add(struct rank_sum *sum, const struct mayfly_estimate *e)
{
	sum->rows++;
	sum->samples += e->samples;
	sum->bytes += e->bytes.estimate;
	sum->variance += e->bytes.stderror * e->bytes.stderror;
	sum->seen += e->bytes.estimate > 0 ? e->bytes.low : 0;
}

struct mayfly_figure sum_figure(const struct rank_sum *sum)
{
	double stderror = sqrt(sum->variance);
	double low = sum->bytes - 2 * stderror;
	struct mayfly_figure f = {sum->bytes, stderror, low > sum->seen ? low : sum->seen,
				  sum->bytes + 2 * stderror};

	return f;
}

static bool has_classes(const struct mayfly_query *query)
{
	return query->by == MAYFLY_BY_SIZE || query->by == MAYFLY_BY_LIFETIME;
}

static int compare_class(const void *a, const void *b)
{
	const struct mayfly_row *x = *(const struct mayfly_row *const *)a;
	const struct mayfly_row *y = *(const struct mayfly_row *const *)b;

	if (x->low != y->low)
		return x->low < y->low ? -1 : 1;
	return (x->high > y->high) - (x->high < y->high);
}

static bool any_sure(const struct mayfly_query *query, const struct mayfly_result *result)
{
	for (size_t i = 0; i < result->rows; i++)
		if (row_confidence(query, &result->row[i]) >= FIGURE_RANGE)
			return true;
	return false;
}

static void rank_row(const struct mayfly_query *query, const struct rank_options *options,
		     struct ranking *ranking, const struct mayfly_row *row)
{
	const struct mayfly_estimate *e = sorted_by(query, row);

	if (!options->all && !(e->bytes.estimate > 0))
		return; /* on stacks only: allocates nothing itself, as far as was seen */
	if (!options->few && row_confidence(query, row) < FIGURE_RANGE)
		sum_add(&ranking->few, e);
	else if (options->top && ranking->rows >= options->top)
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

bool rank_rows(const struct mayfly_query *query, const struct mayfly_result *result,
	       struct rank_options options, struct ranking *ranking)
{
	/* A top of 0 asks for all rows. Rows too uncertain to rank are better than none. */
	options.few =
	    options.all || options.top == 0 || has_classes(query) || !any_sure(query, result);
	if (options.all || has_classes(query))
		options.top = 0;
	*ranking = (struct ranking){0};
	ranking->row = calloc(result->rows + 1, sizeof(*ranking->row));
	if (!ranking->row)
		return false;
	for (size_t i = 0; i < result->rows; i++) {
		if (options.skip && options.skip[i])
			ranking->skipped++;
		else
			rank_row(query, &options, ranking, &result->row[i]);
	}
	if (result->all_rows > result->rows)
		add_left_out(ranking, result);
	if (has_classes(query) && !options.sorted)
		qsort(ranking->row, ranking->rows, sizeof(*ranking->row), compare_class);
	return true;
}
