/* SPDX-License-Identifier: Apache-2.0 */
/* The calling-context tree of functions: see call_tree.h. */
#include "convert/export/call_tree.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/interner.h"

#define NEEDED	   1u /* flag: blocks come from the node or its descendants */
#define SHOWS_CODE 2u /* flag: some code is shown between the root and the node */

struct making {
	struct call_tree *tree;
	struct shown_stacks *stacks;
	struct interner children; /* number + 1: the node */
	uint32_t *of;		  /* node of the trace -> node of this tree */
	uint8_t *flags;		  /* of the trace's nodes */
	bool by_file;
};

static uint32_t child_of(struct making *m, uint32_t parent, const struct shown_line *line,
			 uint32_t module)
{
	/* The leading 1 keeps it from being all zero, which is not a valid key. */
	struct key key = {{1, parent, line->name, m->by_file ? line->file : 0}};
	struct call_tree *t = m->tree;
	uint32_t number;
	bool is_new;

	if (!array_reserve(&t->node, &t->capacity, t->count, sizeof(*t->node)))
		return CALL_NONE;
	number = interner_add(&m->children, key, &is_new);
	if (number == INTERNER_NONE)
		return CALL_NONE;
	if (is_new)
		t->node[t->count++] = (struct call_node){
		    .parent = parent, .name = line->name, .file = line->file, .module = module};
	return number + 1;
}

/* Descends by the lines of a frame, outermost first. */
static uint32_t step_down(struct making *m, uint32_t at, uint32_t frame, uint32_t module)
{
	const struct shown_frame *f = &m->stacks->frame[frame];

	for (uint32_t i = f->count; i > 0 && at != CALL_NONE; i--)
		at = child_of(m, at, &m->stacks->line[f->first + i - 1], module);
	return at;
}

static void mark_needed(struct making *m, struct stack_sums *sums)
{
	const struct mayfly_trace *trace = m->stacks->trace;
	struct stack_sum sum;

	stack_sums_rewind(sums);
	while (stack_sums_next(sums, &sum))
		m->flags[sum.node] |= NEEDED;
	for (size_t i = m->stacks->info->nodes; i-- > 1;) {
		uint32_t parent = mayfly_trace_node(trace, i).parent;

		if (m->flags[i] & NEEDED && parent < i)
			m->flags[parent] |= NEEDED;
	}
}

static bool place_nodes(struct making *m)
{
	const struct mayfly_info *info = m->stacks->info;

	for (size_t i = 1; i < info->nodes; i++) {
		struct mayfly_node n = mayfly_trace_node(m->stacks->trace, i);
		const struct mayfly_frame *frame = mayfly_trace_frame(m->stacks->trace, n.frame);
		const struct shown_frame *shown;
		uint32_t index;

		if (!(m->flags[i] & NEEDED) || n.parent >= i || !frame)
			continue;
		index = shown_node(m->stacks, (uint32_t)i);
		if (index == SHOWN_NOTHING)
			continue;
		shown = &m->stacks->frame[index];
		m->flags[i] |= m->flags[n.parent] & SHOWS_CODE;
		if (shown->count && frame->kind == MAYFLY_FRAME_CODE)
			m->flags[i] |= SHOWS_CODE;
		m->of[i] = step_down(m, m->of[n.parent], index, frame->module);
		if (m->of[i] == CALL_NONE)
			return false;
	}
	return true;
}

static bool add_sums(struct making *m, struct stack_sums *sums)
{
	struct stack_sum sum;

	stack_sums_rewind(sums);
	while (stack_sums_next(sums, &sum)) {
		uint32_t at = m->of[sum.node];
		struct call_node *node;

		if (!(m->flags[sum.node] & SHOWS_CODE))
			at = step_down(m, at, shown_instead(m->stacks, sum.node), UINT32_MAX);
		if (at == CALL_NONE)
			return false;
		node = &m->tree->node[at];
		for (int i = 0; i < STACK_COLUMNS; i++) {
			node->self[CALL_BYTES(i)] += sum.of[i]->bytes.estimate;
			node->self[CALL_BLOCKS(i)] += sum.of[i]->blocks.estimate;
		}
	}
	return true;
}

int call_tree_make(struct call_tree *t, struct shown_stacks *s, struct stack_sums *sums,
		   bool by_file)
{
	struct making m = {.tree = t, .stacks = s, .by_file = by_file};
	size_t nodes = s->info->nodes + 1;
	bool made = false;

	*t = (struct call_tree){0};
	m.of = calloc(nodes, sizeof(*m.of));
	m.flags = calloc(nodes, 1);
	if (m.of && m.flags && array_reserve(&t->node, &t->capacity, 0, sizeof(*t->node))) {
		t->node[t->count++] = (struct call_node){.parent = CALL_NONE, .module = UINT32_MAX};
		mark_needed(&m, sums);
		made = place_nodes(&m) && add_sums(&m, sums);
	}
	free(m.of);
	free(m.flags);
	interner_free(&m.children);
	return made ? 0 : MAYFLY_E_MEMORY;
}

void call_tree_free(struct call_tree *t)
{
	free(t->node);
	free(t->total);
	*t = (struct call_tree){0};
}

/* ---- totals and order ---- */

struct ranked {
	double total;
	uint32_t node, parent;
};

/* By parent, then smallest first: each node is prepended to its siblings, so the largest ends up
 * first. */
static int in_order(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;

	if (x->parent != y->parent)
		return x->parent < y->parent ? -1 : 1;
	if (x->total != y->total)
		return x->total < y->total ? -1 : 1;
	return x->node < y->node ? 1 : x->node > y->node ? -1 : 0;
}

/* For each node the value of its whole subtree; the caller frees it. NULL: out of memory. */
static double *subtree_totals(const struct call_tree *t, int value)
{
	double *total = malloc(t->count * sizeof(*total));

	if (!total)
		return NULL;
	for (size_t i = 0; i < t->count; i++)
		total[i] = t->node[i].self[value];
	for (size_t i = t->count; i-- > 1;)
		total[t->node[i].parent] += total[i];
	return total;
}

/* Prepends each node to its siblings so far. */
static void link_nodes(struct call_tree *t, const struct ranked *ranked, size_t count)
{
	for (size_t i = 0; i < t->count; i++)
		t->node[i].child = t->node[i].sibling = CALL_NONE;
	for (size_t i = 0; i < count; i++) {
		struct call_node *node = &t->node[ranked[i].node];

		node->sibling = t->node[node->parent].child;
		t->node[node->parent].child = ranked[i].node;
	}
}

int call_tree_sort(struct call_tree *t, int value)
{
	struct ranked *ranked = malloc(t->count * sizeof(*ranked));
	double *total = subtree_totals(t, value);
	size_t count = 0;

	free(t->total);
	t->total = total;
	if (ranked && total) {
		for (size_t i = 1; i < t->count; i++)
			if (total[i] > 0)
				ranked[count++] =
				    (struct ranked){total[i], (uint32_t)i, t->node[i].parent};
		qsort(ranked, count, sizeof(*ranked), in_order);
		link_nodes(t, ranked, count);
	}
	free(ranked);
	return ranked && total ? 0 : MAYFLY_E_MEMORY;
}

uint32_t call_tree_next(const struct call_tree *t, uint32_t node, size_t *left)
{
	*left = 0;
	if (t->node[node].child != CALL_NONE)
		return t->node[node].child;
	while (node > 0) {
		++*left;
		if (t->node[node].sibling != CALL_NONE)
			return t->node[node].sibling;
		node = t->node[node].parent;
	}
	return CALL_NONE;
}
