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

#include <stdlib.h>
#include <string.h>

/* mayfly_histogram_free() frees this whole struct. */
struct histogram_answer {
	struct mayfly_histogram histogram; /* must be first: the caller's pointer is to it */
	struct mayfly_result *result;	   /* the rows point into it */
	struct mayfly_row *row;
	int64_t *low, *high;
	struct mayfly_estimate *cell;
};

struct histogram_run {
	struct query_state ranking, cells; /* the first question, and the second */
	struct histogram_answer *a;
	struct shown shown;
	size_t rows; /* without the one for all other rows */
	uint32_t *site_of;
	struct tally *tally; /* [rows + 1][all classes] */
	size_t classes;	     /* all possible ones */
	uint32_t *kept;	     /* for each class of the histogram its number among them */
};

/* A site has the number of the first cell of its list of rows; the last site has no rows. */
static bool make_sites(struct histogram_run *r)
{
	struct query_state *s = &r->ranking;

	r->site_of = malloc((s->slots + 1) * sizeof(*r->site_of));
	if (!r->site_of)
		return query_fail(s, MAYFLY_E_MEMORY);
	for (size_t i = 0; i < s->slots; i++)
		r->site_of[i] =
		    r->shown.head[i] == NONE ? (uint32_t)r->shown.cells : r->shown.head[i];
	return true;
}

static void add_to_rows(struct histogram_run *r, size_t site, size_t class, const struct tally *t)
{
	uint32_t list = site < r->shown.cells ? (uint32_t)site : NONE;

	if (list == NONE)
		tally_merge(&r->tally[r->rows * r->classes + class], t);
	for (; list != NONE; list = r->shown.cell[list].next)
		tally_merge(&r->tally[r->shown.cell[list].row * r->classes + class], t);
}

static bool sum_cells(struct histogram_run *r, const struct mayfly_trace *trace,
		      const struct mayfly_query *query)
{
	struct query_state *s = &r->cells;

	s->site_of = r->site_of;
	s->site_by = r->ranking.query->by;
	s->sites = r->shown.cells + 1;
	if (!query_begin(s, trace, query))
		return query_fail(&r->ranking, s->error);
	r->tally = query_zeroed(&r->ranking, (r->rows + 1) * r->classes, sizeof(*r->tally));
	for (size_t i = 0; r->tally && i < s->slots; i++) {
		uint32_t at = query_summed(s, (uint32_t)i);
		struct tally t;

		if (at == NONE)
			continue;
		t = query_tally(s, &s->sum, at);
		add_to_rows(r, i / r->classes, i % r->classes, &t);
	}
	return r->tally != NULL;
}

static bool histogram_is_empty(const struct histogram_run *r, size_t class)
{
	for (size_t row = 0; row <= r->rows; row++) {
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
static uint64_t unseen(const struct histogram_run *r, enum mayfly_by by, const struct group *class)
{
	return query_unseen_interval(&r->cells,
				     by == MAYFLY_BY_SIZE ? (uint64_t) class->low + 1 : 0);
}

static bool fill_answer(struct histogram_run *r, enum mayfly_by by)
{
	struct query_state *s = &r->ranking;
	struct mayfly_histogram *h = &r->a->histogram;

	r->kept = query_zeroed(s, r->classes, sizeof(*r->kept));
	if (!r->kept)
		return false;
	h->classes = choose_classes(r, by);
	h->low = r->a->low = query_zeroed(s, h->classes, sizeof(*h->low));
	h->high = r->a->high = query_zeroed(s, h->classes, sizeof(*h->high));
	h->cell = r->a->cell = query_zeroed(s, (r->rows + 1) * h->classes, sizeof(*h->cell));
	h->row = r->a->row = query_shown_rows(s, r->a->result, r->rows);
	if (s->error)
		return false;
	for (size_t i = 0; i < h->classes; i++) {
		struct group g = query_class_group(by, r->kept[i]);

		r->a->low[i] = g.low;
		r->a->high[i] = g.high;
		for (size_t row = 0; row <= r->rows; row++)
			r->a->cell[row * h->classes + i] = tally_estimate(
			    &r->tally[row * r->classes + r->kept[i]], unseen(r, by, &g));
	}
	h->rows = r->rows + 1;
	h->time_ns = r->a->result->time_ns;
	h->total = r->a->result->total;
	return true;
}

static bool run_histogram(struct histogram_run *r, const struct mayfly_trace *trace,
			  const struct mayfly_query *query, enum mayfly_by by, size_t rows)
{
	struct query_state *s = &r->ranking;
	struct mayfly_query second = *query;

	second.by = by;
	r->classes = query_classes(by);
	r->a->result = query_answer(s, trace, query);
	if (!r->a->result)
		return false;
	r->rows = rows < r->a->result->rows ? rows : r->a->result->rows;
	return query_shown_make(s, r->rows, &r->shown) && make_sites(r) &&
	       sum_cells(r, trace, &second) && fill_answer(r, by);
}

int mayfly_histogram_run(const struct mayfly_trace *trace, const struct mayfly_query *query,
			 enum mayfly_by classes, size_t rows, struct mayfly_histogram **histogram)
{
	struct histogram_run r = {0};
	int error;

	if (classes != MAYFLY_BY_SIZE && classes != MAYFLY_BY_LIFETIME)
		return MAYFLY_E_RANGE;
	r.a = calloc(1, sizeof(*r.a));
	if (!r.a)
		return MAYFLY_E_MEMORY;
	run_histogram(&r, trace, query, classes, rows);
	error = r.ranking.error;
	query_shown_free(&r.shown);
	free(r.site_of);
	free(r.tally);
	free(r.kept);
	query_end(&r.ranking);
	query_end(&r.cells);
	if (error)
		mayfly_histogram_free(&r.a->histogram);
	else
		*histogram = &r.a->histogram;
	return error;
}

void mayfly_histogram_free(struct mayfly_histogram *histogram)
{
	struct histogram_answer *a = (struct histogram_answer *)histogram;

	if (!a)
		return;
	mayfly_result_free(a->result);
	free(a->row);
	free(a->low);
	free(a->high);
	free(a->cell);
	free(a);
}
