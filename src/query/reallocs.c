/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reallocs.c: chains of realloc, and the rows of their last blocks.
 *
 * The two halves of a realloc, a free and an allocation, are consecutive events of their thread.
 * Between them the chain is stored with the thread ("waits"); otherwise with its block:
 *
 *	thread 1  alloc #7   free #7 r   alloc #9 r        free #9 r   alloc #12 r      free #12
 *	          block 7 -> waits ----> block 9: 1 step -> waits ---> block 12: 2 steps: ends
 *
 * One pass over the events finds the chains; when a chain ends, it counts for the slot of its last
 * block. The sums of bytes copied and of chains become rows as in any other answer.
 */
#include "query/query.h"

#include <stdlib.h>

#include "base/array.h"

struct chain {
	uint64_t block;	 /* its number + 1; 0: an empty place of the table */
	uint64_t steps;	 /* reallocs so far */
	uint64_t copied; /* bytes */
	uint64_t first;	 /* size of the chain's first block */
	uint64_t size;
};

/* Live blocks made by realloc, by number: open addressing. */
struct chains {
	struct chain *place;
	size_t places, count; /* places: a power of two */
};

struct reallocs_run {
	struct query_state *s;
	struct mayfly_reallocs *a;
	struct chains live;
	struct chain *waiting;	      /* [threads]: between the halves of a realloc */
	struct interner slots;	      /* the slots of ended chains */
	struct mayfly_growth *growth; /* of each of these slots */
	size_t growth_room;
};

/* ---- chains by block ---- */

static size_t home(const struct chains *c, uint64_t block)
{
	return (size_t)hash_mix(block) & (c->places - 1);
}

static struct chain *reallocs_find(const struct chains *c, uint64_t block)
{
	for (size_t i = c->places ? home(c, block) : 0; c->places && c->place[i].block;
	     i = (i + 1) & (c->places - 1))
		if (c->place[i].block == block)
			return &c->place[i];
	return NULL;
}

static void reallocs_put(struct chains *c, const struct chain *chain)
{
	size_t i = home(c, chain->block);

	while (c->place[i].block)
		i = (i + 1) & (c->places - 1);
	c->place[i] = *chain;
}

static bool reallocs_add(struct chains *c, const struct chain *chain)
{
	if (c->count + c->count / 2 >= c->places) {
		struct chains grown = {.places = c->places ? 2 * c->places : 1024};

		grown.place = calloc(grown.places, sizeof(*grown.place));
		if (!grown.place)
			return false;
		for (size_t i = 0; i < c->places; i++)
			if (c->place[i].block)
				reallocs_put(&grown, &c->place[i]);
		grown.count = c->count;
		free(c->place);
		*c = grown;
	}
	reallocs_put(c, chain);
	c->count++;
	return true;
}

/* Removes a chain and closes the gap, so that all chains after it are still found. */
static void reallocs_take_out(struct chains *c, struct chain *chain)
{
	size_t gap = (size_t)(chain - c->place), mask = c->places - 1;

	c->count--;
	for (size_t i = (gap + 1) & mask; c->place[i].block; i = (i + 1) & mask) {
		if (((i - home(c, c->place[i].block)) & mask) >= ((i - gap) & mask)) {
			c->place[gap] = c->place[i];
			gap = i;
		}
	}
	c->place[gap].block = 0;
}

/* ---- events ---- */

static void add_growth(struct mayfly_growth *to, const struct mayfly_growth *from)
{
	to->chains += from->chains;
	to->steps += from->steps;
	to->longest = from->longest > to->longest ? from->longest : to->longest;
	to->copied_bytes += from->copied_bytes;
	to->first_bytes += from->first_bytes;
	to->last_bytes += from->last_bytes;
}

static bool count_chain(struct reallocs_run *r, uint32_t slot, const struct chain *c)
{
	struct mayfly_growth g = {1, c->steps, c->steps, c->copied, c->first, c->size};
	struct plain *sum = query_plain(r->s, slot);
	size_t before = r->slots.count;
	uint32_t number;
	bool is_new;

	number = interner_add(&r->slots, (struct key){{slot}}, &is_new);
	if (!sum || number == NONE ||
	    !array_reserve(&r->growth, &r->growth_room, before, sizeof(*r->growth)))
		return query_fail(r->s, MAYFLY_E_MEMORY);
	if (is_new)
		r->growth[number] = (struct mayfly_growth){0};
	add_growth(&r->growth[number], &g);
	sum->blocks++;
	sum->bytes += c->copied;
	return true;
}

/* Counts the chain of a block that is not reallocated any more. */
static bool end_chain(struct reallocs_run *r, const struct chain *c, const struct cursor_block *b,
		      struct fate fate)
{
	const struct mayfly_query *q = r->s->query;

	if (!query_in_window(q, b->time_ns) || !query_lifetime_fits(q, fate.lifetime) ||
	    !query_keeps(r->s, b))
		return true;
	return count_chain(r, query_slot(r->s, b, fate), c);
}

static bool reallocs_take_free(void *context, const struct cursor_batch *b, size_t event,
			       size_t freed)
{
	struct reallocs_run *r = context;
	uint32_t thread = b->e.free_thread[freed];
	struct chain *known = reallocs_find(&r->live, b->e.freed[freed] + 1), c = {.block = 1};
	const struct cursor_block *block = &b->freed[freed];

	if (known) {
		c = *known;
		reallocs_take_out(&r->live, known);
	}
	if (b->e.free_flags[freed] & MAYFLY_FLAG_REALLOC) {
		if (!known)
			c.first = block->size;
		c.size = block->size;
		if (thread < r->s->info->threads)
			r->waiting[thread] = c;
		return true;
	}
	return !known || end_chain(r, &c, block, query_fate(b, event, freed));
}

static bool reallocs_take_alloc(void *context, const struct cursor_batch *b, size_t event,
				size_t alloc)
{
	struct reallocs_run *r = context;
	uint64_t size = b->e.size[alloc];
	struct chain *waiting, c;

	(void)event;
	/* A realloc that made an inherited block was the parent's. */
	if (b->e.thread[alloc] >= r->s->info->threads ||
	    b->e.alloc_flags[alloc] & MAYFLY_FLAG_INHERITED)
		return true;
	waiting = &r->waiting[b->e.thread[alloc]];
	c = *waiting;
	waiting->block = 0;
	if (!(b->e.alloc_flags[alloc] & MAYFLY_FLAG_REALLOC) || !c.block)
		return true;
	c.block = b->e.first_sample + alloc + 1;
	c.steps++;
	c.copied += size < c.size ? size : c.size;
	c.size = size;
	return reallocs_add(&r->live, &c) || query_fail(r->s, MAYFLY_E_MEMORY);
}

static void reallocs_take_live(void *context, uint64_t number, const struct cursor_block *block)
{
	struct reallocs_run *r = context;
	const struct chain *c = reallocs_find(&r->live, number + 1);

	if (c && !r->s->error)
		end_chain(r, c, block, NEVER_FREED);
}

static bool reallocs_fill(struct query_state *s)
{
	struct reallocs_run *r = s->fill_context;
	const struct event_pass pass = {
	    .context = r,
	    .alloc = reallocs_take_alloc,
	    .freed = reallocs_take_free,
	    .live = reallocs_take_live,
	};

	r->waiting = query_scratch(s, s->info->threads, sizeof(*r->waiting));
	return r->waiting && query_pass(s, &pass);
}

/* ---- the answer ---- */

static void spread(struct reallocs_run *r, struct mayfly_growth *growth)
{
	const struct shown *shown = &r->s->shown;

	for (size_t i = 0; i < r->slots.count; i++) {
		uint32_t list = shown->head[r->slots.key[i].word[0]];

		add_growth(&r->a->total, &r->growth[i]);
		for (; list != NONE; list = shown->cell[list].next)
			add_growth(&growth[shown->cell[list].row], &r->growth[i]);
	}
}

static void run_reallocs(struct reallocs_run *r, const struct mayfly_trace *trace,
			 const struct mayfly_query *query, size_t rows)
{
	struct mayfly_reallocs *out = r->a;
	const struct mayfly_result *result = query_shown(r->s, out, trace, query, rows);
	struct mayfly_growth *growth;

	if (!result)
		return;
	out->rows = r->s->shown.rows + 1;
	out->row = query_shown_rows(r->s, out, result);
	out->growth = growth = answer_array(r->s, out, out->rows, sizeof(*growth));
	if (growth)
		spread(r, growth);
}

int mayfly_reallocs_run(const struct mayfly_trace *trace, const struct mayfly_query *query,
			size_t rows, struct mayfly_reallocs **reallocs)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);
	struct mayfly_query q = *query;
	struct query_state s = {0};
	struct reallocs_run r = {.s = &s};

	if (info->mode != MAYFLY_EXACT || info->thinned || info->snapshot_ns)
		return MAYFLY_E_ABSENT;
	q.metric = MAYFLY_ALLOCATED;
	s.fill = reallocs_fill;
	s.fill_context = &r;
	r.a = answer_new(&s, sizeof(*r.a));
	run_reallocs(&r, trace, &q, rows);
	interner_free(&r.slots);
	free(r.live.place);
	free(r.growth);
	return answer_finish(&s, r.a, reallocs);
}

void mayfly_reallocs_free(struct mayfly_reallocs *reallocs)
{
	answer_free(reallocs);
}
