/* SPDX-License-Identifier: Apache-2.0 */
/* Shares of labels in the sums of nodes: see label_sums.h. */
#include "convert/export/label_sums.h"

#include <stdlib.h>

#include "base/array.h"
#include "convert/export/block_filter.h"
#include "query/peak.h"
#include "query/query.h"

struct adding {
	struct label_sums *l;
	struct block_filter filter;
	const struct mayfly_query *query;
	int column;
	int64_t time_ns;  /* for metrics of live blocks: the moment */
	struct peak peak; /* where each sample has its own */
};

static int64_t moment_of(const struct adding *a, const struct mayfly_event *e)
{
	if (!query_at_peak(a->query))
		return a->time_ns;
	return peak_at(&a->peak, peak_moment_of(a->filter.trace, e)).time_ns;
}

/* Whether the query is about a block that was freed at this time; INT64_MAX: never. */
static bool is_asked(const struct adding *a, const struct mayfly_event *e, int64_t free_ns)
{
	switch (a->query->metric) {
	case MAYFLY_LIVE:
	case MAYFLY_PEAK:
		return e->alloc_time_ns <= moment_of(a, e) && free_ns > moment_of(a, e);
	case MAYFLY_LEAKED:
		return free_ns == INT64_MAX;
	case MAYFLY_TEMPORARY:
		return free_ns != INT64_MAX && e->flags & MAYFLY_FLAG_TEMPORARY && !e->inherited;
	case MAYFLY_ALLOCATED:
	case MAYFLY_SURVIVED:	/* not offered by any export, */
	case MAYFLY_IN_PICTURE: /* nor is this */
		break;
	}
	return !e->inherited;
}

static int label_sums_add_block(void *context, const struct mayfly_event *e, bool freed)
{
	struct adding *a = context;
	struct label_sums *l = a->l;
	struct key key = {{1, e->node, e->labels}};
	int64_t free_ns = freed ? e->time_ns : INT64_MAX;
	struct label_weights *to;
	uint32_t number;
	bool is_new;

	if (!is_asked(a, e, free_ns) || !block_filter_keeps(&a->filter, e) ||
	    !block_filter_keeps_lifetime(&a->filter,
					 freed ? free_ns - e->alloc_time_ns : INT64_MAX))
		return 0;
	number = interner_add(&l->pairs, key, &is_new);
	if (number == INTERNER_NONE || !array_reserve(&l->sum, &l->room, number, sizeof(*l->sum)))
		return MAYFLY_E_MEMORY;
	if (is_new)
		l->sum[l->count++] = (struct label_sum){.node = e->node, .set = e->labels};
	to = &l->sum[number].of[a->column];
	to->bytes += e->weight_bytes;
	to->blocks += e->weight_blocks;
	return 0;
}

static int by_node(const void *a, const void *b)
{
	const struct label_sum *x = a, *y = b;

	if (x->node != y->node)
		return x->node < y->node ? -1 : 1;
	return x->set < y->set ? -1 : x->set > y->set;
}

static int label_sums_add(struct adding *a, const struct mayfly_trace *trace)
{
	int error =
	    query_at_peak(a->query) ? peak_find(trace, query_of_mappings(a->query), &a->peak) : 0;

	if (error)
		return error;
	error = block_filter_begin(&a->filter, trace, a->query);
	if (!error)
		error = block_filter_walk(&a->filter, label_sums_add_block, a);
	block_filter_end(&a->filter);
	return error;
}

int label_sums_begin(struct label_sums *l, const struct mayfly_trace *trace,
		     const struct mayfly_query *const asked[STACK_COLUMNS],
		     const struct stack_sums *sums)
{
	int error = 0;

	*l = (struct label_sums){0};
	for (int i = 0; !error && i < STACK_COLUMNS; i++) {
		struct adding a = {.l = l, .query = asked[i], .column = i};

		if (!sums->of[i])
			continue;
		a.time_ns = sums->of[i]->time_ns;
		error = label_sums_add(&a, trace);
	}
	if (l->count)
		qsort(l->sum, l->count, sizeof(*l->sum), by_node);
	return error;
}

void label_sums_end(struct label_sums *l)
{
	free(l->sum);
	interner_free(&l->pairs);
}

const struct label_sum *label_sums_of(struct label_sums *l, uint32_t node, size_t *count)
{
	size_t first;

	while (l->at < l->count && l->sum[l->at].node < node)
		l->at++;
	first = l->at;
	while (l->at < l->count && l->sum[l->at].node == node)
		l->at++;
	*count = l->at - first;
	return *count ? l->sum + first : NULL;
}
