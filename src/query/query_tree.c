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
 * It goes down a chain to its end, and on the way back visits the chains that start at each node:
 * 1, 2, 3, 8 here. This order is found once, without a walk: a chain's place follows from its
 * parent's and from how many chains lie below those before it. All that is looked up for that is
 * independent of each other, so the CPU need not wait for one after the other, as it would in a
 * tree of millions of nodes that is larger than its caches. Frames and sums are put into this order,
 * too, so each walk reads memory from front to back.
 */
#include "query/query.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

/* ---- the way through the tree ---- */

/* What is needed to find the order. Chain 0 is the root alone; chain k + 1 is chain k of the trace. */
struct routes {
	size_t chains, needed;
	uint32_t *last;		/* chain -> its last needed node, or 0 */
	struct rank_set starts; /* nodes from which needed chains start ... */
	uint32_t *begin;	/* [rank]: the first of these chains, in order */
	uint32_t *order;
	uint32_t
	    *place; /* chain -> how many are below it, with itself; then its place on the way */
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
	size_t before = 0;

	if (!rank_set_begin(&r->starts, s->slots))
		return query_fail(s, MAYFLY_E_MEMORY);
	for (size_t i = 1; i < r->chains; i++) {
		if (!r->last[i])
			continue;
		rank_set_add(&r->starts, chain_parent(s, i));
		r->needed++;
	}
	rank_set_count(&r->starts);
	r->begin = query_zeroed(s, r->starts.count + 1, sizeof(*r->begin));
	r->order = query_zeroed(s, r->needed, sizeof(*r->order));
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

/* Gives the chains that start at a node their places from `place` on. Returns the next one. */
static uint32_t place_starts(struct routes *r, uint32_t node, uint32_t place)
{
	uint32_t rank;

	if (!rank_set_has(&r->starts, node))
		return place;
	rank = rank_set_rank(&r->starts, node);
	for (uint32_t i = r->begin[rank]; i < r->begin[rank + 1]; i++) {
		uint32_t below = r->place[r->order[i]];

		r->place[r->order[i]] = place;
		place += below;
	}
	return place;
}

/* A chain's parent comes before it. */
static bool place_chains(struct query_state *s, struct routes *r)
{
	r->place = query_zeroed(s, r->chains, sizeof(*r->place));
	if (!r->place)
		return false;
	for (size_t i = r->chains; i-- > 1;)
		if (r->last[i])
			r->place[rank_set_rank(&s->ends, chain_parent(s, i))] += ++r->place[i];
	place_starts(r, 0, 0);
	for (size_t i = 1; i < r->chains; i++) {
		uint32_t place = r->place[i] + 1;

		for (uint32_t n = r->last[i]; n && n >= first_node(s, i); n--)
			place = place_starts(r, n, place);
	}
	return true;
}

/* The next node on the way. Its sum moves to the place where a walk comes to it. */
static void put_node(struct query_state *s, struct tree_way *way, struct sums *sums, uint32_t node)
{
	if (rank_set_has(&s->summed, node)) {
		query_move_sum(s, sums, way->sums++, node);
		query_set_bit(way->summed, way->nodes);
	}
	way->frame[way->nodes++] = s->trace->node[node].frame;
}

/* Puts frames and sums into the order of the way. */
static bool straighten(struct query_state *s, struct tree_way *way)
{
	struct sums sums = {0};
	size_t nodes = 1;

	for (size_t i = 0; i < way->stretches; i++)
		nodes += way->stretch[i].last - way->stretch[i].first + 1;
	way->frame = query_zeroed(s, nodes, sizeof(*way->frame));
	way->summed = query_zeroed(s, nodes / 64 + 1, sizeof(*way->summed));
	if (s->error || !query_sums_reserve(s, &sums, s->summed.count))
		return false;
	put_node(s, way, &sums, 0);
	for (size_t i = 0; i < way->stretches; i++)
		for (uint32_t n = way->stretch[i].first; n <= way->stretch[i].last; n++)
			put_node(s, way, &sums, n);
	query_sums_free(&s->sum);
	s->sum = sums;
	return true;
}

static bool find_way(struct query_state *s, struct routes *r, struct tree_way *way, bool whole)
{
	r->chains = s->trace->chains + 1;
	r->last = query_zeroed(s, r->chains, sizeof(*r->last));
	if (!r->last)
		return false;
	find_needed(s, r, whole);
	if (!order_chains(s, r) || !place_chains(s, r))
		return false;
	way->stretch = query_zeroed(s, r->needed, sizeof(*way->stretch));
	if (!way->stretch)
		return false;
	way->stretches = r->needed;
	for (size_t i = 1; i < r->chains; i++)
		if (r->last[i])
			way->stretch[r->place[i]] =
			    (struct tree_stretch){first_node(s, i), r->last[i], chain_parent(s, i)};
	return true;
}

static bool make_way(struct query_state *s, struct tree_way *way, bool whole)
{
	struct routes r = {0};
	bool done = find_way(s, &r, way, whole);

	free(r.last);
	rank_set_free(&r.starts);
	free(r.begin);
	free(r.order);
	free(r.place);
	return done && (whole || straighten(s, way));
}

/* ---- walking the tree ---- */

/* The number of the next node's sum: they come one after the other. */
static uint32_t next_sum(struct tree_walk *w)
{
	return !w->whole && query_has_bit(w->way->summed, w->nodes) ? w->sums++ : NONE;
}

static bool tree_enter(struct tree_walk *w, uint32_t node)
{
	struct query_state *s = w->s;
	uint32_t frame = w->whole ? s->trace->node[node].frame : w->way->frame[w->nodes];
	const struct level *parent = &w->level[w->depth];
	struct level *l = &w->level[w->depth + 1];
	const struct frame_spots *f = s->begins ? query_cut_frame(s, node) : query_frame(s, frame);
	bool by_stack = s->query->by == MAYFLY_BY_STACK;

	if (!f)
		return false;
	w->depth++;
	*l = (struct level){
	    .frame = f,
	    .top = parent->top,
	    .first_cell = w->cells.count,
	    .node = node,
	    .sum = next_sum(w),
	    .leaf = f->count ? s->spot[f->first] : parent->leaf,
	    .has_code = parent->has_code || f->has_code,
	    .kept = parent->kept,
	};
	w->nodes++;
	l->kept.hides |= f->hides;
	if (fold_replaces(f->folded, l->kept.folded, false)) {
		l->kept.folded = f->folded;
		l->kept.frame = frame;
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
static bool reserve_depth(struct tree_walk *w, size_t nodes)
{
	if (array_reserve(&w->level, &w->levels, w->depth + nodes, sizeof(*w->level)) &&
	    query_sums_reserve(w->s, &w->below, w->depth + nodes + 1))
		return true;
	return query_fail(w->s, MAYFLY_E_MEMORY);
}

/* Leaves the nodes up to the one where the stretch starts, and enters the stretch's. */
static bool walk_stretch(struct tree_walk *w, const struct tree_stretch *t)
{
	while (w->depth && w->level[w->depth].node != t->parent)
		leave(w);
	if (!reserve_depth(w, (size_t)t->last - t->first + 1))
		return false;
	for (uint32_t node = t->first; node <= t->last; node++)
		if (!tree_enter(w, node))
			return false;
	return true;
}

static bool walk_way(struct tree_walk *w)
{
	for (size_t i = 0; i < w->way->stretches; i++)
		if (!walk_stretch(w, &w->way->stretch[i]))
			return false;
	while (w->depth)
		leave(w);
	return true;
}

static bool walk_once(struct tree_walk *w)
{
	static const struct frame_spots no_spots = {0};
	bool done;

	w->level = NULL;
	w->below = (struct sums){0};
	w->depth = w->levels = w->nodes = 0;
	w->sums = 0;
	w->cells = (struct stack_cells){0};
	done = reserve_depth(w, 1);
	if (done) {
		w->level[0] = (struct level){
		    .frame = &no_spots, .top = NONE, .sum = next_sum(w), .leaf = NONE};
		w->nodes++;
		query_sum_clear(w->s, &w->below, 0);
		done = w->enter(w) && walk_way(w);
	}
	if (done && w->leave)
		w->leave(w);
	free(w->level);
	stack_cells_free(&w->cells);
	query_sums_free(&w->below);
	return done;
}

/* The way to all sums is the same for each question that is made of them. */
bool query_walk(struct tree_walk *w)
{
	struct query_state *s = w->s;
	struct tree_way whole = {0}, *way = w->whole ? &whole : &s->way;
	bool done;

	w->way = way;
	done = (way->stretch || make_way(s, way, w->whole)) && walk_once(w);
	tree_way_free(&whole);
	return done;
}

void tree_way_free(struct tree_way *way)
{
	free(way->stretch);
	free(way->frame);
	free(way->summed);
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

	if (!make_room(s, way, s->group_key.count))
		return false;
	for (uint32_t i = 0; i < l->frame->count; i++)
		way->times[s->spot[l->frame->first + i]]++;
	return l->sum == NONE || add_own(w, l->sum);
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
	bool done = query_walk(&w);

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

/* A stack that is still looked for. */
struct sought {
	uint64_t hash;
	struct stack fresh;
	uint32_t sum; /* of its node */
};

/* What both walks use. */
struct stack_walk {
	struct on_way way;
	uint32_t *own; /* the stack of each sum's node; NONE: the first walk asks for none */
	/* The first walk looks for a stack only some nodes later: meanwhile the CPU loads what it needs for
	 * that. Those from number `searched` on wait. */
	struct sought sought[16];
	size_t searched, seen;
};

#define SOUGHT(k, number) (&(k)->sought[(number) % (sizeof((k)->sought) / sizeof(*(k)->sought))])

static bool find_sought(struct query_state *s, struct stack_walk *k)
{
	const struct sought *q = SOUGHT(k, k->searched++);

	k->own[q->sum] = stack_of(s, q->hash, &q->fresh);
	return k->own[q->sum] != NONE;
}

static bool find_all_sought(struct query_state *s, struct stack_walk *k)
{
	while (k->searched < k->seen)
		if (!find_sought(s, k))
			return false;
	return true;
}

static bool seek_stack(struct query_state *s, struct stack_walk *k, const struct sought *q)
{
	if (s->stack_slots) {
		__builtin_prefetch(&s->stack_bits[bit_of(s, q->hash) / 64]);
		__builtin_prefetch(&s->stack_slot[stack_place(s, q->hash)]);
	}
	if (SOUGHT(k, k->seen) == SOUGHT(k, k->searched) && k->seen > k->searched &&
	    !find_sought(s, k))
		return false;
	*SOUGHT(k, k->seen++) = *q;
	return true;
}

/* The first walk finds all stacks. */
static bool find_stacks(struct tree_walk *w)
{
	struct query_state *s = w->s;
	struct stack_walk *k = w->context;
	const struct level *l = &w->level[w->depth];
	struct sought q = {.fresh = {.node = l->node, .shown = l->node}, .sum = l->sum};
	uint32_t special;

	if (l->sum == NONE)
		return true;
	k->own[l->sum] = NONE;
	/* When the peak is asked for, a node may have blocks at other moments only. */
	if (!s->exact && s->sum.tally[l->sum].seen_blocks == 0 &&
	    s->sum.tally[l->sum].exact_count == 0)
		return true;
	if (!special_place(s, l, &special))
		return false;
	q.hash = special == NONE ? level_hash(w, l) : query_push(0, special);
	q.fresh.special = special;
	q.fresh.recurs = l->top != NONE && w->cells.cell[l->top].recurs;
	return seek_stack(s, k, &q);
}

/* The stack of the blocks at the current node. special: as in query_own(). */
static bool own_stack(struct tree_walk *w, struct stack_walk *k, uint32_t *stack, bool *special)
{
	struct query_state *s = w->s;
	uint32_t place;

	*stack = k->own[w->level[w->depth].sum];
	if (*stack == NONE)
		return query_own(w, stack, special);
	*special = special_place(s, &w->level[w->depth], &place) && place != NONE;
	return !s->error;
}

/* The stack that ends with a cell of the current node, or NONE. own: that of its blocks, or NONE. */
static uint32_t cell_stack(const struct query_state *s, const struct stack_cell *c, uint32_t own)
{
	return own != NONE && s->stack[own].hash == c->hash ? own : query_find_stack(s, c->hash);
}

/* The second walk adds each node's sum to its stack, also that of a node that has blocks at other
 * moments of the peak only, and the sums of longer stacks to the stacks they extend. */
static bool enter_totals(struct tree_walk *w)
{
	struct query_state *s = w->s;
	struct stack_walk *k = w->context;
	const struct level *l = &w->level[w->depth];
	uint32_t sum = l->sum, own = NONE;
	bool special = false;

	if (!make_room(s, &k->way, s->stacks) || (sum != NONE && !own_stack(w, k, &own, &special)))
		return false;
	for (size_t i = l->first_cell; i < w->cells.count; i++) {
		struct stack_cell *c = &w->cells.cell[i];

		c->stack = cell_stack(s, c, own);
		if (c->stack != NONE)
			k->way.times[c->stack]++;
	}
	if (sum == NONE)
		return true;
	if (!special)
		query_sum_add(s, &w->below, w->depth, &s->sum, sum);
	if (own == NONE)
		return true;
	query_sum_add(s, &s->stack_sums, 2 * (size_t)own, &s->sum, sum);
	if (special)
		query_sum_add(s, &s->stack_sums, 2 * (size_t)own + 1, &s->sum, sum);
	return true;
}

static void leave_totals(struct tree_walk *w)
{
	struct query_state *s = w->s;
	struct stack_walk *k = w->context;

	for (size_t i = w->level[w->depth].first_cell; i < w->cells.count; i++) {
		uint32_t stack = w->cells.cell[i].stack;

		if (stack != NONE && --k->way.times[stack] == 0)
			query_sum_add(s, &s->stack_sums, 2 * (size_t)stack + 1, &w->below,
				      w->depth);
	}
}

static bool make_stacks(struct query_state *s)
{
	struct stack_walk k = {.own = query_zeroed(s, s->summed.count, sizeof(*k.own))};
	struct tree_walk find = {.s = s, .enter = find_stacks, .context = &k};
	struct tree_walk total = {
	    .s = s, .enter = enter_totals, .leave = leave_totals, .context = &k};
	bool done = k.own && query_walk(&find) && find_all_sought(s, &k) && query_walk(&total);

	free(k.way.times);
	free(k.own);
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
