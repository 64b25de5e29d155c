/* SPDX-License-Identifier: Apache-2.0 */
/*
 * calls_sums.c: the sums of the nodes of a call tree, and their order.
 *
 * Totals are made from the leaves up, in the reverse of the order in which nodes are printed: then
 * one sum for each level is enough.
 *
 *	node	   level  sum of level 1   of level 2
 *	all	     0	  main + start
 *	  main	     1	  main		   parse + load
 *	    parse    2			   parse
 *	    load     2			   load
 *	  start	     1	  start
 */
#include "query/calls_parts.h"

#include <stdlib.h>
#include <string.h>

/* ---- sums ---- */

static bool add_sum(struct calls_side *side, uint32_t node, size_t *sums, uint32_t from)
{
	struct query_state *s = &side->s;

	if (!side->sum_at[node]) {
		if (!query_sums_reserve(s, &side->sum, *sums + 1))
			return false;
		query_sum_clear(s, &side->sum, *sums);
		side->sum_at[node] = (uint32_t)++ * sums;
	}
	query_sum_add(s, &side->sum, side->sum_at[node] - 1, &s->sum, from);
	return true;
}

/* The node of a node of the trace; NONE: it has no blocks. */
static uint32_t node_of(const struct calls_side *side, const struct calls_shape *shape,
			uint32_t slot)
{
	if (!rank_set_has(&side->s.summed, slot))
		return NONE;
	return shape->of[side->raw[rank_set_rank(&side->s.summed, slot)]];
}

/* Two samples of which one stratum has both: they share what their common callers' sums have. */
static void share_pair(struct calls_side *side, const struct calls_shape *shape,
		       const struct strata_pair *pair)
{
	uint32_t a = node_of(side, shape, pair->slot[0]), b = node_of(side, shape, pair->slot[1]);

	if (a == NONE || b == NONE)
		return;
	if (a == b) {
		struct tally *t = &side->sum.tally[side->sum_at[a] - 1];

		t->shared_bytes += pair->bytes;
		t->shared_blocks += pair->blocks;
		return;
	}
	while (a != b) {
		if (shape->node[a].depth >= shape->node[b].depth)
			a = shape->node[a].parent;
		else
			b = shape->node[b].parent;
	}
	side->share[a].bytes += pair->bytes;
	side->share[a].blocks += pair->blocks;
}

static bool share_pairs(struct calls_side *side, const struct calls_shape *shape)
{
	struct query_state *s = &side->s;
	struct strata_pair pair;

	side->share = query_scratch(s, s->strata ? shape->nodes : 0, sizeof(*side->share));
	for (size_t at = 0; side->share && strata_next_pair(s, &at, &pair);)
		if (pair.slot[0] != pair.slot[1]) /* else it is in the slot's own sum */
			share_pair(side, shape, &pair);
	return !s->error;
}

bool calls_collect(struct calls_side *side, const struct raw_calls *raw,
		   const struct calls_shape *shape)
{
	struct query_state *s = &side->s;
	size_t sums = 0;

	side->sum_at = query_scratch(s, shape->nodes, sizeof(*side->sum_at));
	side->width = query_scratch(s, shape->nodes, sizeof(*side->width));
	side->shown = query_scratch(s, shape->nodes, sizeof(*side->shown));
	for (size_t i = 0; !s->error && i < s->summed.count; i++) {
		uint32_t node = shape->of[side->raw[i]];
		struct tally t = query_tally(s, &s->sum, s->summed_at[i]);

		add_sum(side, node, &sums, s->summed_at[i]);
		side->shown[node] |= t.seen_blocks > 0 || t.exact_count > 0;
	}
	for (size_t i = 0; !s->error && i < raw->nodes; i++)
		side->width[shape->of[i]] += side->weight[i];
	for (size_t i = shape->nodes; !s->error && i-- > 1;) {
		side->width[shape->node[i].parent] += side->width[i];
		side->shown[shape->node[i].parent] |= side->shown[i];
	}
	return !s->error && share_pairs(side, shape);
}

/* ---- order ---- */

struct ordered {
	double width[CALLS_SIDES];
	uint32_t node;
	bool rest;
};

/* The widest first, those that are not shown last. */
static int compare_ordered(const void *x, const void *y)
{
	const struct ordered *a = x, *b = y;

	if (a->rest != b->rest)
		return a->rest ? 1 : -1;
	for (int i = CALLS_SIDES; i-- > 0;)
		if (a->width[i] != b->width[i])
			return a->width[i] > b->width[i] ? -1 : 1;
	return a->node < b->node ? -1 : a->node > b->node;
}

/* Orders nodes by parent: the callees of node i are child[first[i]] up to child[first[i + 1]]. */
static void list_children(const struct calls_shape *shape, const struct calls_side *side,
			  size_t sides, struct ordered *child, uint32_t *first)
{
	for (size_t i = 1; i < shape->nodes; i++)
		first[shape->node[i].parent]++;
	for (size_t i = 0, before = 0; i <= shape->nodes; i++) {
		before += first[i];
		first[i] = (uint32_t)before;
	}
	for (size_t i = shape->nodes; i-- > 1;) {
		struct ordered *o = &child[--first[shape->node[i].parent]];

		*o = (struct ordered){.node = (uint32_t)i, .rest = shape->node[i].name == NONE};
		for (size_t k = 0; k < sides; k++)
			o->width[k] = side[k].width[i];
	}
	for (size_t i = 0; i < shape->nodes; i++)
		if (first[i + 1] - first[i] > 1)
			qsort(&child[first[i]], first[i + 1] - first[i], sizeof(*child),
			      compare_ordered);
}

uint32_t *calls_order(const struct calls_shape *shape, struct calls_side *side, size_t sides)
{
	struct query_state *s = &side[0].s;
	size_t nodes = shape->nodes, waiting = 0, count = 0;
	uint32_t *order = query_scratch(s, nodes, sizeof(*order));
	struct ordered *child = query_zeroed(s, nodes, sizeof(*child));
	uint32_t *first = query_zeroed(s, nodes + 1, sizeof(*first));
	uint32_t *wait = query_zeroed(s, nodes, sizeof(*wait));

	if (order && child && first && wait) {
		list_children(shape, side, sides, child, first);
		wait[waiting++] = 0;
	}
	while (waiting) {
		uint32_t node = wait[--waiting];

		order[count++] = node;
		for (uint32_t i = first[node + 1]; i-- > first[node];)
			wait[waiting++] = child[i].node;
	}
	free(child);
	free(first);
	free(wait);
	return s->error ? NULL : order;
}

/* ---- figures ---- */

static void set_figure(const struct query_state *s, const struct calls_figures *to, size_t i,
		       const struct sums *sums, size_t at, bool is_total, bool is_all)
{
	struct tally t = query_tally(s, sums, at);
	enum spread_of of = is_all ? SPREAD_ALL : is_total ? SPREAD_TOTAL : SPREAD_SELF;

	(is_total ? to->brief_total : to->brief_self)[i] = tally_brief(&t);
	if (to->self)
		(is_total ? to->total : to->self)[i] = tally_estimate(&t, query_unseen(s, 0, of));
}

/* below: [k] is the sum of the nodes at depth k whose caller has not come yet. */
static void figures_of(struct calls_side *side, const struct calls_shape *shape, uint32_t node,
		       size_t i, struct sums *below, const struct calls_figures *to)
{
	struct query_state *s = &side->s;
	size_t depth = shape->node[node].depth;

	if (side->sum_at[node])
		query_sum_add(s, below, depth + 1, &side->sum, side->sum_at[node] - 1);
	if (s->strata) {
		below->tally[depth + 1].shared_bytes += side->share[node].bytes;
		below->tally[depth + 1].shared_blocks += side->share[node].blocks;
	}
	set_figure(s, to, i, below, depth + 1, true, node == 0);
	query_sum_add(s, below, depth, below, depth + 1);
	query_sum_clear(s, below, depth + 1);
	if (side->sum_at[node])
		set_figure(s, to, i, &side->sum, side->sum_at[node] - 1, false, false);
	else
		set_figure(s, to, i, below, depth + 1, false, false);
}

bool calls_figures(struct calls_side *side, const struct calls_shape *shape, const uint32_t *order,
		   const struct calls_figures *to)
{
	struct query_state *s = &side->s;
	struct sums below = {0};
	uint32_t deepest = 0;
	bool done;

	for (size_t i = 0; i < shape->nodes; i++)
		if (deepest < shape->node[i].depth)
			deepest = shape->node[i].depth;
	done = query_sums_reserve(s, &below, (size_t)deepest + 2);
	for (size_t i = 0; done && i < (size_t)deepest + 2; i++)
		query_sum_clear(s, &below, i);
	for (size_t i = shape->nodes; done && i-- > 0;)
		figures_of(side, shape, order[i], i, &below, to);
	query_sums_free(&below);
	return done;
}
