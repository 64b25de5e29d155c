/* SPDX-License-Identifier: Apache-2.0 */
/*
 * calls_grow.c: the trace's tree with its frames merged: see calls_tree.h.
 *
 *	node of the trace     frame		    raw nodes
 *	7: main+0x12	   -> main		 -> main
 *	8: main+0x30	   -> main		 -> main, the same
 *	9: run+0x4	   -> run, inlined in go -> go, run
 */
#include "query/calls_parts.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

bool calls_sum(struct calls_side *side, const struct mayfly_trace *trace,
	       const struct mayfly_query *query, bool by_line)
{
	struct query_state *s = &side->s;

	s->own = *query;
	s->own.by = by_line ? MAYFLY_BY_LINE : MAYFLY_BY_FUNCTION;
	s->marks = true;
	return query_begin(s, trace, &s->own) && query_frames_begin(s);
}

bool raw_calls_begin(struct raw_calls *raw, struct query_state *s)
{
	if (!array_reserve(&raw->node, &raw->room, 0, sizeof(*raw->node)))
		return query_fail(s, MAYFLY_E_MEMORY);
	raw->node[raw->nodes++] = (struct raw_call){.parent = NONE, .name = NONE};
	return true;
}

void raw_calls_free(struct raw_calls *raw)
{
	free(raw->node);
	interner_free(&raw->child);
	interner_free(&raw->folded);
	free(raw->folds_to);
}

/* ---- names ---- */

/* Traces of two builds of a program: addresses say nothing, compilers number clones. */
static uint32_t shared_name(struct calls_side *side, uint32_t group)
{
	struct query_state *s = &side->s;
	const struct group *g = &s->group[group];
	struct mayfly_place place = query_place(s, g);
	struct key key = diff_function_key(&place);
	struct calls_names *names = side->shared;
	uint32_t name;
	bool is_new;

	if (!array_reserve(&names->name, &names->room, names->text.count, sizeof(*names->name)) ||
	    (name = interner_add(&names->text, key, &is_new)) == NONE) {
		query_fail(s, MAYFLY_E_MEMORY);
		return NONE;
	}
	if (is_new)
		names->name[name] = (struct calls_name){side->number, group};
	return name;
}

uint32_t calls_name(struct calls_side *side, uint32_t group)
{
	if (!side->shared || group == NONE)
		return group;
	if (!array_reserve_filled(&side->name_of, &side->name_room, group, sizeof(*side->name_of),
				  0)) {
		query_fail(&side->s, MAYFLY_E_MEMORY);
		return NONE;
	}
	if (!side->name_of[group])
		side->name_of[group] = shared_name(side, group) + 1;
	return side->name_of[group] - 1;
}

/* ---- growing ---- */

/* way: for each level of the walk its raw node. */
struct growing {
	struct raw_calls *raw;
	struct calls_side *side;
	uint32_t *way;
	size_t room;
	bool fold;
};

static uint32_t child_of(struct growing *g, uint32_t parent, uint32_t name)
{
	struct raw_calls *raw = g->raw;
	uint32_t number;
	bool is_new;

	/* The leading 1: a key of zeroes is not valid. */
	number = interner_add(&raw->child, (struct key){{1, parent, name}}, &is_new);
	if (number == NONE || number == NONE - 1 ||
	    !array_reserve(&raw->node, &raw->room, raw->nodes, sizeof(*raw->node))) {
		query_fail(&g->side->s, MAYFLY_E_MEMORY);
		return NONE;
	}
	if (is_new)
		raw->node[raw->nodes++] = (struct raw_call){parent, name};
	return number + 1;
}

/* The node of the name on the path to `at`, or a child of it. Each pair is searched for once. */
static uint32_t folded_child(struct growing *g, uint32_t at, uint32_t name)
{
	struct raw_calls *raw = g->raw;
	uint32_t number, found;
	bool is_new;

	number = interner_add(&raw->folded, (struct key){{1, at, name}}, &is_new);
	if (number == NONE ||
	    !array_reserve(&raw->folds_to, &raw->folds_room, number, sizeof(*raw->folds_to))) {
		query_fail(&g->side->s, MAYFLY_E_MEMORY);
		return NONE;
	}
	if (!is_new)
		return raw->folds_to[number];
	for (found = at; found && raw->node[found].name != name;)
		found = raw->node[found].parent;
	if (!found)
		found = child_of(g, at, name);
	raw->folds_to[number] = found;
	return found;
}

static uint32_t grow_step(struct growing *g, uint32_t at, uint32_t group)
{
	uint32_t name = calls_name(g->side, group);

	if (name == NONE || at == NONE)
		return NONE;
	return g->fold ? folded_child(g, at, name) : child_of(g, at, name);
}

static bool enter_raw(struct tree_walk *w)
{
	struct query_state *s = w->s;
	struct growing *g = w->context;
	const struct level *l = &w->level[w->depth];
	uint32_t at = w->depth ? g->way[w->depth - 1] : 0;

	if (!array_reserve(&g->way, &g->room, w->depth, sizeof(*g->way)))
		return query_fail(s, MAYFLY_E_MEMORY);
	for (uint32_t i = l->frame->count; i-- > 0;)
		at = grow_step(g, at, s->spot[l->frame->first + i]);
	g->way[w->depth] = at;
	if (at != NONE && rank_set_has(&s->summed, l->node)) {
		if (!l->has_code)
			at = grow_step(g, at, query_special_group(s, &l->kept));
		g->side->raw[rank_set_rank(&s->summed, l->node)] = at;
	}
	return at != NONE;
}

bool calls_grow(struct raw_calls *raw, struct calls_side *side, bool fold)
{
	struct query_state *s = &side->s;
	struct growing g = {.raw = raw, .side = side, .fold = fold};
	struct tree_walk w = {.s = s, .enter = enter_raw, .context = &g};
	bool done;

	side->raw = query_scratch(s, s->summed.count, sizeof(*side->raw));
	done = side->raw && query_walk(&w);
	free(g.way);
	return done && !s->error;
}

/* ---- what nodes weigh ---- */

bool calls_weigh(const struct raw_calls *raw, struct calls_side *side, bool blocks)
{
	struct query_state *s = &side->s;

	side->weight = query_scratch(s, raw->nodes, sizeof(*side->weight));
	side->total = query_scratch(s, raw->nodes, sizeof(*side->total));
	side->filled = query_scratch(s, raw->nodes, sizeof(*side->filled));
	if (s->error)
		return false;
	for (size_t i = 0; i < s->summed.count; i++) {
		struct tally t = query_tally(s, &s->sum, s->summed_at[i]);
		uint32_t node = side->raw[i];

		side->weight[node] +=
		    blocks ? t.exact_blocks + t.sampled_blocks : t.exact_bytes + t.sampled_bytes;
		/* When the peak is asked for, a node may have blocks at other moments only. */
		side->filled[node] |= t.seen_blocks > 0 || t.exact_count > 0;
	}
	for (size_t i = raw->nodes; i-- > 0;) {
		side->total[i] += side->weight[i];
		if (i == 0)
			break;
		side->total[raw->node[i].parent] += side->total[i];
		side->filled[raw->node[i].parent] |= side->filled[i];
	}
	return true;
}
