/* SPDX-License-Identifier: Apache-2.0 */
/* query_shown.c: which rows of an answer each slot counts for; query.h draws it. */
#include "query/query.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

static uint32_t shown_row_of(const struct shown *r, uint32_t source)
{
	return source < r->sources ? r->row_of[source] : NONE;
}

/* Prepends a row to a list unless it is not shown or already on it. False: out of memory. */
static bool extend(struct query_state *s, struct shown *r, uint32_t *list, uint32_t row)
{
	if (row == NONE)
		return true;
	for (uint32_t i = *list; i != NONE; i = r->cell[i].next) {
		if (r->cell[i].row == row)
			return true;
	}
	if (r->cells >= NONE || !array_reserve(&r->cell, &r->room, r->cells, sizeof(*r->cell)))
		return query_fail(s, MAYFLY_E_MEMORY);
	r->cell[r->cells] = (struct shown_cell){row, *list};
	*list = (uint32_t)r->cells++;
	return true;
}

/* way: for each level of the walk the list of the shown rows from the root to it. */
struct lists {
	struct shown *r;
	uint32_t *way;
	size_t room;
};

/* The list of a node: its parent's list with the rows of its own places in front. */
static bool list_way(struct tree_walk *w, struct lists *lists)
{
	struct query_state *s = w->s;
	const struct level *l = &w->level[w->depth];
	const struct frame_spots *f = l->frame;
	uint32_t list = w->depth ? lists->way[w->depth - 1] : NONE;

	if (!array_reserve(&lists->way, &lists->room, w->depth, sizeof(*lists->way)))
		return query_fail(s, MAYFLY_E_MEMORY);
	for (size_t i = l->first_cell; i < w->cells.count; i++)
		if (!extend(s, lists->r, &list,
			    shown_row_of(lists->r, query_find_stack(s, w->cells.cell[i].hash))))
			return false;
	for (uint32_t i = s->query->by == MAYFLY_BY_STACK ? 0 : f->count; i-- > 0;)
		if (!extend(s, lists->r, &list, shown_row_of(lists->r, s->spot[f->first + i])))
			return false;
	lists->way[w->depth] = list;
	return true;
}

static bool list_node(struct tree_walk *w)
{
	struct lists *lists = w->context;
	uint32_t source, list;
	bool special, totals = w->s->query->sort == MAYFLY_SORT_TOTAL;

	if ((totals && !list_way(w, lists)) || !query_own(w, &source, &special))
		return false;
	list = totals && !special ? lists->way[w->depth] : shown_row_of(lists->r, source);
	if (list != NONE)
		lists->r->head[w->level[w->depth].node] = list;
	return true;
}

static bool list_nodes(struct query_state *s, struct shown *shown)
{
	struct lists lists = {.r = shown};
	struct tree_walk w = {.s = s, .whole = true, .enter = list_node, .context = &lists};
	bool done = query_walk(&w);

	free(lists.way);
	return done;
}

/* Slots that are not nodes. */
static bool list_others(struct query_state *s, struct shown *shown)
{
	for (size_t i = 0; i < s->slots; i++) {
		uint32_t group, row;

		if (query_summed(s, (uint32_t)i) == NONE)
			continue;
		group = query_slot_group(s, (uint32_t)i);
		if (group == NONE)
			return false;
		row = shown_row_of(shown, group);
		if (row != NONE)
			shown->head[i] = row;
	}
	return true;
}

static bool make_shown(struct query_state *s, size_t rows)
{
	struct shown *shown = &s->shown;

	shown->rows = rows;
	shown->sources = s->query->by == MAYFLY_BY_STACK ? s->stacks : s->group_key.count;
	shown->row_of = malloc((shown->sources + 1) * sizeof(*shown->row_of));
	shown->head = malloc((s->slots + 1) * sizeof(*shown->head));
	if (!shown->row_of || !shown->head)
		return query_fail(s, MAYFLY_E_MEMORY);
	memset(shown->row_of, 0xff, (shown->sources + 1) * sizeof(*shown->row_of));
	for (size_t i = 0; i <= rows; i++) {
		uint32_t alone = NONE;

		if (i < rows)
			shown->row_of[s->ranked[i]] = (uint32_t)i;
		if (!extend(s, shown, &alone, (uint32_t)i))
			return false;
	}
	for (size_t i = 0; i < s->slots; i++)
		shown->head[i] = (uint32_t)rows;
	return query_by_node(s->query) ? list_nodes(s, shown) : list_others(s, shown);
}

struct mayfly_result *query_shown(struct query_state *s, void *answer,
				  const struct mayfly_trace *trace,
				  const struct mayfly_query *query, size_t rows)
{
	struct mayfly_result *result = answer ? query_answer(s, trace, query) : NULL;

	if (!result)
		return NULL;
	answer_adopt(answer, result);
	return make_shown(s, rows < result->rows ? rows : result->rows) ? result : NULL;
}

/* ---- the row of all others ---- */

static struct mayfly_figure rest_of(double whole, double part)
{
	double rest = whole > part ? whole - part : 0;

	return (struct mayfly_figure){.estimate = rest, .low = rest, .high = rest};
}

struct mayfly_row *query_shown_rows(struct query_state *s, void *answer,
				    const struct mayfly_result *result)
{
	size_t rows = s->shown.rows;
	struct mayfly_row *row = answer_array(s, answer, rows + 1, sizeof(*row)), *rest;
	double bytes = 0, blocks = 0;
	uint64_t samples = 0;

	if (!row)
		return NULL;
	for (size_t i = 0; i < rows; i++) {
		row[i] = result->row[i];
		bytes += result->row[i].self.bytes.estimate;
		blocks += result->row[i].self.blocks.estimate;
		samples += result->row[i].self.samples;
	}
	rest = &row[rows];
	rest->function = rest->file = rest->module = "";
	rest->self.bytes = rest_of(result->total.bytes.estimate, bytes);
	rest->self.blocks = rest_of(result->total.blocks.estimate, blocks);
	rest->self.samples = result->total.samples > samples ? result->total.samples - samples : 0;
	rest->total = rest->self;
	return row;
}
