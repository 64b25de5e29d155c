/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stack_cells.c: printed stacks while they grow from the root, and recursion folded in them.
 *
 * A run of places that calls itself stands once, with the places of its last turn, so that what
 * recursion allocates at a thousand depths is one row:
 *
 *	main  visit:10  visit:11  visit:10  alloc	->	main  visit:10  alloc
 *	main  a  b  a  b  alloc				->	main  a  b  alloc
 *
 * Each place is a cell that leads to the one before it. Folding begins with the cell before the
 * first turn, which stays as it is for other branches of the tree.
 */
#include "query/query.h"

#include <stdlib.h>

#include "base/array.h"

#define LONGEST_CYCLE 8 /* places that are looked at as one turn */

/* Both places are in one function, whatever the line. */
static bool same_function(const struct query_state *s, uint32_t a, uint32_t b)
{
	const struct group *x = &s->group[a], *y = &s->group[b];

	return a == b ||
	       (x->kind == MAYFLY_FRAME_CODE && y->kind == MAYFLY_FRAME_CODE && !x->by_address &&
		!y->by_address && x->function == y->function && x->module == y->module);
}

/* Whether the last `length` cells are of the same functions as those before them, of which `first` is
 * the last. *before: the cell before both. */
static bool turns(const struct query_state *s, const struct stack_cells *c, uint32_t top,
		  uint32_t first, size_t length, uint32_t *before)
{
	uint32_t last = top;

	for (size_t i = 0; i < length; i++) {
		if (first == NONE || !same_function(s, c->cell[last].place, c->cell[first].place))
			return false;
		last = c->cell[last].before;
		first = c->cell[first].before;
	}
	*before = first;
	return true;
}

static bool append(struct query_state *s, struct stack_cells *c, uint32_t *top, uint32_t place,
		   bool recursive)
{
	uint32_t before = *top;
	bool empty = before == NONE;

	if (!array_reserve(&c->cell, &c->room, c->count, sizeof(*c->cell)))
		return query_fail(s, MAYFLY_E_MEMORY);
	c->cell[c->count] = (struct stack_cell){
	    .hash = query_push(empty ? 0 : c->cell[before].hash, place),
	    .before = before,
	    .place = place,
	    .recursive = recursive,
	    .recurs = recursive || (!empty && c->cell[before].recurs),
	};
	*top = (uint32_t)c->count++;
	return true;
}

bool stack_cells_push(struct query_state *s, struct stack_cells *c, uint32_t *top, uint32_t place)
{
	uint32_t turn[LONGEST_CYCLE], before, first;

	if (!append(s, c, top, place, false))
		return false;
	first = *top;
	for (size_t length = 1; s->query->fold_recursion && length <= LONGEST_CYCLE; length++) {
		uint32_t at = *top;

		first = c->cell[first].before;
		if (first == NONE)
			return true;
		if (!turns(s, c, *top, first, length, &before))
			continue;
		for (size_t i = 0; i < length; i++, at = c->cell[at].before)
			turn[i] = c->cell[at].place;
		*top = before;
		for (size_t i = length; i-- > 0;)
			if (!append(s, c, top, turn[i], i == 0))
				return false;
		return true;
	}
	return true;
}

static bool push_node(struct query_state *s, struct stack_cells *c, uint32_t *top, uint32_t node)
{
	const struct frame_spots *f = query_node_frame(s, node);

	for (uint32_t i = f ? f->count : 0; i-- > 0;)
		if (!stack_cells_push(s, c, top, s->spot[f->first + i]))
			return false;
	return f != NULL;
}

bool stack_cells_of(struct query_state *s, struct stack_cells *c, uint32_t node, uint32_t *top)
{
	size_t depth = 0;

	c->count = 0;
	*top = NONE;
	for (uint32_t n = node; n; n = s->trace->node[n].parent) {
		if (!ARRAY_ADD(c->node, c->nodes, depth, n))
			return query_fail(s, MAYFLY_E_MEMORY);
	}
	while (depth)
		if (!push_node(s, c, top, c->node[--depth]))
			return false;
	return true;
}

size_t stack_cells_length(const struct stack_cells *c, uint32_t top)
{
	size_t length = 0;

	for (; top != NONE; top = c->cell[top].before)
		length++;
	return length;
}

void stack_cells_free(struct stack_cells *c)
{
	free(c->cell);
	free(c->node);
	*c = (struct stack_cells){0};
}
