/* SPDX-License-Identifier: Apache-2.0 */
/* query.c: one question to a trace. query.h explains how the answer is found. */
#include "query/query.h"

#include "query/query_two.h"

#include <stdlib.h>
#include <string.h>

/* ---- the question ---- */

/* The picture knows nothing of frees. */
static bool picture_fits(const struct mayfly_query *q)
{
	if (q->metric != MAYFLY_IN_PICTURE)
		return !(grouping_of(q->by).flags & GROUPING_PICTURE) && !q->holder.matches &&
		       !q->type.matches && q->holding == MAYFLY_LOST_OR_HELD;
	return !query_by_fate(q->by) && q->min_lifetime_ns <= 0 && q->max_lifetime_ns == INT64_MAX;
}

static bool query_valid(const struct mayfly_query *q)
{
	return q->metric <= MAYFLY_IN_PICTURE && grouping_of(q->by).name &&
	       q->sort <= MAYFLY_SORT_TOTAL && picture_fits(q);
}

void mayfly_query_defaults(struct mayfly_query *query)
{
	*query = (struct mayfly_query){
	    .metric = MAYFLY_PEAK,
	    .by = MAYFLY_BY_FUNCTION,
	    .sort = MAYFLY_SORT_SELF,
	    .at_ns = MAYFLY_AT_END,
	    .to_ns = INT64_MAX,
	    .max_size = UINT64_MAX,
	    .max_lifetime_ns = INT64_MAX,
	};
}

/* What a trace must have for the metric and its moment. */
static uint32_t metric_needs(const struct mayfly_query *q)
{
	switch (q->metric) {
	case MAYFLY_PEAK:
		return MAYFLY_ABSENT_PEAK;
	case MAYFLY_ALLOCATED:
		return MAYFLY_ABSENT_ALLOCATED;
	case MAYFLY_TEMPORARY:
		return MAYFLY_ABSENT_TEMPORARY;
	case MAYFLY_LEAKED:
		return MAYFLY_ABSENT_LIVE;
	case MAYFLY_IN_PICTURE: /* a trace that has one lacks nothing for it */
		return 0;
	case MAYFLY_SURVIVED:
	case MAYFLY_LIVE:
		break;
	}
	if (q->at_ns == MAYFLY_AT_PEAK)
		return MAYFLY_ABSENT_PEAK;
	return MAYFLY_ABSENT_LIVE | (q->at_ns == MAYFLY_AT_END ? 0 : MAYFLY_ABSENT_TIMES);
}

uint32_t mayfly_query_absent(const struct mayfly_trace *trace, const struct mayfly_query *q)
{
	uint32_t needs = metric_needs(q) | MAYFLY_ABSENT_ALLOCATIONS | grouping_of(q->by).absent;

	if (q->from_ns > 0 || q->to_ns < INT64_MAX)
		needs |= MAYFLY_ABSENT_TIMES;
	if (q->thread.matches)
		needs |= MAYFLY_ABSENT_THREADS;
	if (q->min_size > 0 || q->max_size < UINT64_MAX)
		needs |= MAYFLY_ABSENT_SIZES;
	if (q->min_lifetime_ns > 0 || q->max_lifetime_ns < INT64_MAX)
		needs |= MAYFLY_ABSENT_LIFETIMES;
	return needs & mayfly_trace_info(trace)->absent;
}

bool query_choose(struct query_state *s, const struct mayfly_trace *trace,
		  const struct mayfly_query *query)
{
	s->trace = trace;
	s->query = query;
	s->info = mayfly_trace_info(trace);
	s->own_blocks = s->info->inherited && query_of_allocated(query->metric);
	if (query->metric == MAYFLY_SURVIVED) {
		/* Allocated in the window and live at its end. */
		s->own = *query;
		s->own.metric = MAYFLY_LIVE;
		s->own.at_ns = query->to_ns < s->info->duration_ns ? query->to_ns : MAYFLY_AT_END;
		s->query = &s->own;
	}
	s->exact = (s->info->mode == MAYFLY_EXACT && !s->info->thinned) ||
		   (s->info->snapshot_ns && !trace->sum_errors);
	/* A runtime's heap has a rate of its own. */
	s->largest_interval = query_of_ocaml(s) && !query_of_heaps(s, (uint32_t)~MAYFLY_HEAPS_OCAML)
				  ? s->info->ocaml_interval_bytes
			      : query_of_mappings(s->query) && !s->info->thinned
				  ? 0
				  : s->info->interval_bytes;
	query_text(s, ""); /* is number 0 */
	return !s->error && query_filter_nodes(s) && query_filter_threads(s) &&
	       query_prepare_threads(s) && query_prepare_labels(s) && query_prepare_picture(s) &&
	       query_prepare_ending(s);
}

bool query_begin(struct query_state *s, const struct mayfly_trace *trace,
		 const struct mayfly_query *query)
{
	if (!query_valid(query))
		return query_fail(s, MAYFLY_E_RANGE);
	if (mayfly_query_absent(trace, query))
		return query_fail(s, MAYFLY_E_ABSENT);
	if (!query_choose(s, trace, query) || !query_sums_reserve(s, &s->all, 1))
		return false;
	query_sum_clear(s, &s->all, 0);
	return query_sum(s) && !s->error;
}

static bool make_groups(struct query_state *s)
{
	return query_make_groups(s) && (!query_by_node(s->query) || strata_share(s)) && !s->error;
}

struct mayfly_result *query_answer(struct query_state *s, const struct mayfly_trace *trace,
				   const struct mayfly_query *query)
{
	struct mayfly_result *result = NULL;

	if (query_begin(s, trace, query) && make_groups(s))
		result = query_make_result(s);
	if (s->error) {
		mayfly_result_free(result);
		result = NULL;
	}
	return result;
}

/* Drops the rows; names and sums stay. */
static void forget_rows(struct query_state *s)
{
	interner_free(&s->group_key);
	s->group_key = (struct interner){0};
	free(s->group);
	free(s->frame);
	free(s->begin);
	free(s->spot);
	free(s->stack);
	free(s->stack_slot);
	free(s->stack_bits);
	free(s->ranked);
	s->group = NULL;
	s->frame = s->begin = NULL;
	s->spot = s->stack_slot = s->ranked = NULL;
	s->stack = NULL;
	s->stack_bits = NULL;
	s->group_capacity = s->spots = s->spot_capacity = 0;
	s->stacks = s->stack_capacity = s->stack_slots = 0;
	query_sums_free(&s->group_sums);
	query_sums_free(&s->stack_sums);
}

void query_end(struct query_state *s)
{
	forget_rows(s);
	interner_free(&s->text_address);
	free(s->text);
	interner_free(&s->text_content);
	free(s->text_first);
	interner_free(&s->fold_key);
	free(s->fold_answer);
	free(s->node_kept);
	free(s->begins);
	free(s->thread_kept);
	free(s->label_kept);
	free(s->holder_kept);
	free(s->type_kept);
	free(s->thread_row);
	free(s->row_thread);
	free(s->label_slot);
	free(s->label_text);
	query_sums_free(&s->all);
	rank_set_free(&s->ends);
	interner_free(&s->between);
	query_sums_free(&s->sum);
	free(s->sum_at);
	rank_set_free(&s->summed);
	free(s->summed_at);
	tree_way_free(&s->way);
	free(s->shown.head);
	free(s->shown.cell);
	free(s->shown.row_of);
	strata_end(s);
	query_scratch_free(s);
}

int answer_finish(struct query_state *s, void *answer, void *to)
{
	query_end(s);
	if (s->error)
		answer_free(answer);
	else
		memcpy(to, &answer, sizeof(answer));
	return s->error;
}

int query_run_two(const struct mayfly_trace *trace, const struct mayfly_query query[2],
		  struct mayfly_result *result[2])
{
	struct query_state s = {0};

	result[0] = result[1] = NULL;
	if (!query_by_node(&query[0]) || !query_by_node(&query[1]))
		return MAYFLY_E_RANGE;
	result[0] = query_answer(&s, trace, &query[0]);
	if (result[0]) {
		forget_rows(&s);
		s.query = &query[1];
		if (make_groups(&s))
			result[1] = query_make_result(&s);
	}
	query_end(&s);
	if (s.error) {
		mayfly_result_free(result[0]);
		mayfly_result_free(result[1]);
		result[0] = result[1] = NULL;
	}
	return s.error;
}

int query_total(const struct mayfly_trace *trace, const struct mayfly_query *query,
		struct mayfly_estimate *total, int64_t *time_ns)
{
	struct query_state s = {0};

	if (query_begin(&s, trace, query)) {
		struct tally all = query_tally(&s, &s.all, 0);

		*total = tally_estimate(&all, query_unseen(&s, 0, SPREAD_ALL));
		*time_ns = query_answer_time(&s);
	}
	query_end(&s);
	return s.error;
}

int mayfly_query_run(const struct mayfly_trace *trace, const struct mayfly_query *query,
		     struct mayfly_result **result)
{
	struct query_state s = {0};
	struct mayfly_result *answer = query_answer(&s, trace, query);

	query_end(&s);
	if (answer)
		*result = answer;
	return s.error;
}
