/* SPDX-License-Identifier: Apache-2.0 */
/* query_tree.c: from sums per slot to groups or printed stacks; query.h draws it. */
#include "query.h"

#include <stdlib.h>
#include <string.h>

/* ---- from nodes to groups ---- */

/* Marks the nodes on the way from the root to all nodes that have a sum. */
static void mark_nodes(struct query_state *s, uint32_t *branch_of)
{
	branch_of[0] = 1;
	for (size_t i = 0; i < s->sums; i++) {
		for (uint32_t n = s->sum_slot[i]; !branch_of[n];) {
			uint32_t parent = mayfly_trace_node(s->trace, n).parent;

			branch_of[n] = 1;
			n = parent < n ? parent : 0;
		}
	}
}

/* Numbers the marked nodes. */
static void number_branches(struct query_state *s, uint32_t *branch_of)
{
	s->branches = 0;
	for (size_t n = 0; n < s->slots; n++) {
		struct mayfly_node node;
		struct branch *b;

		if (!branch_of[n])
			continue;
		node = mayfly_trace_node(s->trace, n);
		b = &s->branch[s->branches];
		branch_of[n] = (uint32_t)s->branches++;
		*b = (struct branch){.node = (uint32_t)n, .frame = n > 0 ? node.frame : NONE};
		b->parent = n > 0 ? branch_of[node.parent < n ? node.parent : 0] : NONE;
		b->first_child = b->next_sibling = b->leaf = b->subtree = NONE;
	}
}

static bool make_branches(struct query_state *s)
{
	uint32_t *branch_of = query_zeroed(s, s->slots, sizeof(*branch_of));

	if (!branch_of)
		return false;
	if (s->whole_tree)
		memset(branch_of, 1, s->slots * sizeof(*branch_of));
	else
		mark_nodes(s, branch_of);
	for (size_t n = 0; n < s->slots; n++)
		s->branches += branch_of[n] != 0;
	s->branch = malloc(s->branches * sizeof(*s->branch));
	if (s->branch)
		number_branches(s, branch_of);
	free(branch_of);
	return s->branch || query_fail(s, MAYFLY_E_MEMORY);
}

static const struct tally *branch_sum(const struct query_state *s, const struct branch *b)
{
	uint32_t sum = s->slot_sum[b->node];

	return sum > 0 ? &s->sum[sum - 1] : NULL;
}

static struct tally *new_subtree(struct query_state *s, struct branch *b, const struct tally *from)
{
	b->subtree = (uint32_t)s->subtrees;
	b->shares = false;
	s->subtree[s->subtrees] = *from;
	return &s->subtree[s->subtrees++];
}

/* Adds a child's subtree to its parent's. Long chains of nodes share one sum. */
static void hand_up(struct query_state *s, struct branch *parent, const struct branch *child)
{
	const struct tally *from;

	if (child->subtree == NONE)
		return;
	from = &s->subtree[child->subtree];
	if (parent->subtree == NONE) {
		parent->subtree = child->subtree;
		parent->shares = true;
		return;
	}
	if (parent->shares)
		new_subtree(s, parent, &s->subtree[parent->subtree]);
	tally_merge(&s->subtree[parent->subtree], from);
}

/* Sums of subtrees, and lists of children. A tree has fewer forks than ends, and ends have sums. */
static bool link_branches(struct query_state *s)
{
	s->subtree = malloc((2 * s->sums + 1) * sizeof(*s->subtree));
	if (!s->subtree)
		return query_fail(s, MAYFLY_E_MEMORY);
	for (size_t i = 0; i < s->branches; i++) {
		const struct tally *own = branch_sum(s, &s->branch[i]);

		if (own) {
			new_subtree(s, &s->branch[i], own);
			tally_merge(&s->all, own);
		}
	}
	for (size_t i = s->branches; i-- > 1;) {
		struct branch *b = &s->branch[i], *parent = &s->branch[b->parent];

		hand_up(s, parent, b);
		b->next_sibling = parent->first_child;
		parent->first_child = (uint32_t)i;
	}
	return true;
}

static bool enter(struct query_state *s, struct branch *b)
{
	const struct frame_spots *f = query_frame(s, b->frame);
	const struct tally *own = branch_sum(s, b);

	if (!f)
		return false;
	if (b->parent != NONE) {
		b->leaf = s->branch[b->parent].leaf;
		b->hides = s->branch[b->parent].hides;
	}
	b->hides |= f->hides;
	if (f->count > 0)
		b->leaf = s->spot[f->first];
	for (uint32_t i = 0; i < f->count; i++) {
		struct group *g = &s->group[s->spot[f->first + i]];

		if (g->depth++ == 0 && b->subtree != NONE)
			tally_merge(&g->total, &s->subtree[b->subtree]);
	}
	if (own) {
		uint32_t leaf = b->leaf == NONE ? query_special_group(s, b->hides) : b->leaf;

		if (leaf == NONE)
			return false;
		tally_merge(&s->group[leaf].self, own);
		if (b->leaf == NONE)
			tally_merge(&s->group[leaf].total, own);
	}
	return true;
}

static void leave(struct query_state *s, const struct branch *b)
{
	const struct frame_spots *f = query_frame(s, b->frame);

	for (uint32_t i = 0; f && i < f->count; i++)
		s->group[s->spot[f->first + i]].depth--;
}

/* Depth first, by the links: a deep tree needs no deep recursion. */
static bool walk_branches(struct query_state *s)
{
	uint32_t at = 0;

	for (;;) {
		if (!enter(s, &s->branch[at]))
			return false;
		if (s->branch[at].first_child != NONE) {
			at = s->branch[at].first_child;
			continue;
		}
		for (;;) {
			leave(s, &s->branch[at]);
			if (at == 0)
				return true;
			if (s->branch[at].next_sibling != NONE)
				break;
			at = s->branch[at].parent;
		}
		at = s->branch[at].next_sibling;
	}
}

/* ---- from nodes to printed stacks ---- */

static size_t stack_place(const struct query_state *s, uint32_t parent, uint32_t place)
{
	return (size_t)numbering_mix((uint64_t)parent << 32 | place) & (s->stack_slots - 1);
}

static bool grow_stacks(struct query_state *s, size_t count)
{
	size_t slots = s->stack_slots ? s->stack_slots : 256;
	uint32_t *slot;

	while (slots <= count + count / 2)
		slots *= 2;
	slot = calloc(slots, sizeof(*slot));
	if (!slot)
		return query_fail(s, MAYFLY_E_MEMORY);
	free(s->stack_slot);
	s->stack_slot = slot;
	s->stack_slots = slots;
	for (size_t i = 0; i < s->stacks; i++) {
		size_t at = stack_place(s, s->stack[i].parent, s->stack[i].place);

		while (slot[at])
			at = (at + 1) & (slots - 1);
		slot[at] = (uint32_t)i + 1;
	}
	return true;
}

/* The stack that has one place more towards the leaf. */
static uint32_t push_place(struct query_state *s, uint32_t parent, uint32_t place)
{
	size_t at;

	if (s->stacks + s->stacks / 2 >= s->stack_slots && !grow_stacks(s, s->stacks + 1))
		return NONE;
	for (at = stack_place(s, parent, place); s->stack_slot[at];
	     at = (at + 1) & (s->stack_slots - 1)) {
		const struct stack *stack = &s->stack[s->stack_slot[at] - 1];

		if (stack->parent == parent && stack->place == place)
			return s->stack_slot[at] - 1;
	}
	if (s->stacks >= NONE - 1 ||
	    !array_reserve(&s->stack, &s->stack_capacity, s->stacks, sizeof(*s->stack))) {
		query_fail(s, MAYFLY_E_MEMORY);
		return NONE;
	}
	s->stack[s->stacks] =
	    (struct stack){parent, place, (parent == NONE ? 0 : s->stack[parent].length) + 1, NONE};
	s->stack_slot[at] = (uint32_t)++s->stacks;
	return (uint32_t)s->stacks - 1;
}

static bool add_to_stack(struct query_state *s, uint32_t number, const struct tally *sum)
{
	struct stack *stack = &s->stack[number];

	if (stack->row == NONE) {
		if (!array_reserve(&s->stack_sums, &s->stack_rows_capacity, s->stack_rows,
				   sizeof(*s->stack_sums)))
			return query_fail(s, MAYFLY_E_MEMORY);
		s->stack_sums[s->stack_rows] = (struct stack_sums){.stack = number};
		stack->row = (uint32_t)s->stack_rows++;
	}
	tally_merge(&s->stack_sums[stack->row].self, sum);
	return true;
}

/* A stack that has lost all its code to `hide` is one place, marks or not. */
uint32_t query_own_stack(struct query_state *s, const struct branch *b)
{
	uint32_t place;

	if (b->has_code || (b->leaf != NONE && !b->hides))
		return b->leaf;
	place = query_special_group(s, b->hides);
	return place == NONE ? NONE : push_place(s, NONE, place);
}

static bool stack_branch(struct query_state *s, struct branch *b)
{
	const struct frame_spots *f = query_frame(s, b->frame);
	const struct tally *own = branch_sum(s, b);
	uint32_t stack;

	if (!f)
		return false;
	if (b->parent != NONE) {
		b->leaf = s->branch[b->parent].leaf;
		b->hides = s->branch[b->parent].hides;
		b->has_code = s->branch[b->parent].has_code;
	}
	b->hides |= f->hides;
	for (uint32_t i = f->count; i-- > 0;) {
		uint32_t place = s->spot[f->first + i];

		b->has_code |= s->group[place].kind == MAYFLY_FRAME_CODE;
		b->leaf = push_place(s, b->leaf, place);
		if (b->leaf == NONE)
			return false;
	}
	if (!own)
		return true;
	stack = query_own_stack(s, b);
	return stack != NONE && add_to_stack(s, stack, own);
}

/* Adds the sums of longer stacks to those of the stacks that they go on from. */
static bool total_stacks(struct query_state *s)
{
	size_t count = s->stacks;
	uint32_t *nearest = malloc((count + 1) * sizeof(*nearest)); /* row, of it or below it */

	if (!nearest)
		return query_fail(s, MAYFLY_E_MEMORY);
	/* A stack is longer than its parent, which therefore has the lower number. */
	for (size_t i = 0; i < count; i++) {
		uint32_t parent = s->stack[i].parent, row = s->stack[i].row;

		nearest[i] = row != NONE ? row : parent != NONE ? nearest[parent] : NONE;
	}
	for (size_t i = count; i-- > 0;) {
		const struct stack *stack = &s->stack[i];
		struct stack_sums *sums;

		if (stack->row == NONE)
			continue;
		sums = &s->stack_sums[stack->row];
		tally_merge(&sums->total, &sums->self);
		if (stack->parent != NONE && nearest[stack->parent] != NONE)
			tally_merge(&s->stack_sums[nearest[stack->parent]].total, &sums->total);
	}
	free(nearest);
	return true;
}

static bool make_stacks(struct query_state *s)
{
	for (size_t i = 0; i < s->sums; i++)
		tally_merge(&s->all, &s->sum[i]);
	for (size_t i = 0; i < s->branches; i++) {
		if (!stack_branch(s, &s->branch[i]))
			return query_fail(s, MAYFLY_E_MEMORY);
	}
	return total_stacks(s);
}

/* Threads and classes: a slot is a row. */
static bool make_slot_groups(struct query_state *s)
{
	for (size_t i = 0; i < s->sums; i++) {
		uint32_t group = query_slot_group(s, s->sum_slot[i]);

		if (group == NONE)
			return false;
		tally_merge(&s->group[group].self, &s->sum[i]);
		s->group[group].total = s->group[group].self;
		tally_merge(&s->all, &s->sum[i]);
	}
	return true;
}

bool query_make_groups(struct query_state *s)
{
	if (!query_by_node(s->query))
		return make_slot_groups(s);
	if (!query_frames_begin(s) || !make_branches(s))
		return false;
	if (s->sums == 0)
		return true;
	if (s->query->by == MAYFLY_BY_STACK)
		return make_stacks(s);
	return link_branches(s) && walk_branches(s);
}

bool query_whole_tree(struct query_state *s)
{
	if (!query_by_node(s->query))
		return true;
	free(s->branch);
	free(s->subtree);
	s->branch = NULL;
	s->subtree = NULL;
	s->branches = s->subtrees = 0;
	s->whole_tree = true;
	if (!make_branches(s))
		return false;
	if (s->query->by == MAYFLY_BY_STACK)
		return make_stacks(s);
	return link_branches(s) && walk_branches(s);
}
