/* SPDX-License-Identifier: Apache-2.0 */
/*
 * calls_around.c: the callers and callees of a function: see calls_tree.h.
 *
 *	main > f > g > f > h	callers of f: main, g	callees of f: g, h	each has the block once
 */
#include "query/calls_tree.h"
#include "base/array.h"
#include "query/query.h"

#include <stdlib.h>
#include <string.h>

/* For each group: what the function is to it. */
enum relation { CALLER, CALLEE, RELATIONS };

struct around {
	struct query_state s;
	struct calls_match match;
	uint8_t *is_function; /* group -> 1: it is not, 2: it is; 0: not asked yet */
	size_t asked;
	struct sums sums[RELATIONS]; /* of group g: self at 2 g, total at 2 g + 1 */
	struct sums function;	     /* self, total */
	uint32_t *times[RELATIONS];  /* group -> how often it is on the way as such */
	size_t rooms[RELATIONS], cleared[RELATIONS];
	uint32_t function_times;
	/* For each level of the walk its innermost function, and the caller of that. */
	struct around_level {
		uint32_t leaf, caller;
	} * way;
	size_t way_room;
};

/* Makes room for all groups that there are. */
static bool around_reserve(struct around *a)
{
	struct query_state *s = &a->s;
	size_t groups = s->group_key.count;

	if (!array_reserve_filled(&a->is_function, &a->asked, groups, 1, 0))
		return query_fail(s, MAYFLY_E_MEMORY);
	for (int r = 0; r < RELATIONS; r++) {
		if (!array_reserve_filled(&a->times[r], &a->rooms[r], groups, sizeof(uint32_t),
					  0) ||
		    !query_sums_reserve(s, &a->sums[r], 2 * groups + 2))
			return query_fail(s, MAYFLY_E_MEMORY);
		for (; a->cleared[r] < 2 * groups + 2; a->cleared[r]++)
			query_sum_clear(s, &a->sums[r], a->cleared[r]);
	}
	return true;
}

static bool is_function(struct around *a, uint32_t group)
{
	struct mayfly_place place;

	if (group == NONE)
		return false;
	if (!a->is_function[group]) {
		place = query_place(&a->s, &a->s.group[group]);
		a->is_function[group] = a->match.matches(a->match.context, &place) ? 2 : 1;
	}
	return a->is_function[group] == 2;
}

static void count_call(struct around *a, uint32_t caller, uint32_t group, uint32_t by)
{
	bool of_function = is_function(a, group);

	if (of_function)
		a->function_times += by;
	if (of_function && caller != NONE)
		a->times[CALLER][caller] += by;
	if (is_function(a, caller))
		a->times[CALLEE][group] += by;
}

static void add_self(struct around *a, const struct around_level *l, uint32_t sum)
{
	struct query_state *s = &a->s;

	if (is_function(a, l->leaf)) {
		query_sum_add(s, &a->function, 0, &s->sum, sum);
		if (l->caller != NONE)
			query_sum_add(s, &a->sums[CALLER], 2 * (size_t)l->caller, &s->sum, sum);
	}
	if (is_function(a, l->caller))
		query_sum_add(s, &a->sums[CALLEE], 2 * (size_t)l->leaf, &s->sum, sum);
}

static bool enter_around(struct tree_walk *w)
{
	struct around *a = w->context;
	struct query_state *s = w->s;
	const struct level *l = &w->level[w->depth];
	struct around_level at = {NONE, NONE};
	uint32_t sum = query_summed(s, l->node);

	if (!around_reserve(a) || !array_reserve(&a->way, &a->way_room, w->depth, sizeof(*a->way)))
		return query_fail(s, MAYFLY_E_MEMORY);
	if (w->depth)
		at = a->way[w->depth - 1];
	for (uint32_t i = l->frame->count; i-- > 0;) {
		uint32_t group = s->spot[l->frame->first + i];

		count_call(a, at.leaf, group, 1);
		at = (struct around_level){group, at.leaf};
	}
	a->way[w->depth] = at;
	if (sum == NONE)
		return true;
	if (at.leaf != NONE)
		add_self(a, &at, sum);
	query_sum_add(s, &w->below, w->depth, &s->sum, sum);
	return true;
}

static void leave_around(struct tree_walk *w)
{
	struct around *a = w->context;
	struct query_state *s = w->s;
	const struct frame_spots *f = w->level[w->depth].frame;
	uint32_t above = w->depth ? a->way[w->depth - 1].leaf : NONE;

	for (uint32_t i = 0; i < f->count; i++) {
		uint32_t group = s->spot[f->first + i];
		uint32_t caller = i + 1 < f->count ? s->spot[f->first + i + 1] : above;
		bool of_function = is_function(a, group);

		count_call(a, caller, group, UINT32_MAX); /* one less */
		if (of_function && !a->function_times)
			query_sum_add(s, &a->function, 1, &w->below, w->depth);
		if (of_function && caller != NONE && !a->times[CALLER][caller])
			query_sum_add(s, &a->sums[CALLER], 2 * (size_t)caller + 1, &w->below,
				      w->depth);
		if (is_function(a, caller) && !a->times[CALLEE][group])
			query_sum_add(s, &a->sums[CALLEE], 2 * (size_t)group + 1, &w->below,
				      w->depth);
	}
}

/* ---- pairs of samples that share a stratum ---- */

static void around_share(struct sums *sums, size_t i, const struct strata_pair *pair)
{
	sums->tally[i].shared_bytes += pair->bytes;
	sums->tally[i].shared_blocks += pair->blocks;
}

static uint32_t path_caller(const struct query_path *p, size_t i)
{
	return i + 1 < p->places ? p->place[i + 1] : NONE;
}

/* Counts a pair for a row that is on both paths, once. mark: odd for the second path. */
static void share_row(struct around *a, int relation, uint32_t row, uint64_t *seen, uint64_t mark,
		      const struct strata_pair *pair)
{
	if (mark % 2 == 0) {
		*seen = mark;
	} else if (*seen + 1 == mark) {
		*seen = mark;
		around_share(&a->sums[relation], 2 * (size_t)row + 1, pair);
	}
}

/* seen[relation]: group -> the pair at which it was last seen on the first path. */
static void share_totals(struct around *a, const struct query_path *path,
			 uint64_t *const seen[RELATIONS], uint64_t number,
			 const struct strata_pair *pair)
{
	bool has[2] = {false, false};

	for (int k = 0; k < 2; k++) {
		for (size_t i = 0; i < path[k].places; i++) {
			uint32_t group = path[k].place[i], caller = path_caller(&path[k], i);
			bool of_function = is_function(a, group);
			const uint32_t row[RELATIONS] = {
			    [CALLER] = of_function ? caller : NONE,
			    [CALLEE] = is_function(a, caller) ? group : NONE,
			};

			has[k] |= of_function;
			for (int r = 0; r < RELATIONS; r++) {
				if (row[r] != NONE)
					share_row(a, r, row[r], &seen[r][row[r]],
						  k ? 2 * number + 1 : 2 * number, pair);
			}
		}
	}
	if (has[0] && has[1])
		around_share(&a->function, 1, pair);
}

static void share_selves(struct around *a, const struct query_path *path,
			 const struct strata_pair *pair)
{
	uint32_t leaf[2], caller[2];

	for (int k = 0; k < 2; k++) {
		leaf[k] = path[k].place[0];
		caller[k] = path_caller(&path[k], 0);
	}
	if (is_function(a, leaf[0]) && is_function(a, leaf[1])) {
		around_share(&a->function, 0, pair);
		if (caller[0] == caller[1] && caller[0] != NONE)
			around_share(&a->sums[CALLER], 2 * (size_t)caller[0], pair);
	}
	if (leaf[0] == leaf[1] && is_function(a, caller[0]) && is_function(a, caller[1]))
		around_share(&a->sums[CALLEE], 2 * (size_t)leaf[0], pair);
}

static bool share_around(struct around *a)
{
	struct query_state *s = &a->s;
	struct query_path path[2] = {{0}, {0}};
	uint64_t *seen[RELATIONS], number = 0;
	struct strata_pair pair;

	for (int r = 0; r < RELATIONS; r++)
		seen[r] = query_scratch(s, s->group_key.count + 1, sizeof(*seen[r]));
	for (size_t at = 0; !s->error && strata_next_pair(s, &at, &pair);) {
		if (pair.slot[0] == pair.slot[1])
			continue;
		if (!query_find_path(s, &path[0], pair.slot[0]) ||
		    !query_find_path(s, &path[1], pair.slot[1]))
			break;
		if (path[0].special || path[1].special)
			continue;
		share_totals(a, path, seen, ++number, &pair);
		share_selves(a, path, &pair);
	}
	free(path[0].place);
	free(path[1].place);
	return !s->error;
}

/* ---- the answer ---- */

static bool around_is_empty(const struct tally *t)
{
	return t->seen_blocks == 0 && t->exact_count == 0;
}

static struct mayfly_row around_row(const struct query_state *s, uint32_t group,
				    const struct tally *self, const struct tally *total)
{
	const struct mayfly_place place = query_place(s, &s->group[group]);

	return (struct mayfly_row){
	    .function = place.function,
	    .file = place.file,
	    .module = place.module,
	    .self = tally_estimate(self, query_unseen(s, 0, SPREAD_SELF)),
	    .total = tally_estimate(total, query_unseen(s, 0, SPREAD_TOTAL)),
	};
}

static int compare_around(const void *x, const void *y)
{
	const struct mayfly_row *a = x, *b = y;
	double p = a->total.bytes.estimate, q = b->total.bytes.estimate;
	int order = strcmp(a->function, b->function);

	return p != q ? (p > q ? -1 : 1) : order ? order : strcmp(a->module, b->module);
}

/* The row of an unknown function has a stack of one place: its frame. */
static bool around_name(struct around *a, void *answer, struct mayfly_row *row, uint32_t group)
{
	struct mayfly_place *place;

	if (*row->function)
		return true;
	place = answer_array(&a->s, answer, 1, sizeof(*place));
	if (!place)
		return false;
	*place = query_place(&a->s, &a->s.group[group]);
	row->stack = place;
	row->stack_length = 1;
	return true;
}

static struct mayfly_row *around_rows(struct around *a, void *answer, enum relation relation,
				      size_t *count)
{
	struct query_state *s = &a->s;
	size_t groups = a->cleared[relation] / 2 < s->group_key.count ? a->cleared[relation] / 2
								      : s->group_key.count;
	struct mayfly_row *row = answer_array(s, answer, groups, sizeof(*row));

	*count = 0;
	for (size_t i = 0; row && i < groups; i++) {
		struct tally self = query_tally(s, &a->sums[relation], 2 * i);
		struct tally total = query_tally(s, &a->sums[relation], 2 * i + 1);

		if (around_is_empty(&total))
			continue;
		row[*count] = around_row(s, (uint32_t)i, &self, &total);
		if (!around_name(a, answer, &row[*count], (uint32_t)i))
			return NULL;
		++*count;
	}
	if (row)
		qsort(row, *count, sizeof(*row), compare_around);
	return row;
}

static bool around_function(struct around *a, struct calls_around *answer)
{
	struct query_state *s = &a->s;
	struct tally self = query_tally(s, &a->function, 0),
		     total = query_tally(s, &a->function, 1);
	uint32_t first = NONE;

	for (uint32_t i = (uint32_t)s->group_key.count; i-- > 0;) {
		if (i >= a->asked || a->is_function[i] != 2)
			continue;
		answer->functions++;
		first = i;
	}
	if (first == NONE)
		return true;
	answer->function = around_row(s, first, &self, &total);
	return around_name(a, answer, &answer->function, first);
}

static void put_around(struct around *a, struct calls_around *answer)
{
	struct query_state *s = &a->s;
	struct tally all = query_tally(s, &s->all, 0);

	answer->all = tally_estimate(&all, query_unseen(s, 0, SPREAD_ALL));
	answer->time_ns = query_answer_time(s);
	if (!around_function(a, answer))
		return;
	answer->caller = around_rows(a, answer, CALLER, &answer->callers);
	answer->callee = around_rows(a, answer, CALLEE, &answer->callees);
}

static bool sum_around(struct around *a, const struct mayfly_trace *trace,
		       const struct mayfly_query *query)
{
	struct query_state *s = &a->s;
	struct tree_walk w = {.s = s, .enter = enter_around, .leave = leave_around, .context = a};

	if (!query_begin(s, trace, query) || !query_frames_begin(s) ||
	    !query_sums_reserve(s, &a->function, 2))
		return false;
	query_sum_clear(s, &a->function, 0);
	query_sum_clear(s, &a->function, 1);
	return query_walk(&w) && share_around(a);
}

int calls_around_run(const struct mayfly_trace *trace, const struct mayfly_query *query,
		     struct calls_match match, struct calls_around **around)
{
	struct around a = {.match = match};
	struct mayfly_query by_function = *query;
	struct calls_around *answer = answer_new(&a.s, sizeof(*answer));

	by_function.by = MAYFLY_BY_FUNCTION;
	if (answer && sum_around(&a, trace, &by_function))
		put_around(&a, answer);
	for (int r = 0; r < RELATIONS; r++) {
		query_sums_free(&a.sums[r]);
		free(a.times[r]);
	}
	query_sums_free(&a.function);
	free(a.is_function);
	free(a.way);
	return answer_finish(&a.s, answer, around);
}

void calls_around_free(struct calls_around *around)
{
	answer_free(around);
}
