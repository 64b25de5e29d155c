/* SPDX-License-Identifier: Apache-2.0 */
/* query_nodes.c: an answer by node of the calling-context tree, without names. */
#include "query/query.h"

static void add_node(struct query_state *s, struct mayfly_node_sums *a, struct mayfly_node_sum *sum,
		     uint32_t node)
{
	uint32_t at = query_summed(s, node);
	struct tally t;

	if (at == NONE)
		return;
	t = query_tally(s, &s->sum, at);
	if (t.seen_blocks == 0 && t.exact_count == 0)
		return;
	sum[a->count++] = (struct mayfly_node_sum){
	    .node = node,
	    .self = tally_estimate(&t, query_unseen(s, 0, SPREAD_SELF)),
	};
}

static void make_sums(struct query_state *s, struct mayfly_node_sums *a)
{
	struct mayfly_node_sum *sum = answer_array(s, a, s->summed.count, sizeof(*sum));
	struct tally all = query_tally(s, &s->all, 0);

	for (size_t node = 0; sum && node < query_slots(s); node++)
		add_node(s, a, sum, (uint32_t)node);
	a->sum = sum;
	a->time_ns = query_answer_time(s);
	a->total = tally_estimate(&all, query_unseen(s, 0, SPREAD_ALL));
}

int mayfly_node_sums_run(const struct mayfly_trace *trace, const struct mayfly_query *query,
			 struct mayfly_node_sums **sums)
{
	struct query_state s = {0};
	struct mayfly_query by_node = *query;
	struct mayfly_node_sums *a = answer_new(&s, sizeof(*a));

	by_node.by = MAYFLY_BY_FUNCTION;
	by_node.hide = by_node.show = (struct mayfly_match){0};
	by_node.fold = (struct mayfly_fold){0};
	if (a && query_begin(&s, trace, &by_node))
		make_sums(&s, a);
	return answer_finish(&s, a, sums);
}

void mayfly_node_sums_free(struct mayfly_node_sums *sums)
{
	answer_free(sums);
}
