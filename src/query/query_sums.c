/* SPDX-License-Identifier: Apache-2.0 */
/*
 * query_sums.c: sums the blocks that a query asks for by slot.
 *
 * The per-stack counters (sums.h) are used if they can answer; this is fast:
 *
 *	|-- part 0 --|-- part 1 --|-- part 2 --|-- part 3 --|
 *	                                       ^ peak
 *	 allocated, leaked, temporary, live at the end:  all parts
 *	 live at the peak:                               the parts up to it
 *
 * Otherwise one pass over the events is needed. In an exact trace sums are integers: a block counts
 * from its allocation on, its free takes that back, and the pass can end at the queried moment. If
 * lifetimes or freeing threads matter, which only the free tells, blocks count at their free;
 * blocks that are never freed are taken from the cursor after the last event. Estimates are summed
 * in this way too, because a sample cannot be taken back (a tally keeps the heaviest one).
 */
#include "query/parts.h"
#include "base/array.h"
#include "base/search.h"
#include "query/query.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST_SLOTS (1u << 24) /* if slots are not nodes */

/* ---- sums of slots ---- */

/* The number of a slot's sum; NONE: out of memory. */
static uint32_t sum_number(struct query_state *s, uint32_t slot)
{
	struct key key = {{slot}};
	uint32_t number;
	bool is_new;

	if (!query_sparse(s->query))
		return slot;
	if (rank_set_has(&s->ends, slot))
		return rank_set_rank(&s->ends, slot);
	number = interner_add(&s->between, key, &is_new);
	if (number == NONE || number >= NONE - 1 - s->ends.count) {
		query_fail(s, MAYFLY_E_MEMORY);
		return NONE;
	}
	number += (uint32_t)s->ends.count;
	if (!is_new)
		return number;
	if (s->exact ? !query_sums_reserve(s, &s->sum, (size_t)number + 1)
		     : !array_reserve(&s->sum_at, &s->sum_at_room, number, sizeof(*s->sum_at))) {
		query_fail(s, MAYFLY_E_MEMORY);
		return NONE;
	}
	if (s->exact)
		query_sum_clear(s, &s->sum, number);
	else
		s->sum_at[number] = 0;
	s->sums = (size_t)number + 1;
	return number;
}

static uint32_t slot_of_sum(const struct query_state *s, size_t number)
{
	if (!query_sparse(s->query))
		return (uint32_t)number;
	if (number >= s->ends.count)
		return (uint32_t)s->between.key[number - s->ends.count].word[0];
	return number ? s->trace->chain_end[number - 1] : 0;
}

struct plain *query_plain(struct query_state *s, uint32_t slot)
{
	uint32_t number = sum_number(s, slot);

	return number == NONE ? NULL : &s->sum.plain[number];
}

/* The sum of a slot, created if missing; NULL: out of memory. */
static struct tally *slot_tally(struct query_state *s, uint32_t slot)
{
	uint32_t number = sum_number(s, slot);

	if (number == NONE)
		return NULL;
	if (s->sum_at[number] == 0) {
		if (!query_sums_reserve(s, &s->sum, s->tallies + 1))
			return NULL;
		query_sum_clear(s, &s->sum, s->tallies);
		s->sum_at[number] = (uint32_t)++s->tallies;
	}
	return &s->sum.tally[s->sum_at[number] - 1];
}

static bool sums_begin(struct query_state *s)
{
	const struct mayfly_trace *t = s->trace;

	s->sums = s->slots;
	if (query_sparse(s->query)) {
		if (!rank_set_begin(&s->ends, s->slots))
			return query_fail(s, MAYFLY_E_MEMORY);
		if (query_by_node(s->query))
			rank_set_add(&s->ends, 0);
		for (size_t i = 0; query_by_node(s->query) && i < t->chains; i++)
			rank_set_add(&s->ends, t->chain_end[i]);
		rank_set_count(&s->ends);
		s->sums = s->ends.count;
	}
	if (s->exact) {
		s->sum.plain = query_zeroed(s, s->sums, sizeof(*s->sum.plain));
		s->sum.room = s->sums;
	} else {
		s->sum_at = query_zeroed(s, s->sums, sizeof(*s->sum_at));
		s->sum_at_room = s->sums;
	}
	return !s->error;
}

/* Whether a sum has blocks. In a damaged trace it may be negative. */
static bool has_blocks(struct query_state *s, size_t number)
{
	struct plain *p;

	if (!s->exact)
		return s->sum_at[number] > 0;
	p = &s->sum.plain[number];
	if ((int64_t)p->bytes < 0)
		p->bytes = 0;
	return (int64_t)p->blocks > 0;
}

/* After everything has been added: finds the slots with blocks. */
static bool sums_end(struct query_state *s)
{
	struct spread spread = {0};
	size_t count = 0;

	if (!rank_set_begin(&s->summed, s->slots))
		return query_fail(s, MAYFLY_E_MEMORY);
	for (size_t i = 0; i < s->sums; i++) {
		if (!has_blocks(s, i))
			continue;
		rank_set_add(&s->summed, slot_of_sum(s, i));
		count++;
	}
	rank_set_count(&s->summed);
	s->summed_at = query_zeroed(s, count, sizeof(*s->summed_at));
	for (size_t i = 0; s->summed_at && i < s->sums; i++) {
		uint32_t at = s->exact ? (uint32_t)i : s->sum_at[i] - 1;

		if (!has_blocks(s, i))
			continue;
		s->summed_at[rank_set_rank(&s->summed, slot_of_sum(s, i))] = at;
		query_sum_add(s, &s->all, 0, &s->sum, at);
		if (!s->exact)
			spread_add(&spread, &s->sum.tally[at]);
	}
	s->spread[SPREAD_SELF] = s->spread[SPREAD_TOTAL] = spread_variance(&spread);
	s->spread[SPREAD_ALL] = spread_all(&spread);
	interner_free(&s->between);
	s->between = (struct interner){0};
	return !s->error;
}

/* ---- filters of blocks ---- */

struct fate query_fate(const struct cursor_batch *b, size_t event, size_t freed)
{
	int64_t time_ns = b->e.time_ns[event], born_ns = b->freed[freed].time_ns;

	return (struct fate){time_ns > born_ns ? time_ns - born_ns : 0, b->e.free_thread[freed]};
}

bool query_lifetime_fits(const struct mayfly_query *q, int64_t lifetime)
{
	return lifetime >= q->min_lifetime_ns && lifetime <= q->max_lifetime_ns;
}

bool query_keeps(const struct query_state *s, const struct cursor_block *b)
{
	const struct mayfly_query *q = s->query;

	if (b->size < q->min_size || b->size > q->max_size)
		return false;
	if (q->heaps ? !(q->heaps >> MAYFLY_FLAG_HEAP(b->flags) & 1)
		     : q->by != MAYFLY_BY_HEAP &&
			   !trace_counts(s->trace, MAYFLY_FLAG_HEAP(b->flags), b->node))
		return false;
	if (s->thread_kept && (b->thread >= s->info->threads || !s->thread_kept[b->thread]))
		return false;
	if (s->label_kept && !s->label_kept[b->labels])
		return false;
	return !s->node_kept || s->node_kept[b->node < s->info->nodes ? b->node : 0];
}

bool query_keeps_allocated(const struct query_state *s, const struct cursor_block *b)
{
	return !(b->flags & MAYFLY_FLAG_INHERITED) && query_keeps(s, b);
}

bool query_has_no_filter(const struct query_state *s)
{
	const struct mayfly_query *q = s->query;

	return !s->own_blocks && !q->heaps && !s->thread_kept && !s->node_kept && !s->label_kept &&
	       q->min_size == 0 && q->max_size == UINT64_MAX && q->from_ns == 0 &&
	       q->to_ns == INT64_MAX;
}

bool query_keeps_all(const struct query_state *s)
{
	return query_has_no_filter(s) &&
	       (!trace_leaves_out(s->trace) || s->query->by == MAYFLY_BY_HEAP);
}

bool query_in_window(const struct mayfly_query *q, int64_t time_ns)
{
	/* Blocks that a forked child inherited may be from before time 0. */
	return (time_ns >= q->from_ns || q->from_ns == 0) &&
	       (time_ns < q->to_ns || q->to_ns == INT64_MAX);
}

/* ---- events ---- */

/* A moment that is asked about, as the pass comes to it. */
struct gate {
	uint64_t events, samples; /* up to the moment */
	uint64_t at;		  /* the number of events before it */
	bool past;		  /* the moment has passed */
	size_t before;		  /* events of the batch before it */
};

#define MOST_GATES (PEAK_BEST + 1) /* of a peak of samples: peak_at() */

struct gather {
	struct query_state *s;
	struct gate gate[MOST_GATES];
	size_t gates;  /* 1, or several for a peak of samples */
	bool fates;    /* query_asks_fate() */
	bool forever;  /* blocks that are never freed may count */
	bool at_once;  /* allocations count when they are seen: the free adds no information, or
			  takes them back */
	bool all_kept; /* filters keep every block; lifetimes may still exclude some */
	uint64_t begin, end; /* only events with these numbers count: begin <= number < end */
};

/* At which moments of a peak a block is live; freed: now, or else never. */
static uint32_t moments_of(const struct gather *g, uint64_t number, bool freed)
{
	uint32_t moments = 0;

	for (uint32_t k = 0; k < g->gates; k++)
		if (number < g->gate[k].samples && (g->gate[k].past || !freed))
			moments |= 1u << k;
	return moments;
}

/* Adds a block to the sums of the moments of a peak. */
static void add_moments(struct tally *t, double bytes, uint32_t moments)
{
	for (int k = 0; k < PEAK_MOMENTS; k++)
		if (moments >> k & 1)
			t->at[k] += bytes;
}

static bool add_sample(struct gather *g, uint64_t number, const struct cursor_block *b,
		       uint32_t slot, uint32_t moments)
{
	enum mayfly_sampler sampler = estimate_sampler(g->s->info->sampler, b->flags);
	double interval = trace_interval(g->s->trace, b->flags, b->interval_log2);
	struct tally *t = slot_tally(g->s, slot);

	if (!t)
		return false;
	if (g->gates > 1) {
		struct weight w = weigh_sample(sampler, interval, b->size, b->hits);

		add_moments(t, w.bytes, moments);
		if (!(moments >> peak_moment(number, weight_certain(&w)) & 1))
			return true;
	}
	strata_count(g->s, number, slot);
	tally_add(t, sampler, interval, b->size, b->hits);
	return true;
}

/* moments: those at which the block is live; 1 if there is only one. */
static bool sums_add_block(struct gather *g, uint64_t number, const struct cursor_block *b,
			   struct fate fate, uint32_t moments)
{
	uint32_t slot = query_slot(g->s, b, fate);
	struct plain *sum;

	if (!g->s->exact)
		return add_sample(g, number, b, slot, moments);
	sum = query_plain(g->s, slot);
	if (!sum)
		return false;
	sum->blocks++;
	sum->bytes += b->size;
	return true;
}

static bool is_kept(const struct gather *g, const struct cursor_block *b)
{
	if (g->all_kept)
		return true;
	if (g->s->own_blocks && b->flags & MAYFLY_FLAG_INHERITED)
		return false;
	return query_in_window(g->s->query, b->time_ns) && query_keeps(g->s, b);
}

/* Adds a block allocated before the queried moment as one that is never freed. */
static bool add_forever(struct gather *g, uint64_t number, const struct cursor_block *b,
			uint32_t moments)
{
	if (!g->forever || !moments || !is_kept(g, b))
		return true;
	return sums_add_block(g, number, b, NEVER_FREED, moments);
}

void query_note_intervals(struct query_state *s, const struct cursor_batch *b)
{
	for (size_t i = 0; i < b->e.allocs; i++) {
		uint32_t flags = b->e.alloc_flags[i];
		double interval = trace_interval(s->trace, flags, b->e.interval_log2[i]);

		if (b->e.hits[i] > 0 && s->largest_interval < interval &&
		    query_of_heaps(s, 1u << MAYFLY_FLAG_HEAP(flags)))
			s->largest_interval = interval;
	}
}

static bool sums_take_alloc(struct gather *g, const struct cursor_batch *b, size_t alloc)
{
	struct cursor_block block;

	if (g->gate[0].past || !g->at_once)
		return true;
	if (g->s->picture && !query_pictured(g->s, b->e.first_sample + alloc))
		return true;
	block = query_block(b, alloc);
	return add_forever(g, b->e.first_sample + alloc, &block, 1);
}

/* Whether the metric, apart from all filters, counts a block that is freed now. */
static bool metric_has_freed(const struct gather *g, uint32_t flags)
{
	switch (g->s->query->metric) {
	case MAYFLY_LIVE:
	case MAYFLY_PEAK:
		return true; /* if it was live at the moment */
	case MAYFLY_TEMPORARY:
		return flags & MAYFLY_FLAG_TEMPORARY;
	case MAYFLY_ALLOCATED:
		return !g->at_once; /* otherwise it has been counted already */
	case MAYFLY_LEAKED:
	case MAYFLY_SURVIVED:
	case MAYFLY_IN_PICTURE:
		break;
	}
	return false;
}

static bool take_back(struct gather *g, const struct cursor_block *b)
{
	struct plain *sum = query_plain(g->s, query_slot(g->s, b, NEVER_FREED));

	if (!sum)
		return false;
	sum->blocks--;
	sum->bytes -= b->size;
	return true;
}

static bool sums_take_free(struct gather *g, const struct cursor_batch *b, size_t event,
			   size_t freed)
{
	const struct mayfly_query *q = g->s->query;
	const struct cursor_block *block = &b->freed[freed];
	uint64_t number = b->e.freed[freed];
	bool counts = metric_has_freed(g, b->e.free_flags[freed]);
	bool back = g->at_once && g->forever && q->metric != MAYFLY_ALLOCATED && !g->s->picture;
	uint32_t moments =
	    q->metric == MAYFLY_LIVE || q->metric == MAYFLY_PEAK ? moments_of(g, number, true) : 1;
	struct fate fate;

	if (query_was_kept(g->s, b, freed))
		return g->at_once || add_forever(g, number, block, moments);
	counts = counts && moments;
	if ((!counts && !back) || block->node == NONE || !is_kept(g, block) ||
	    (g->gates == 1 && number >= g->gate[0].samples))
		return true;
	if (back && !take_back(g, block))
		return false;
	fate = query_fate(b, event, freed);
	return !counts || !query_lifetime_fits(q, fate.lifetime) ||
	       sums_add_block(g, number, block, fate, moments);
}

/* The number of events of the batch up to a moment. */
static size_t events_before(const struct gather *g, const struct gate *gate,
			    const struct cursor_batch *b)
{
	const struct mayfly_query *q = g->s->query;
	if (gate->past)
		return 0;
	if (query_at_peak(q)) {
		uint64_t left = gate->at > gate->events ? gate->at - gate->events : 0;

		return left < b->e.events ? (size_t)left : b->e.events;
	}
	if (q->metric != MAYFLY_LIVE)
		return b->e.events;
	return FIRST_THAT(i, 0, b->e.events, b->e.time_ns[i] > q->at_ns);
}

/* Whether later events cannot change the answer. In a sampled trace they can: they tell which
 * intervals were in force. */
static bool is_done(const struct gather *g)
{
	return g->gate[0].past && g->s->exact && !g->fates;
}

/* Whether nothing after the chunk can count. */
static bool is_behind_window(const struct gather *g, const struct trace_chunk *chunk)
{
	return g->s->exact && g->at_once && g->s->query->metric == MAYFLY_ALLOCATED &&
	       chunk->to_ns >= g->s->query->to_ns;
}

/* Comes to event i of a batch. */
static void pass_gates(struct gather *g, size_t i, bool is_free)
{
	for (size_t k = 0; k < g->gates; k++) {
		g->gate[k].past |= i == g->gate[k].before;
		g->gate[k].samples += !is_free && !g->gate[k].past;
	}
}

static bool sums_take_batch(void *context, const struct cursor_batch *b)
{
	struct gather *g = context;
	uint64_t first = g->gate[0].events;
	size_t alloc = 0, freed = 0;

	if (!g->s->exact)
		query_note_intervals(g->s, b);
	strata_note(g->s, b);
	for (size_t k = 0; k < g->gates; k++) {
		g->gate[k].before = events_before(g, &g->gate[k], b);
		g->gate[k].events += g->gate[k].before;
	}
	if (first + b->e.events <= g->begin && g->gates == 1 && g->gate[0].before == b->e.events) {
		g->gate[0].samples += b->e.allocs;
		return true;
	}
	for (size_t i = 0; i < b->e.events; i++) {
		pass_gates(g, i, b->e.is_free[i]);
		if (is_done(g))
			break;
		if (first + i < g->begin || first + i >= g->end) {
			alloc += !b->e.is_free[i];
			freed += b->e.is_free[i];
			continue;
		}
		if (!(b->e.is_free[i] ? sums_take_free(g, b, i, freed++)
				      : sums_take_alloc(g, b, alloc++)))
			return false;
	}
	return !is_done(g) && !is_behind_window(g, b->chunk) && first + b->e.events < g->end;
}

static void sums_take_live(void *context, uint64_t number, const struct cursor_block *block)
{
	struct gather *g = context;

	if (!g->s->error)
		add_forever(g, number, block, moments_of(g, number, false));
}

/* In a sampled trace all events are needed: they tell which intervals were in force. */
size_t query_first_chunk(const struct query_state *s)
{
	const struct mayfly_trace *t = s->trace;
	size_t low = 0, high = t->chunks;

	while (s->exact && s->query->from_ns > 0 && low < high) {
		size_t middle = low + (high - low) / 2;

		if (t->chunk[middle].to_ns < s->query->from_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low < t->chunks ? low : 0;
}

/* Takes off the variance what successive samples share: within a slot, and of all together. */
static bool share_strata(struct query_state *s)
{
	struct strata_pair pair;

	if (!strata_join(s))
		return false;
	for (size_t at = 0; strata_next_pair(s, &at, &pair);) {
		struct tally *t = &s->all.tally[0];

		if (pair.slot[0] == pair.slot[1])
			t = slot_tally(s, pair.slot[0]);
		if (!t)
			return false;
		t->shared_bytes += pair.bytes;
		t->shared_blocks += pair.blocks;
	}
	return true;
}

/* Counts events with the numbers begin .. end - 1, which begin in this chunk or later. */
static bool pass_events(struct query_state *s, size_t first_chunk, uint64_t begin, uint64_t end)
{
	struct gather g = {.s = s, .gates = 1, .begin = begin, .end = end};
	struct event_pass pass = {.context = &g, .before = sums_take_batch};

	g.fates = query_asks_fate(s);
	g.at_once = !g.fates && (s->exact || s->query->metric == MAYFLY_ALLOCATED || s->picture);
	g.all_kept = query_keeps_all(s);
	g.forever = query_lifetime_fits(s->query, FOREVER) && s->query->metric != MAYFLY_TEMPORARY;
	if (query_at_peak(s->query) && !s->exact)
		g.gates = MOST_GATES;
	pass.live = g.at_once ? NULL : sums_take_live;
	pass.first_chunk = first_chunk;
	for (size_t k = 0; k < g.gates; k++) {
		g.gate[k].at =
		    k == PEAK_BEST || s->exact ? s->peak.best.events : s->peak.near[k].events;
		if (!pass.first_chunk)
			continue;
		g.gate[k].events = s->trace->chunk[pass.first_chunk].first_event;
		g.gate[k].samples = s->trace->chunk[pass.first_chunk].first_alloc;
	}
	return query_pass(s, &pass);
}

static bool sum_events(struct query_state *s)
{
	return strata_begin(s) && pass_events(s, query_first_chunk(s), 0, UINT64_MAX) &&
	       share_strata(s);
}

/* ---- counters ---- */

/* Filters and groupings for which counters do not suffice. */
bool query_asks_for_blocks(const struct query_state *s)
{
	const struct mayfly_query *q = s->query;

	/* For SURVIVED, counters do not tell which of the live blocks are inherited. */
	if (s->own_blocks && q->metric == MAYFLY_LIVE)
		return true;
	return !query_by_node(q) || s->picture || q->heaps || q->min_size > 0 ||
	       q->max_size < UINT64_MAX || query_asks_fate(s) || q->thread.matches ||
	       q->label.matches || query_ends_early(s);
}

static bool has_window(const struct mayfly_query *q)
{
	return q->from_ns > 0 || q->to_ns < INT64_MAX;
}

/* Whether it asks for a moment before the last event: after that, what is live is what is live at the end. */
static bool at_time(const struct query_state *s)
{
	const struct mayfly_query *q = s->query;
	const struct mayfly_trace *t = s->trace;

	return q->metric == MAYFLY_LIVE && q->at_ns != MAYFLY_AT_END &&
	       q->at_ns != MAYFLY_AT_PEAK &&
	       !(s->exact && t->chunks && q->at_ns >= t->chunk[t->chunks - 1].to_ns);
}

/* Counters know only the ends of their parts; in a trace of snapshots nothing knows more. */
static bool counters_say(const struct query_state *s)
{
	const struct mayfly_query *q = s->query;

	if (query_asks_for_blocks(s))
		return false;
	if (s->info->snapshot_ns)
		return !has_window(q) || q->metric == MAYFLY_ALLOCATED;
	return !has_window(q) && !at_time(s);
}

/* What the metric counts of a part's node. */
static struct plain part_value(enum mayfly_metric metric, const struct sums_part *part, size_t i)
{
	struct plain value;

	if (metric == MAYFLY_TEMPORARY)
		return (struct plain){.blocks = part->temps[i], .bytes = part->temp_bytes[i]};
	value = (struct plain){.blocks = part->allocs[i], .bytes = part->alloc_bytes[i]};
	if (metric == MAYFLY_ALLOCATED) {
		value.blocks -= part->inherited[i];
		value.bytes -= part->inherited_bytes[i];
	} else {
		value.blocks -= part->frees[i];
		value.bytes -= part->free_bytes[i];
	}
	return value;
}

static int compare_error(const void *node, const void *error)
{
	uint32_t a = *(const uint32_t *)node, b = ((const struct trace_error *)error)->node;

	return (a > b) - (a < b);
}

/* ---- sums of a trace that says how certain they are: doc/FORMAT.md, 3.16 ---- */

/* What a node has in the whole trace, as its row of errors is about. */
struct whole {
	struct plain of[ERROR_SUMS];
};

static const struct trace_error *error_of(const struct mayfly_trace *t, uint32_t node)
{
	return bsearch(&node, t->sum_error, t->sum_errors, sizeof(*t->sum_error), compare_error);
}

static void add_whole(const struct mayfly_trace *t, const struct sums_part *part,
		      struct whole *whole)
{
	static const enum mayfly_metric metric[] = {
	    [ERROR_ALLOCATED] = MAYFLY_ALLOCATED, [ERROR_LIVE] = MAYFLY_LIVE};

	for (size_t i = 0; i < part->nodes; i++) {
		const struct trace_error *error = error_of(t, part->node[i]);

		for (unsigned k = 0; error && k < ERROR_SUMS; k++) {
			struct plain value = part_value(metric[k], part, i);
			struct plain *sum = &whole[error - t->sum_error].of[k];

			sum->blocks += value.blocks;
			sum->bytes += value.bytes;
		}
	}
}

/* NULL: s->error, or there is nothing. */
static struct whole *whole_sums(struct query_state *s)
{
	struct whole *whole = query_scratch(s, s->trace->sum_errors, sizeof(*whole));
	struct sums_cursor *cursor;
	struct sums_part part;
	int more = whole ? sums_cursor_open(s->trace, &cursor) : 0;

	if (!whole || more) {
		query_fail(s, more ? more : MAYFLY_E_MEMORY);
		return NULL;
	}
	while ((more = sums_cursor_next(cursor, &part)) == 1)
		add_whole(s->trace, &part, whole);
	sums_cursor_close(cursor);
	return more < 0 && !query_fail(s, more) ? NULL : whole;
}

/* How far a sum is from its whole: the variance, and the samples, are in proportion. */
static double part_of(double sum, uint64_t whole)
{
	return (int64_t)whole > 0 ? sum / (double)whole : 1;
}

/* With the errors of the whole that the sum is a part of: of what is live at the end, as long as
 * the sum is not larger, otherwise of what was allocated. */
static void estimate_sum(const struct query_state *s, uint32_t node, const struct whole *whole,
			 struct estimated_sum *sum)
{
	const struct trace_error *error = error_of(s->trace, node);
	unsigned of = s->query->metric == MAYFLY_ALLOCATED ? ERROR_ALLOCATED : ERROR_LIVE;
	double bytes = 1, blocks = 1;

	if (!error)
		return;
	if (whole) {
		const struct whole *w = &whole[error - s->trace->sum_error];

		if (of == ERROR_LIVE && sum->bytes > (double)(int64_t)w->of[of].bytes)
			of = ERROR_ALLOCATED;
		bytes = part_of(sum->bytes, w->of[of].bytes);
		blocks = part_of(sum->blocks, w->of[of].blocks);
	}
	sum->samples = (uint32_t)ceil(error->of[of].samples * fmin(1, blocks));
	sum->bytes_stderror = error->of[of].bytes * sqrt(bytes);
	sum->blocks_stderror = error->of[of].blocks * sqrt(blocks);
	sum->choice_bytes = error->of[of].choice_bytes * bytes;
	sum->choice_blocks = error->of[of].choice_blocks * blocks;
}

/* The sums of the nodes are complete: they become estimates. part: they may be of a part of the
 * trace's time. */
static bool estimate_sums(struct query_state *s, bool part)
{
	struct whole *whole = part ? whole_sums(s) : NULL;

	for (size_t i = 0; i < s->sums && !s->error; i++) {
		struct tally *tally = s->sum_at[i] ? &s->sum.tally[s->sum_at[i] - 1] : NULL;
		struct estimated_sum sum;

		if (!tally)
			continue;
		sum = (struct estimated_sum){.bytes = fmax(0, tally->exact_bytes),
					     .blocks = tally->exact_blocks};
		if (sum.blocks <= 0) {
			s->sum_at[i] = 0;
			continue;
		}
		query_sum_clear(s, &s->sum, s->sum_at[i] - 1);
		estimate_sum(s, slot_of_sum(s, i), whole, &sum);
		tally_add_sum(tally, (double)s->info->interval_bytes, &sum);
		/* The peak is taken to be at this moment and no other. */
		for (size_t k = 0; k < PEAK_MOMENTS; k++)
			tally->at[k] = sum.bytes;
	}
	return !s->error;
}

static bool add_estimated(struct query_state *s, uint32_t node, struct plain value)
{
	struct tally *tally = slot_tally(s, node);

	if (!tally)
		return false;
	tally->exact_bytes += (double)(int64_t)value.bytes;
	tally->exact_blocks += (double)(int64_t)value.blocks;
	return true;
}

/* Adds a part as the metric counts it. */
static bool add_part(struct query_state *s, const struct sums_part *part)
{
	for (size_t i = 0; i < part->nodes; i++) {
		uint32_t node = part->node[i] < s->slots ? part->node[i] : 0;
		struct plain value = part_value(s->query->metric, part, i), *sum;

		if (s->node_kept && !s->node_kept[node])
			continue;
		if (!s->exact) {
			if (!add_estimated(s, node, value))
				return false;
			continue;
		}
		sum = query_plain(s, node);
		if (!sum)
			return false;
		sum->blocks += value.blocks;
		sum->bytes += value.bytes;
	}
	return true;
}

/* In snapshots, windows and times are rounded up to the end of an interval. */
static bool part_counts(const struct query_state *s, const struct sums_part *part)
{
	const struct mayfly_query *q = s->query;

	return part->from_ns >= q->from_ns && part->from_ns < q->to_ns &&
	       (!at_time(s) || part->from_ns < q->at_ns);
}

/* Whether the part ends at the peak. */
static bool is_peak(struct query_state *s, const struct parts_peak *peak,
		    const struct sums_part *part)
{
	if (!query_at_peak(s->query) || part->end_event < peak->events)
		return false;
	s->peak.best = (struct moment){part->end_event, part->to_ns};
	return true;
}

static bool sum_parts(struct query_state *s)
{
	bool windows = at_time(s) || has_window(s->query), past = false;
	struct parts_peak peak = {0};
	struct sums_cursor *cursor;
	struct sums_part part;
	int more = query_at_peak(s->query) ? parts_find_peak(s->trace, &peak) : 0;

	if (!more)
		more = sums_cursor_open(s->trace, &cursor);
	if (more)
		return query_fail(s, more);
	if (query_at_peak(s->query) && peak.events == 0)
		past = true; /* nothing was ever live */
	while (!past && !s->error && (more = sums_cursor_next(cursor, &part)) == 1) {
		if (windows && !part_counts(s, &part))
			continue;
		add_part(s, &part);
		past = is_peak(s, &peak, &part);
	}
	sums_cursor_close(cursor);
	if (more < 0)
		return query_fail(s, more);
	return s->exact || estimate_sums(s, windows || query_at_peak(s->query));
}

/* The last chunk that begins at this event or before it. */
static size_t chunk_of_event(const struct mayfly_trace *t, uint64_t event)
{
	return t->chunks ? FIRST_THAT(i, 1, t->chunks, t->chunk[i].first_event > event) - 1 : 0;
}

/*
 * What was allocated in a window, or is live at a moment, which is then the window's end: the parts that lie in
 * it as a whole, and the events before and after these.
 *
 *	|-- part 0 --|-- part 1 --|-- part 2 --|-- part 3 --|
 *	       [ from             |            |       to [
 *	        events    parts 1 and 2         events
 *
 * For a moment, the pass over the events after the parts begins with the first one of all, as they may free
 * blocks from any time.
 */
static bool sum_window(struct query_state *s)
{
	bool moment = at_time(s);
	int64_t end_ns = moment ? s->query->at_ns + 1 : s->query->to_ns;
	uint64_t before = 0, from = 0, to = 0; /* to is 0 until there is a part */
	struct sums_cursor *cursor;
	struct sums_part part;
	int more = sums_cursor_open(s->trace, &cursor);

	if (more)
		return query_fail(s, more);
	while (!s->error && (more = sums_cursor_next(cursor, &part)) == 1) {
		if (part.from_ns >= end_ns)
			break;
		if (part.from_ns >= s->query->from_ns && part.to_ns < end_ns) {
			add_part(s, &part);
			from = to ? from : before;
			to = part.end_event;
		}
		before = part.end_event;
	}
	sums_cursor_close(cursor);
	if (more < 0)
		return query_fail(s, more);
	return !s->error &&
	       ((to && !from) || pass_events(s, query_first_chunk(s), 0, to ? from : UINT64_MAX)) &&
	       (!to || pass_events(s, moment ? 0 : chunk_of_event(s->trace, to), to, UINT64_MAX));
}

static bool gather(struct query_state *s)
{
	bool counters = counters_say(s), has_parts = trace_sums_parts(s->trace) > 0;
	struct parts_peak peak;
	int error;

	if (s->info->snapshot_ns && !counters)
		return query_fail(s, MAYFLY_E_ABSENT);
	if (counters && (s->info->snapshot_ns || (s->exact && has_parts)))
		return sum_parts(s);
	if (s->exact && has_parts && !query_asks_for_blocks(s) &&
	    (s->query->metric == MAYFLY_ALLOCATED || (at_time(s) && !has_window(s->query))))
		return sum_window(s);
	if (!query_at_peak(s->query))
		return sum_events(s);
	if (!s->exact || !has_parts || query_of_mappings(s->query)) {
		error = peak_find(s->trace, query_of_mappings(s->query), &s->peak);
		return error ? query_fail(s, error) : sum_events(s);
	}
	error = parts_find_peak(s->trace, &peak);
	if (error)
		return query_fail(s, error);
	s->peak.best = (struct moment){peak.events, peak.time_ns};
	return sum_events(s);
}

bool query_sum(struct query_state *s)
{
	s->slots = query_slots(s);
	if (!query_by_node(s->query) && s->slots > MOST_SLOTS)
		return query_fail(s, MAYFLY_E_TOO_LARGE);
	return sums_begin(s) && (s->fill ? s->fill(s) : gather(s)) && !s->error && sums_end(s);
}
