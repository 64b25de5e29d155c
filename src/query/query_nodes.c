/* SPDX-License-Identifier: Apache-2.0 */
/* query_nodes.c: an answer by node of the calling-context tree, without names. */
#include "query/query.h"

#include <stdlib.h>

struct node_sums {
	struct mayfly_node_sums sums; /* must be first: the caller's pointer is to it */
	struct mayfly_node_sum *sum;
};

static void add_node(struct query_state *s, struct node_sums *n, uint32_t node)
{
	uint32_t at = query_summed(s, node);
	struct tally t;

	if (at == NONE)
		return;
	t = query_tally(s, &s->sum, at);
	if (t.seen_blocks == 0 && t.exact_count == 0)
		return;
	n->sum[n->sums.count++] = (struct mayfly_node_sum){
	    .node = node,
	    .self = tally_estimate(&t, query_unseen_interval(s, 0)),
	};
}

static struct node_sums *make_sums(struct query_state *s)
{
	struct node_sums *n = query_zeroed(s, 1, sizeof(*n));
	struct tally all = query_tally(s, &s->all, 0);

	if (!n)
		return NULL;
	n->sum = query_zeroed(s, s->summed.count, sizeof(*n->sum));
	for (size_t node = 0; n->sum && node < query_slots(s); node++)
		add_node(s, n, (uint32_t)node);
	n->sums.sum = n->sum;
	n->sums.time_ns = query_answer_time(s);
	n->sums.total = tally_estimate(&all, query_unseen_interval(s, 0));
	return n;
}

int mayfly_node_sums_run(const struct mayfly_trace *trace, const struct mayfly_query *query,
			 struct mayfly_node_sums **sums)
{
	struct query_state s = {0};
	struct mayfly_query by_node = *query;
	struct node_sums *n = NULL;

	by_node.by = MAYFLY_BY_FUNCTION;
	by_node.hide = (struct mayfly_match){0};
	if (query_begin(&s, trace, &by_node))
		n = make_sums(&s);
	if (!s.error)
		*sums = &n->sums;
	else if (n)
		mayfly_node_sums_free(&n->sums);
	query_end(&s);
	return s.error;
}

void mayfly_node_sums_free(struct mayfly_node_sums *sums)
{
	struct node_sums *n = (struct node_sums *)sums;

	if (!n)
		return;
	free(n->sum);
	free(n);
}
