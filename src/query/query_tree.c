/* SPDX-License-Identifier: Apache-2.0 */
/*
 * query_tree.c: from sums per slot to groups or printed stacks; query.h has a drawing.
 *
 * A walk visits the tree depth first, chain by chain (reader.h). It needs the nodes of each chain
 * down to the last one that has a sum or is the start of a needed chain:
 *
 *	chain 1:  1 - 2 - 3 - 4 - 5       5 has no sum and nothing below: 1 to 4 are needed
 *	                  |   |
 *	chain 2:          |   6 - 7	  chains by where they start: 3: 3, 8  4: 2
 *	chain 3:          8 - 9
 *	chain 8:          30
 *
 * It goes down a chain to its end, and on the way back visits the chains that start at each node.
 * So its state is an array indexed by depth.
 */
#include "query/query.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

/* ---- walking the tree ---- */

/* A chain on the way from the root to the current node. */
struct step {
	uint32_t chain, node; /* node: its last one on the way */
	uint32_t next, end;   /* in routes.order: chains from that node still to visit */
};

/* Chain 0 is the root alone; chain k + 1 is chain k of the trace. */
struct routes {
	size_t chains;
	uint32_t *last;		/* chain -> its last needed node, or 0 */
	struct rank_set starts; /* nodes from which needed chains start ... */
	uint32_t *begin;	/* [rank]: the first of these chains, in order */
	uint32_t *order;
	struct step *step;
	size_t steps, depth; /* capacities of step and of tree_walk.level */
};

static uint32_t first_node(const struct query_state *s, size_t chain)
{
	return chain < 2 ? (uint32_t)chain : s->trace->chain_end[chain - 2] + 1;
}

static uint32_t chain_parent(const struct query_state *s, size_t chain)
{
	return s->trace->node[first_node(s, chain)].parent;
}

static void need_node(const struct query_state *s, struct routes *r, uint32_t node)
{
	uint32_t *last = &r->last[rank_set_rank(&s->ends, node)];

	if (*last < node)
		*last = node;
}

static void find_needed(const struct query_state *s, struct routes *r, bool whole)
{
	for (size_t i = 1; whole && i < r->chains; i++)
		r->last[i] = s->trace->chain_end[i - 1];
	for (size_t i = 0; !whole && i < s->summed.words; i++)
		for (uint64_t bits = s->summed.bits[i]; bits; bits &= bits - 1)
			need_node(s, r, (uint32_t)(i * 64 + (size_t)__builtin_ctzll(bits)));
	for (size_t i = r->chains; i-- > 1;)
		if (r->last[i])
			need_node(s, r, chain_parent(s, i));
}

/* Sorts the needed chains by the nodes at which they start. */
static bool order_chains(struct query_state *s, struct routes *r)
{
	size_t needed = 0, before = 0;

	if (!rank_set_begin(&r->starts, s->slots))
		return query_fail(s, MAYFLY_E_MEMORY);
	for (size_t i = 1; i < r->chains; i++) {
		if (!r->last[i])
			continue;
		rank_set_add(&r->starts, chain_parent(s, i));
		needed++;
	}
	rank_set_count(&r->starts);
	r->begin = query_zeroed(s, r->starts.count + 1, sizeof(*r->begin));
	r->order = query_zeroed(s, needed, sizeof(*r->order));
	if (!r->begin || !r->order)
		return false;
	for (size_t i = 1; i < r->chains; i++)
		if (r->last[i])
			r->begin[rank_set_rank(&r->starts, chain_parent(s, i))]++;
	for (size_t i = 0; i < r->starts.count; i++) {
		before += r->begin[i];
		r->begin[i] = (uint32_t)before;
	}
	r->begin[r->starts.count] = (uint32_t)before;
	/* Each begin[] is now the end of its list; filling lists backwards makes it the start. */
	for (size_t i = r->chains; i-- > 1;)
		if (r->last[i])
			r->order[--r->begin[rank_set_rank(&r->starts, chain_parent(s, i))]] =
			    (uint32_t)i;
	return true;
}

static bool make_routes(struct query_state *s, struct routes *r, bool whole)
{
	r->chains = s->trace->chains + 1;
	r->last = query_zeroed(s, r->chains, sizeof(*r->last));
	if (!r->last)
		return false;
	find_needed(s, r, whole);
	return order_chains(s, r);
}

static void free_routes(struct routes *r)
{
	free(r->last);
	rank_set_free(&r->starts);
	free(r->begin);
	free(r->order);
	free(r->step);
}

static bool tree_enter(struct tree_walk *w, uint32_t node)
{
	struct query_state *s = w->s;
	const struct level *parent = &w->level[w->depth];
	struct level *l = &w->level[w->depth + 1];
	const struct frame_spots *f = query_node_frame(s, node);
	bool by_stack = s->query->by == MAYFLY_BY_STACK;

	if (!f)
		return false;
	w->depth++;
	*l = (struct level){
	    .frame = f,
	    .top = parent->top,
	    .first_cell = w->cells.count,
	    .node = node,
	    .leaf = f->count ? s->spot[f->first] : parent->leaf,
	    .has_code = parent->has_code || f->has_code,
	    .kept = parent->kept,
	};
	l->kept.hides |= f->hides;
	if (fold_replaces(f->folded, l->kept.folded, false)) {
		l->kept.folded = f->folded;
		l->kept.frame = s->trace->node[node].frame;
		l->kept.location = f->folded_place;
	}
	for (uint32_t i = by_stack ? f->count : 0; i-- > 0;)
		if (!stack_cells_push(s, &w->cells, &l->top, s->spot[f->first + i]))
			return false;
	query_sum_clear(s, &w->below, w->depth);
	return w->enter(w);
}

static void leave(struct tree_walk *w)
{
	if (w->leave)
		w->leave(w);
	query_sum_add(w->s, &w->below, w->depth - 1, &w->below, w->depth);
	w->cells.count = w->level[w->depth].first_cell;
	w->depth--;
}

/* Makes room for `nodes` more levels. */
static bool reserve_depth(struct tree_walk *w, struct routes *r, size_t nodes)
{
	if (array_reserve(&w->level, &r->depth, w->depth + nodes, sizeof(*w->level)) &&
	    query_sums_reserve(w->s, &w->below, w->depth + nodes + 1))
		return true;
	return query_fail(w->s, MAYFLY_E_MEMORY);
}

static void come_to(struct routes *r, struct step *step, uint32_t node)
{
	step->node = node;
	step->next = step->end = 0;
	if (rank_set_has(&r->starts, node)) {
		uint32_t rank = rank_set_rank(&r->starts, node);

		step->next = r->begin[rank];
		step->end = r->begin[rank + 1];
	}
}

static bool go_down(struct tree_walk *w, struct routes *r, size_t *at, uint32_t chain)
{
	uint32_t first = first_node(w->s, chain), last = r->last[chain];

	if (!reserve_depth(w, r, (size_t)last - first + 1) ||
	    !array_reserve(&r->step, &r->steps, *at, sizeof(*r->step)))
		return query_fail(w->s, MAYFLY_E_MEMORY);
	for (uint32_t node = first; node <= last; node++)
		if (!tree_enter(w, node))
			return false;
	r->step[*at] = (struct step){.chain = chain};
	come_to(r, &r->step[(*at)++], last);
	return true;
}

static bool walk_routes(struct tree_walk *w, struct routes *r)
{
	size_t at = 1;

	if (!array_reserve(&r->step, &r->steps, 0, sizeof(*r->step)))
		return query_fail(w->s, MAYFLY_E_MEMORY);
	r->step[0] = (struct step){.chain = 0};
	come_to(r, &r->step[0], 0);
	while (at) {
		struct step *step = &r->step[at - 1];

		if (step->next < step->end) {
			if (!go_down(w, r, &at, r->order[step->next++]))
				return false;
			continue;
		}
		if (step->node == first_node(w->s, step->chain))
			at--;
		if (step->node == 0)
			break;
		leave(w);
		if (at && step == &r->step[at - 1])
			come_to(r, step, step->node - 1);
	}
	return true;
}

static bool walk_once(struct tree_walk *w, struct routes *r)
{
	static const struct frame_spots no_spots = {0};
	bool done;

	w->level = NULL;
	w->below = (struct sums){0};
	w->depth = r->depth = 0;
	w->cells = (struct stack_cells){0};
	done = reserve_depth(w, r, 1);
	if (done) {
		w->level[0] = (struct level){.frame = &no_spots, .top = NONE, .leaf = NONE};
		query_sum_clear(w->s, &w->below, 0);
		done = w->enter(w) && walk_routes(w, r);
	}
	if (done && w->leave)
		w->leave(w);
	free(w->level);
	stack_cells_free(&w->cells);
	query_sums_free(&w->below);
	return done;
}

bool query_walk(struct tree_walk *walk, size_t walks)
{
	struct routes r = {0};
	bool done = make_routes(walk->s, &r, walk->whole);

	for (size_t i = 0; done && i < walks; i++)
		done = walk_once(&walk[i], &r);
	free_routes(&r);
	return done;
}

/* ---- from nodes to groups ---- */

/* Adds the blocks allocated at the node itself. */
static bool add_own(struct tree_walk *w, uint32_t sum)
{
	struct query_state *s = w->s;
	const struct level *l = &w->level[w->depth];
	uint32_t leaf = l->leaf == NONE ? query_special_group(s, &l->kept) : l->leaf;

	if (leaf == NONE)
		return false;
	query_sum_add(s, &s->group_sums, 2 * (size_t)leaf, &s->sum, sum);
	if (l->leaf == NONE)
		query_sum_add(s, &s->group_sums, 2 * (size_t)leaf + 1, &s->sum, sum);
	query_sum_add(s, &w->below, w->depth, &s->sum, sum);
	return true;
}

/* times: for each group or stack, how often it is between the root and the current node. */
struct on_way {
	uint32_t *times;
	size_t room;
};

static bool make_room(struct query_state *s, struct on_way *way, size_t rows)
{
	return !rows ||
	       array_reserve_filled(&way->times, &way->room, rows - 1, sizeof(*way->times), 0) ||
	       query_fail(s, MAYFLY_E_MEMORY);
}

static bool enter_groups(struct tree_walk *w)
{
	struct query_state *s = w->s;
	struct on_way *way = w->context;
	const struct level *l = &w->level[w->depth];
	uint32_t sum = query_summed(s, l->node);

	if (!make_room(s, way, s->group_key.count))
		return false;
	for (uint32_t i = 0; i < l->frame->count; i++)
		way->times[s->spot[l->frame->first + i]]++;
	return sum == NONE || add_own(w, sum);
}

static void leave_groups(struct tree_walk *w)
{
	struct query_state *s = w->s;
	struct on_way *way = w->context;
	const struct frame_spots *f = w->level[w->depth].frame;

	for (uint32_t i = 0; i < f->count; i++) {
		uint32_t group = s->spot[f->first + i];

		if (--way->times[group] == 0)
			query_sum_add(s, &s->group_sums, 2 * (size_t)group + 1, &w->below,
				      w->depth);
	}
}

static bool make_node_groups(struct query_state *s)
{
	struct on_way way = {0};
	struct tree_walk w = {
	    .s = s, .enter = enter_groups, .leave = leave_groups, .context = &way};
	bool done = query_walk(&w, 1);

	free(way.times);
	return done;
}

/* ---- from nodes to printed stacks ---- */

static size_t stack_place(const struct query_state *s, uint64_t hash)
{
	return (size_t)(hash >> 40 ^ hash) & (s->stack_slots - 1);
}

/* Uses other bits of the hash than stack_place(). */
static size_t bit_of(const struct query_state *s, uint64_t hash)
{
	return (size_t)(hash >> 24) & (s->stack_slots * 8 - 1);
}

uint32_t query_find_stack(const struct query_state *s, uint64_t hash)
{
	if (!s->stack_slots || !(s->stack_bits[bit_of(s, hash) / 64] >> bit_of(s, hash) % 64 & 1))
		return NONE;
	for (size_t i = stack_place(s, hash); s->stack_slot[i]; i = (i + 1) & (s->stack_slots - 1))
		if (s->stack[s->stack_slot[i] - 1].hash == hash)
			return s->stack_slot[i] - 1;
	return NONE;
}

static void place_stack(struct query_state *s, size_t number)
{
	size_t i = stack_place(s, s->stack[number].hash), bit = bit_of(s, s->stack[number].hash);

	s->stack_bits[bit / 64] |= (uint64_t)1 << bit % 64;
	while (s->stack_slot[i])
		i = (i + 1) & (s->stack_slots - 1);
	s->stack_slot[i] = (uint32_t)number + 1;
}

static bool grow_stacks(struct query_state *s)
{
	size_t slots = s->stack_slots ? s->stack_slots * 2 : 256;

	if (!query_sums_reserve(s, &s->stack_sums, 2 * s->stacks + 2) ||
	    !array_reserve(&s->stack, &s->stack_capacity, s->stacks, sizeof(*s->stack)))
		return query_fail(s, MAYFLY_E_MEMORY);
	if (s->stacks + s->stacks / 2 < s->stack_slots)
		return true;
	free(s->stack_slot);
	free(s->stack_bits);
	s->stack_slot = query_zeroed(s, slots, sizeof(*s->stack_slot));
	s->stack_bits = query_zeroed(s, slots / 8, sizeof(*s->stack_bits));
	s->stack_slots = s->stack_slot && s->stack_bits ? slots : 0;
	for (size_t i = 0; s->stack_slots && i < s->stacks; i++)
		place_stack(s, i);
	return s->stack_slots != 0;
}

/* The number of a stack, created if missing. NONE: out of memory. */
static uint32_t stack_of(struct query_state *s, uint64_t hash, const struct stack *fresh)
{
	uint32_t number = query_find_stack(s, hash);

	if (number != NONE) {
		struct stack *known = &s->stack[number];

		if (fresh->recurs > known->recurs ||
		    (fresh->recurs == known->recurs && fresh->node < known->shown)) {
			known->shown = fresh->node;
			known->recurs = fresh->recurs;
		}
		if (fresh->node < known->node) {
			known->node = fresh->node;
			known->special = fresh->special;
		}
		return number;
	}
	if (!grow_stacks(s))
		return NONE;
	s->stack[s->stacks] = *fresh;
	s->stack[s->stacks].hash = hash;
	query_sum_clear(s, &s->stack_sums, 2 * s->stacks);
	query_sum_clear(s, &s->stack_sums, 2 * s->stacks + 1);
	place_stack(s, s->stacks++);
	return (uint32_t)s->stacks - 1;
}

/* The single place that is shown for a stack without visible code, even if it has marks; NONE: the
 * stack has code. False: out of memory. */
static bool special_place(struct query_state *s, const struct level *l, uint32_t *place)
{
	*place = NONE;
	if (l->has_code || (l->leaf != NONE && !l->kept.hides))
		return true;
	*place = query_special_group(s, &l->kept);
	return *place != NONE;
}

static uint64_t level_hash(const struct tree_walk *w, const struct level *l)
{
	return l->top == NONE ? 0 : w->cells.cell[l->top].hash;
}

/* The first walk finds all stacks. */
static bool find_stacks(struct tree_walk *w)
{
	struct query_state *s = w->s;
	const struct level *l = &w->level[w->depth];
	uint32_t sum = query_summed(s, l->node), special, stack;

	/* When the peak is asked for, a node may have blocks at other moments only. */
	if (sum == NONE ||
	    (!s->exact && s->sum.tally[sum].seen_blocks == 0 && s->sum.tally[sum].exact_count == 0))
		return true;
	if (!special_place(s, l, &special))
		return false;
	stack = stack_of(s, special == NONE ? level_hash(w, l) : query_push(0, special),
			 &(struct stack){.node = l->node,
					 .shown = l->node,
					 .special = special,
					 .recurs = l->top != NONE && w->cells.cell[l->top].recurs});
	return stack != NONE;
}

/* The second walk adds each node's sum to its stack, also that of a node that has blocks at other
 * moments of the peak only, and the sums of longer stacks to the stacks they extend. */
static bool enter_totals(struct tree_walk *w)
{
	struct query_state *s = w->s;
	struct on_way *way = w->context;
	const struct level *l = &w->level[w->depth];
	uint32_t sum = query_summed(s, l->node), stack;
	bool special;

	if (!make_room(s, way, s->stacks))
		return false;
	for (size_t i = l->first_cell; i < w->cells.count; i++) {
		stack = query_find_stack(s, w->cells.cell[i].hash);
		if (stack != NONE)
			way->times[stack]++;
	}
	if (sum == NONE)
		return true;
	if (!query_own(w, &stack, &special))
		return false;
	if (!special)
		query_sum_add(s, &w->below, w->depth, &s->sum, sum);
	if (stack == NONE)
		return true;
	query_sum_add(s, &s->stack_sums, 2 * (size_t)stack, &s->sum, sum);
	if (special)
		query_sum_add(s, &s->stack_sums, 2 * (size_t)stack + 1, &s->sum, sum);
	return true;
}

static void leave_totals(struct tree_walk *w)
{
	struct query_state *s = w->s;
	struct on_way *way = w->context;

	for (size_t i = w->level[w->depth].first_cell; i < w->cells.count; i++) {
		uint32_t stack = query_find_stack(s, w->cells.cell[i].hash);

		if (stack != NONE && --way->times[stack] == 0)
			query_sum_add(s, &s->stack_sums, 2 * (size_t)stack + 1, &w->below,
				      w->depth);
	}
}

static bool make_stacks(struct query_state *s)
{
	struct on_way way = {0};
	struct tree_walk walk[2] = {
	    {.s = s, .enter = find_stacks},
	    {.s = s, .enter = enter_totals, .leave = leave_totals, .context = &way},
	};
	bool done = query_walk(walk, 2);

	free(way.times);
	return done;
}

/* ---- threads and classes: a slot is a row ---- */

static bool make_slot_groups(struct query_state *s)
{
	for (size_t i = 0; i < s->slots; i++) {
		uint32_t sum = query_summed(s, (uint32_t)i), group;

		if (sum == NONE)
			continue;
		group = query_slot_group(s, (uint32_t)i);
		if (group == NONE)
			return false;
		query_sum_add(s, &s->group_sums, 2 * (size_t)group, &s->sum, sum);
		query_sum_add(s, &s->group_sums, 2 * (size_t)group + 1, &s->sum, sum);
	}
	return true;
}

bool query_make_groups(struct query_state *s)
{
	if (!query_by_node(s->query))
		return make_slot_groups(s);
	if (!query_frames_begin(s))
		return false;
	return s->query->by == MAYFLY_BY_STACK ? make_stacks(s) : make_node_groups(s);
}

/* ---- from a node to its row ---- */

bool query_own(struct tree_walk *w, uint32_t *source, bool *special)
{
	struct query_state *s = w->s;
	const struct level *l = &w->level[w->depth];
	uint32_t place;

	if (s->query->by == MAYFLY_BY_STACK) {
		if (!special_place(s, l, &place))
			return false;
		*special = place != NONE;
		*source = query_find_stack(s, *special ? query_push(0, place) : level_hash(w, l));
		return true;
	}
	*special = l->leaf == NONE;
	*source = *special ? query_special_group(s, &l->kept) : l->leaf;
	return !*special || *source != NONE;
}
