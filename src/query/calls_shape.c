/* SPDX-License-Identifier: Apache-2.0 */
/*
 * calls_shape.c: what of the merged tree is shown: pruned, or turned around.
 *
 * Turning around: each raw node with blocks of its own is a path that begins there and goes up to
 * the root. Paths that begin alike share nodes. This goes level by level, so that what is pruned,
 * or is beyond the limit of steps, is never made:
 *
 *	paths           level 1        level 2         level 3
 *	grow parse main \ grow --------- parse -------- main
 *	grow parse run  /   		       \------- run
 *	copy load main  - copy --------- load --------- main
 */
#include "query/calls_parts.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

/* A program that is recursive through many levels, each of which allocates, has paths that are
 * together much longer than its tree is large. */
#define MOST_STEPS (1u << 26)
#define MOST_CALLS (1u << 22)

void calls_shape_free(struct calls_shape *shape)
{
	free(shape->node);
	free(shape->of);
}

static uint32_t shape_add(struct calls_shape *shape, struct query_state *s, uint32_t parent,
			  uint32_t name)
{
	uint32_t depth = parent == NONE ? 0 : shape->node[parent].depth + 1;

	if (shape->nodes >= NONE ||
	    !array_reserve(&shape->node, &shape->room, shape->nodes, sizeof(*shape->node))) {
		query_fail(s, MAYFLY_E_MEMORY);
		return NONE;
	}
	shape->node[shape->nodes] =
	    (struct shape_call){.parent = parent, .name = name, .rest = NONE, .depth = depth};
	return (uint32_t)shape->nodes++;
}

/* The child that stands for the ones that are not shown. */
static uint32_t shape_rest(struct calls_shape *shape, struct query_state *s, uint32_t parent)
{
	uint32_t rest = shape->node[parent].rest;

	if (rest == NONE) {
		rest = shape_add(shape, s, parent, NONE);
		shape->node[parent].rest = rest;
	}
	return rest;
}

/* Whether what has these totals is shown. */
static bool is_large(const struct calls_side *side, size_t sides, const double *total, double least)
{
	for (size_t i = 0; i < sides; i++)
		if (total[i] >= least * side[i].total[0])
			return true;
	return false;
}

/* ---- from the top ---- */

static bool prune(struct calls_shape *shape, const struct raw_calls *raw, struct calls_side *side,
		  size_t sides, double least)
{
	struct query_state *s = &side[0].s;

	shape->of[0] = shape_add(shape, s, NONE, NONE);
	for (uint32_t i = 1; i < raw->nodes && !s->error; i++) {
		uint32_t parent = shape->of[raw->node[i].parent], at = parent;
		double total[CALLS_SIDES] = {0};
		bool filled = false;

		for (size_t k = 0; k < sides; k++) {
			total[k] = side[k].total[i];
			filled |= side[k].filled[i];
		}
		if (parent && shape->node[parent].name == NONE) {
			shape->of[i] = parent; /* within one that is not shown */
			continue;
		}
		if (is_large(side, sides, total, least)) {
			at = shape_add(shape, s, parent, raw->node[i].name);
		} else {
			at = shape_rest(shape, s, parent);
			if (at != NONE)
				shape->node[at].smaller += filled;
		}
		shape->of[i] = at;
	}
	return !s->error;
}

/* ---- turned around ---- */

struct path_item {
	uint32_t at, from; /* raw nodes: where the path is, and where it began */
};

/* A caller of a shape node, while its paths are sorted by their callers. */
struct turn_child {
	uint32_t name, node;
	size_t paths, next; /* how many; where the next one is put */
	double total[CALLS_SIDES];
	bool filled;
};

struct turning {
	struct calls_shape *shape;
	const struct raw_calls *raw;
	struct calls_side *side;
	size_t sides;
	double least;
	/* The paths of a level and of the next one, by the shape node at which they are. */
	struct path_item *item[2];
	uint64_t steps;
	struct turn_child *child;
	size_t children, room;
	uint32_t *child_of; /* name -> child + 1 */
	size_t names;
	struct turn_level {
		uint32_t node;
		size_t first, paths;
	} * level[2]; /* the shape nodes of a level */
	size_t level_room[2], count[2];
};

static struct query_state *turn_state(const struct turning *t)
{
	return &t->side[0].s;
}

/* Counts the paths of a node by their next caller; the ones that end there are its own. */
static bool count_callers(struct turning *t, const struct turn_level *l)
{
	t->children = 0;
	for (size_t i = l->first; i < l->first + l->paths; i++) {
		const struct path_item *p = &t->item[0][i];
		uint32_t name = t->raw->node[p->at].name;
		struct turn_child *c;

		if (p->at == 0) {
			t->shape->of[p->from] = l->node;
			continue;
		}
		if (!array_reserve_filled(&t->child_of, &t->names, name, sizeof(*t->child_of), 0) ||
		    !array_reserve(&t->child, &t->room, t->children, sizeof(*t->child)))
			return query_fail(turn_state(t), MAYFLY_E_MEMORY);
		if (!t->child_of[name]) {
			t->child[t->children] = (struct turn_child){.name = name};
			t->child_of[name] = (uint32_t)++t->children;
		}
		c = &t->child[t->child_of[name] - 1];
		c->paths++;
		for (size_t k = 0; k < t->sides; k++) {
			c->total[k] += t->side[k].weight[p->from];
			c->filled |= t->side[k].filled[p->from];
		}
	}
	return true;
}

/* Makes the nodes of the callers, and says where their paths go. */
static bool place_callers(struct turning *t, uint32_t node, size_t *used)
{
	struct query_state *s = turn_state(t);
	bool cut = t->steps > MOST_STEPS || t->shape->nodes > MOST_CALLS;

	for (size_t i = 0; i < t->children; i++) {
		struct turn_child *c = &t->child[i];

		t->child_of[c->name] = 0;
		if (cut || !is_large(t->side, t->sides, c->total, t->least)) {
			c->node = shape_rest(t->shape, s, node);
			if (c->node == NONE)
				return false;
			t->shape->node[c->node].smaller += !cut && c->filled;
			c->next = SIZE_MAX;
			continue;
		}
		c->node = shape_add(t->shape, s, node, c->name);
		if (c->node == NONE)
			return false;
		if (!ARRAY_ADD(t->level[1], t->level_room[1], t->count[1],
			       (struct turn_level){c->node, *used, c->paths}))
			return query_fail(s, MAYFLY_E_MEMORY);
		c->next = *used;
		*used += c->paths;
	}
	return true;
}

static void move_paths(struct turning *t, const struct turn_level *l)
{
	for (size_t i = 0; i < t->children; i++)
		t->child_of[t->child[i].name] = (uint32_t)i + 1;
	for (size_t i = l->first; i < l->first + l->paths; i++) {
		const struct path_item *p = &t->item[0][i];
		struct turn_child *c;

		if (p->at == 0)
			continue;
		c = &t->child[t->child_of[t->raw->node[p->at].name] - 1];
		if (c->next == SIZE_MAX)
			t->shape->of[p->from] = c->node;
		else
			t->item[1][c->next++] =
			    (struct path_item){t->raw->node[p->at].parent, p->from};
	}
	for (size_t i = 0; i < t->children; i++)
		t->child_of[t->child[i].name] = 0;
}

static bool turn_level(struct turning *t)
{
	size_t used = 0;

	t->count[1] = 0;
	for (size_t i = 0; i < t->count[0]; i++) {
		struct turn_level l = t->level[0][i];

		t->steps += l.paths;
		if (!count_callers(t, &l) || !place_callers(t, l.node, &used))
			return false;
		move_paths(t, &l);
	}
	return true;
}

static void swap_levels(struct turning *t)
{
	struct path_item *item = t->item[0];
	struct turn_level *level = t->level[0];
	size_t room = t->level_room[0];

	t->item[0] = t->item[1];
	t->item[1] = item;
	t->level[0] = t->level[1];
	t->level[1] = level;
	t->level_room[0] = t->level_room[1];
	t->level_room[1] = room;
	t->count[0] = t->count[1];
}

/* A path for each raw node with blocks. */
static bool begin_paths(struct turning *t)
{
	struct query_state *s = turn_state(t);
	size_t paths = 0;
	uint8_t *has = query_zeroed(s, t->raw->nodes, 1);
	uint32_t root = shape_add(t->shape, s, NONE, NONE);

	for (size_t k = 0; has && k < t->sides; k++)
		for (size_t i = 0; i < t->side[k].s.summed.count; i++)
			has[t->side[k].raw[i]] = 1;
	for (size_t i = 0; has && i < t->raw->nodes; i++)
		paths += has[i];
	for (int k = 0; k < 2; k++)
		t->item[k] = query_zeroed(s, paths, sizeof(*t->item[k]));
	if (!array_reserve(&t->level[0], &t->level_room[0], 0, sizeof(*t->level[0])))
		query_fail(s, MAYFLY_E_MEMORY);
	if (!s->error) {
		t->level[0][t->count[0]++] = (struct turn_level){root, 0, paths};
		paths = 0;
		for (uint32_t i = 0; i < t->raw->nodes; i++)
			if (has[i])
				t->item[0][paths++] = (struct path_item){i, i};
	}
	free(has);
	return !s->error;
}

static bool turn(struct turning *t)
{
	bool done = begin_paths(t);

	while (done && t->count[0]) {
		done = turn_level(t);
		swap_levels(t);
	}
	for (int k = 0; k < 2; k++) {
		free(t->item[k]);
		free(t->level[k]);
	}
	free(t->child);
	free(t->child_of);
	return done;
}

bool calls_make_shape(struct calls_shape *shape, const struct raw_calls *raw,
		      struct calls_side *side, size_t sides, const struct calls_options *options)
{
	struct turning t = {
	    .shape = shape, .raw = raw, .side = side, .sides = sides, .least = options->least};

	shape->of = query_zeroed(&side[0].s, raw->nodes, sizeof(*shape->of));
	if (!shape->of)
		return false;
	return options->invert ? turn(&t) : prune(shape, raw, side, sides, options->least);
}
