/* SPDX-License-Identifier: Apache-2.0 */
/*
 * histogram.c: the rows of an answer by class of size or lifetime.
 *
 * The answer to a first question tells which rows exist, and for which of them each slot counts
 * (query.h). Slots that count for the same rows form one site. A second question sums by site and
 * class, and each row gets the sums of its sites:
 *
 *	slot: node 1 2 3 4 5 ...        slot of the second question: site x classes + class
 *	site:      0 1 1 2 1		site 1 counts for the rows of its list
 */
#include "query/query.h"

struct histogram_run {
	struct query_state ranking, cells; /* the first question, and the second */
	struct mayfly_histogram *a;
	const struct mayfly_result *result;
	struct tally *tally; /* [rows + 1][all classes] */
	size_t classes;	     /* all possible ones */
	uint32_t *kept;	     /* for each class of the histogram its number among them */
};

/* A site has the number of the first cell of its list of rows. */
static void sum_cells(struct histogram_run *r, const struct mayfly_trace *trace,
		      const struct mayfly_query *query)
{
	const struct shown *shown = &r->ranking.shown;
	struct query_state *s = &r->cells;

	s->site_of = shown->head;
	s->site_by = r->ranking.query->by;
	s->sites = shown->cells;
	if (!query_begin(s, trace, query)) {
		query_fail(&r->ranking, s->error);
		return;
	}
	for (size_t i = 0; i < s->slots; i++) {
		uint32_t at = query_summed(s, (uint32_t)i);
		struct tally t;

		if (at == NONE)
			continue;
		t = query_tally(s, &s->sum, at);
		for (uint32_t k = (uint32_t)(i / r->classes); k != NONE; k = shown->cell[k].next)
			tally_merge(&r->tally[shown->cell[k].row * r->classes + i % r->classes],
				    &t);
	}
}

static bool histogram_is_empty(const struct histogram_run *r, size_t class)
{
	for (size_t row = 0; row <= r->ranking.shown.rows; row++) {
		const struct tally *t = &r->tally[row * r->classes + class];

		if (t->exact_count || t->seen_blocks)
			return false;
	}
	return true;
}

/* From the first class with a block to the last one, and the class of blocks never freed. */
static size_t choose_classes(struct histogram_run *r, enum mayfly_by by)
{
	size_t first = 0, end = r->classes, count = 0, last = r->classes;

	if (by == MAYFLY_BY_LIFETIME)
		end = --last;
	while (end > 0 && histogram_is_empty(r, end - 1))
		end--;
	while (first < end && histogram_is_empty(r, first))
		first++;
	for (size_t i = first; i < end; i++)
		r->kept[count++] = (uint32_t)i;
	if (last < r->classes && !histogram_is_empty(r, last))
		r->kept[count++] = (uint32_t)last;
	return count;
}

/* The bound on unseen blocks of a class depends on its sizes. */
static struct unseen unseen(const struct histogram_run *r, enum mayfly_by by,
			    const struct group *class)
{
	return query_unseen(&r->cells, by == MAYFLY_BY_SIZE ? (uint64_t) class->low + 1 : 0,
			    SPREAD_SELF);
}

static void fill_answer(struct histogram_run *r, enum mayfly_by by)
{
	struct query_state *s = &r->ranking;
	struct mayfly_histogram *h = r->a;
	struct mayfly_estimate *cell;
	int64_t *low, *high;

	h->rows = s->shown.rows + 1;
	h->classes = choose_classes(r, by);
	h->low = low = answer_array(s, h, h->classes, sizeof(*low));
	h->high = high = answer_array(s, h, h->classes, sizeof(*high));
	h->cell = cell = answer_array(s, h, h->rows * h->classes, sizeof(*cell));
	h->row = query_shown_rows(s, h, r->result);
	for (size_t i = 0; i < h->classes && !s->error; i++) {
		struct group g = query_class_group(by, r->kept[i]);

		low[i] = g.low;
		high[i] = g.high;
		for (size_t row = 0; row < h->rows; row++)
			cell[row * h->classes + i] = tally_estimate(
			    &r->tally[row * r->classes + r->kept[i]], unseen(r, by, &g));
	}
	h->time_ns = r->result->time_ns;
	h->total = r->result->total;
}

static void run_histogram(struct histogram_run *r, const struct mayfly_trace *trace,
			  const struct mayfly_query *query, enum mayfly_by by, size_t rows)
{
	struct query_state *s = &r->ranking;
	struct mayfly_query second = *query;

	r->result = query_shown(s, r->a, trace, query, rows);
	if (!r->result)
		return;
	second.by = by;
	r->classes = query_classes(by);
	r->kept = query_scratch(s, r->classes, sizeof(*r->kept));
	r->tally = query_scratch(s, (s->shown.rows + 1) * r->classes, sizeof(*r->tally));
	if (!s->error)
		sum_cells(r, trace, &second);
	if (!s->error)
		fill_answer(r, by);
}

int mayfly_histogram_run(const struct mayfly_trace *trace, const struct mayfly_query *query,
			 enum mayfly_by classes, size_t rows, struct mayfly_histogram **histogram)
{
	struct histogram_run r = {0};

	if (classes != MAYFLY_BY_SIZE && classes != MAYFLY_BY_LIFETIME)
		return MAYFLY_E_RANGE;
	r.a = answer_new(&r.ranking, sizeof(*r.a));
	run_histogram(&r, trace, query, classes, rows);
	query_end(&r.cells);
	return answer_finish(&r.ranking, r.a, histogram);
}

void mayfly_histogram_free(struct mayfly_histogram *histogram)
{
	answer_free(histogram);
}
