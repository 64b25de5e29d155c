/* SPDX-License-Identifier: Apache-2.0 */
/* query.c: one question to a trace. query.h says how the answer is found. */
#include "query.h"

#include <stdlib.h>

bool query_fail(struct query_state *s, int error)
{
	if (!s->error)
		s->error = error;
	return false;
}

void *query_zeroed(struct query_state *s, size_t count, size_t bytes)
{
	void *p = calloc(count ? count : 1, bytes);

	if (!p)
		query_fail(s, MAYFLY_E_MEMORY);
	return p;
}

static bool query_valid(const struct mayfly_query *q)
{
	return q->metric <= MAYFLY_TEMPORARY && q->by <= MAYFLY_BY_HEAP &&
	       q->sort <= MAYFLY_SORT_TOTAL;
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

struct mayfly_result *query_answer(struct query_state *s, const struct mayfly_trace *trace,
				   const struct mayfly_query *query)
{
	struct mayfly_result *result = NULL;

	s->trace = trace;
	s->query = query;
	s->info = mayfly_trace_info(trace);
	s->exact = (s->info->mode == MAYFLY_EXACT && !s->info->thinned) || s->info->snapshot_ns;
	s->largest_interval = s->info->interval_bytes;
	if (!query_valid(query)) {
		query_fail(s, MAYFLY_E_RANGE);
		return NULL;
	}
	query_text(s, ""); /* is number 0 */
	if (!s->error && query_filter_nodes(s) && query_filter_threads(s) && query_sum(s) &&
	    query_make_groups(s) && !s->error)
		result = query_make_result(s);
	if (s->error) {
		mayfly_result_free(result);
		result = NULL;
	}
	return result;
}

void query_end(struct query_state *s)
{
	numbering_free(&s->text_address);
	numbering_free(&s->group_key);
	free(s->text);
	free(s->text_hash);
	free(s->frame);
	free(s->spot);
	free(s->node_kept);
	free(s->thread_kept);
	free(s->slot_sum);
	free(s->sum);
	free(s->sum_slot);
	free(s->branch);
	free(s->subtree);
	free(s->stack_sums);
	free(s->group);
	free(s->stack);
	free(s->stack_slot);
	free(s->ranked);
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
