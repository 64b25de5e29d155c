/* SPDX-License-Identifier: Apache-2.0 */
/*
 * strata_rows.c: from pairs of samples at two nodes of the tree to the rows that count both.
 *
 *	main - parse - grow	a pair of one sample here
 *	     \ load  - grow	and one here: `grow`, self and total, and main's total count both
 */
#include "query/query.h"

#include <stdlib.h>

#include "base/array.h"

static bool push_place(struct query_state *s, struct query_path *p, uint32_t place)
{
	if (place == NONE || !array_reserve(&p->place, &p->room, p->places, sizeof(*p->place)))
		return query_fail(s, MAYFLY_E_MEMORY);
	p->place[p->places++] = place;
	return true;
}

/* The places as the row of the node has them. */
static bool fold_path(struct query_state *s, struct query_path *p, uint32_t node)
{
	struct stack_cells c = {0};
	uint32_t top;
	bool done = stack_cells_of(s, &c, node, &top);

	p->places = 0;
	for (; done && top != NONE; top = c.cell[top].before)
		done = push_place(s, p, c.cell[top].place);
	stack_cells_free(&c);
	return done;
}

/* As tree_enter() and special_place() see the node. */
bool query_find_path(struct query_state *s, struct query_path *p, uint32_t node)
{
	bool has_code = false, by_stack = s->query->by == MAYFLY_BY_STACK;
	struct kept_place kept = {0};

	p->places = 0;
	for (uint32_t n = node; n; n = s->trace->node[n].parent) {
		const struct frame_spots *f = query_node_frame(s, n);

		if (!f)
			return false;
		kept.hides |= f->hides;
		if (fold_replaces(f->folded, kept.folded, true)) {
			kept.folded = f->folded;
			kept.frame = s->trace->node[n].frame;
			kept.location = f->folded_place;
		}
		has_code |= f->has_code;
		for (uint32_t i = 0; i < f->count; i++)
			if (!push_place(s, p, s->spot[f->first + i]))
				return false;
	}
	p->special = p->places == 0 || (by_stack && !has_code && kept.hides);
	if (!p->special)
		return !by_stack || !s->query->fold_recursion || fold_path(s, p, node);
	p->places = 0;
	return push_place(s, p, query_special_group(s, &kept));
}

static void share(struct sums *sums, size_t i, const struct strata_pair *pair)
{
	sums->tally[i].shared_bytes += pair->bytes;
	sums->tally[i].shared_blocks += pair->blocks;
}

/* Rows are groups. seen: group -> the pair at which it was last seen on the first path. */
static void share_groups(struct query_state *s, const struct query_path *path, uint64_t *seen,
			 uint64_t number, const struct strata_pair *pair)
{
	for (size_t i = 0; i < path[0].places; i++)
		seen[path[0].place[i]] = 2 * number;
	for (size_t i = 0; i < path[1].places; i++) {
		uint32_t group = path[1].place[i];

		if (seen[group] != 2 * number)
			continue;
		seen[group]++; /* each group once, also under recursion */
		share(&s->group_sums, 2 * (size_t)group + 1, pair);
	}
	if (path[0].place[0] == path[1].place[0])
		share(&s->group_sums, 2 * (size_t)path[0].place[0], pair);
}

/* Rows are stacks: a row's total counts both when both stacks continue it. */
static void share_stacks(struct query_state *s, const struct query_path *path,
			 const struct strata_pair *pair)
{
	size_t a = path[0].places, b = path[1].places;
	uint64_t hash = 0;

	while (a && b && path[0].place[a - 1] == path[1].place[b - 1]) {
		uint32_t stack;

		hash = query_push(hash, path[0].place[--a]);
		b--;
		stack = query_find_stack(s, hash);
		if (stack == NONE)
			continue;
		share(&s->stack_sums, 2 * (size_t)stack + 1, pair);
		if (!a && !b)
			share(&s->stack_sums, 2 * (size_t)stack, pair);
	}
}

bool strata_share(struct query_state *s)
{
	struct query_path path[2] = {{0}, {0}};
	struct strata_pair pair;
	uint64_t *seen = NULL, number = 0;
	size_t room = 0;

	for (size_t at = 0; strata_next_pair(s, &at, &pair);) {
		if (pair.slot[0] == pair.slot[1])
			continue; /* it is in the slot's own sum */
		if (!query_find_path(s, &path[0], pair.slot[0]) ||
		    !query_find_path(s, &path[1], pair.slot[1]))
			break;
		number++;
		if (path[0].special != path[1].special)
			continue;
		if (s->query->by == MAYFLY_BY_STACK) {
			share_stacks(s, path, &pair);
			continue;
		}
		if (!array_reserve_filled(&seen, &room, s->group_key.count, sizeof(*seen), 0)) {
			query_fail(s, MAYFLY_E_MEMORY);
			break;
		}
		share_groups(s, path, seen, number, &pair);
	}
	free(path[0].place);
	free(path[1].place);
	free(seen);
	return !s->error;
}
