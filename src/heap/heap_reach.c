/* SPDX-License-Identifier: Apache-2.0 */
/* What is reached from where: see heap_reach.h. */
#include "heap/heap_reach.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/rank_set.h"

/* A walk in depth without a stack: the way back is by `parent`, and `next` is the edge at which each node
 * goes on. */
struct walk_down {
	const struct heap_edges *e;
	struct heap_reach *r;
	uint32_t *next; /* of each number */
};

static uint32_t give_number(struct walk_down *k, uint32_t node, uint32_t parent)
{
	struct heap_reach *r = k->r;
	uint32_t number = (uint32_t)r->count++;

	r->number[node] = number;
	r->node[number] = node;
	r->parent[number] = parent;
	k->next[number] = node < k->e->nodes ? k->e->from[node] : 0;
	return number;
}

/* Numbers all that a node leads to and that has no number yet. */
static void walk_from(struct walk_down *k, uint32_t node, uint32_t parent)
{
	const struct heap_edges *e = k->e;
	struct heap_reach *r = k->r;
	uint32_t top = parent, at = give_number(k, node, parent);

	while (at != top) {
		uint32_t to;

		if (k->next[at] == e->from[r->node[at] + 1]) {
			at = r->parent[at];
			continue;
		}
		to = e->to[k->next[at]++] & ~HEAP_INSIDE;
		if (!r->number[to])
			at = give_number(k, to, at);
	}
}

/* ---- lost blocks ---- */

/*
 * The order in which a walk over all lost blocks has finished with them. In the opposite order, a block
 * that no earlier one leads to is lost directly: it heads what leads to it, if anything does.
 */
static uint32_t *finished_order(struct walk_down *k, size_t lost, size_t *count)
{
	const struct heap_edges *e = k->e;
	const struct heap_reach *r = k->r;
	uint32_t *order = malloc((lost + 1) * sizeof(*order)), *stack = NULL;
	size_t depth = 0, stack_capacity = 0;
	struct rank_set seen = {0};
	bool good = order && rank_set_begin(&seen, e->blocks + 1);

	*count = 0;
	for (uint32_t first = 0; good && first < e->blocks; first++) {
		if (r->number[first] || !rank_set_take(&seen, first))
			continue;
		/* Pairs: a block, and the edge at which it goes on. */
		good = array_reserve(&stack, &stack_capacity, 1, sizeof(*stack));
		if (!good)
			break;
		stack[0] = first;
		stack[1] = e->from[first];
		for (depth = 2; depth && good;) {
			uint32_t at = stack[depth - 2], to;

			if (stack[depth - 1] == e->from[at + 1]) {
				order[(*count)++] = at;
				depth -= 2;
				continue;
			}
			to = e->to[stack[depth - 1]++] & ~HEAP_INSIDE;
			if (r->number[to] || !rank_set_take(&seen, to))
				continue;
			good = array_reserve(&stack, &stack_capacity, depth + 1, sizeof(*stack));
			if (!good)
				break;
			stack[depth++] = to;
			stack[depth++] = e->from[to];
		}
	}
	rank_set_free(&seen);
	free(stack);
	if (good)
		return order;
	free(order);
	return NULL;
}

static bool number_lost(struct walk_down *k, uint32_t holder, struct heap_problem *problem)
{
	size_t lost = 0, count;
	uint32_t *order;
	uint32_t parent;

	for (size_t i = 0; i < k->e->blocks; i++)
		lost += !k->r->number[i];
	order = finished_order(k, lost, &count);
	if (!order)
		return heap_fail(problem, HEAP_NO_MEMORY, 0);
	parent = give_number(k, holder, 0);
	for (size_t i = count; i--;)
		if (!k->r->number[order[i]])
			walk_from(k, order[i], parent);
	free(order);
	return true;
}

/* ---- all ranks ---- */

bool heap_reach_find(const struct heap_edges *e, const struct heap_question *q,
		     struct heap_reach *r, struct heap_problem *problem)
{
	size_t all = e->nodes + 2;
	struct walk_down k = {.e = e, .r = r};
	bool good;

	*r = (struct heap_reach){0};
	r->number = calloc(all, sizeof(*r->number));
	r->node = malloc(all * sizeof(*r->node));
	r->parent = malloc(all * sizeof(*r->parent));
	k.next = malloc(all * sizeof(*k.next));
	good =
	    (r->number && r->node && r->parent && k.next) || heap_fail(problem, HEAP_NO_MEMORY, 0);
	if (good) {
		r->node[0] = HEAP_NONE;
		r->parent[0] = 0;
		r->count = 1;
		for (unsigned int rank = 0; rank < HEAP_RANKS; rank++) {
			for (uint32_t i = 0; i < q->holders; i++)
				if (q->rank[i] == rank)
					walk_from(&k, (uint32_t)e->blocks + i, 0);
			r->end[rank] = (uint32_t)r->count;
		}
		r->lost = (uint32_t)r->count;
		good = number_lost(&k, (uint32_t)e->nodes, problem);
	}
	free(k.next);
	return good;
}

void heap_reach_free(struct heap_reach *r)
{
	free(r->number);
	free(r->node);
	free(r->parent);
	*r = (struct heap_reach){0};
}
