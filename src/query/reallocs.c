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
#include <string.h>

/* mayfly_reallocs_free() frees this whole struct. */
struct reallocs_answer {
	struct mayfly_reallocs reallocs; /* must be first: the caller's pointer is to it */
	struct mayfly_result *result;	 /* the rows point into it */
	struct mayfly_row *row;
	struct mayfly_growth *growth;
};

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
	struct reallocs_answer *a;
	struct chains live;
	struct chain *waiting;	      /* [threads]: between the halves of a realloc */
	struct numbering slots;	      /* the slots of ended chains */
	struct mayfly_growth *growth; /* of each of these slots */
	size_t growth_room;
	struct shown shown;
};

/* ---- chains by block ---- */

static size_t home(const struct chains *c, uint64_t block)
{
	return (size_t)numbering_mix(block) & (c->places - 1);
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

	number = numbering_of(&r->slots, (struct key){{slot}}, &is_new);
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

static bool reallocs_take_free(struct reallocs_run *r, const struct cursor_batch *b, size_t freed,
			       int64_t time_ns)
{
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
	return !known || end_chain(r, &c, block, query_fate(block, time_ns, thread));
}

static bool reallocs_take_alloc(struct reallocs_run *r, uint64_t number,
				const struct cursor_block *b)
{
	struct chain *waiting, c;

	if (b->thread >= r->s->info->threads)
		return true;
	waiting = &r->waiting[b->thread];
	c = *waiting;
	waiting->block = 0;
	if (!(b->flags & MAYFLY_FLAG_REALLOC) || !c.block)
		return true;
	c.block = number + 1;
	c.steps++;
	c.copied += b->size < c.size ? b->size : c.size;
	c.size = b->size;
	return reallocs_add(&r->live, &c) || query_fail(r->s, MAYFLY_E_MEMORY);
}

static bool reallocs_take_batch(struct reallocs_run *r, const struct cursor_batch *b)
{
	size_t alloc = 0, freed = 0;
	bool taken = true;

	for (size_t i = 0; taken && i < b->e.events; i++) {
		if (b->e.is_free[i]) {
			taken = reallocs_take_free(r, b, freed++, b->e.time_ns[i]);
		} else {
			struct cursor_block block = query_block(b, alloc);

			taken = reallocs_take_alloc(r, b->e.first_sample + alloc, &block);
			alloc++;
		}
	}
	return taken;
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
	struct mayfly_cursor *cursor;
	struct cursor_batch batch;
	int more = mayfly_cursor_open(s->trace, &cursor);

	if (more)
		return query_fail(s, more);
	r->waiting = query_zeroed(s, s->info->threads, sizeof(*r->waiting));
	while (r->waiting && (more = cursor_next_batch(cursor, &batch)) == 1)
		if (!reallocs_take_batch(r, &batch))
			break;
	if (more == 0 && !s->error)
		cursor_live(cursor, reallocs_take_live, r);
	mayfly_cursor_close(cursor);
	return more >= 0 ? !s->error : query_fail(s, more);
}

/* ---- the answer ---- */

static void spread(struct reallocs_run *r)
{
	for (size_t i = 0; i < r->slots.count; i++) {
		uint32_t list = r->shown.head[r->slots.key[i].word[0]];

		add_growth(&r->a->reallocs.total, &r->growth[i]);
		if (list == NONE)
			add_growth(&r->a->growth[r->shown.rows], &r->growth[i]);
		for (; list != NONE; list = r->shown.cell[list].next)
			add_growth(&r->a->growth[r->shown.cell[list].row], &r->growth[i]);
	}
}

static bool run_reallocs(struct reallocs_run *r, const struct mayfly_trace *trace,
			 const struct mayfly_query *query, size_t rows)
{
	struct mayfly_reallocs *out = &r->a->reallocs;

	r->s->fill = reallocs_fill;
	r->s->fill_context = r;
	r->a->result = query_answer(r->s, trace, query);
	if (!r->a->result)
		return false;
	if (r->a->result->rows < rows)
		rows = r->a->result->rows;
	out->row = r->a->row = query_shown_rows(r->s, r->a->result, rows);
	out->growth = r->a->growth = query_zeroed(r->s, rows + 1, sizeof(*out->growth));
	if (r->s->error || !query_shown_make(r->s, rows, &r->shown))
		return false;
	out->rows = rows + 1;
	spread(r);
	return true;
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
	r.a = calloc(1, sizeof(*r.a));
	if (!r.a)
		return MAYFLY_E_MEMORY;
	run_reallocs(&r, trace, &q, rows);
	query_shown_free(&r.shown);
	numbering_free(&r.slots);
	free(r.live.place);
	free(r.waiting);
	free(r.growth);
	query_end(&s);
	if (s.error)
		mayfly_reallocs_free(&r.a->reallocs);
	else
		*reallocs = &r.a->reallocs;
	return s.error;
}

void mayfly_reallocs_free(struct mayfly_reallocs *reallocs)
{
	struct reallocs_answer *a = (struct reallocs_answer *)reallocs;

	if (!a)
		return;
	mayfly_result_free(a->result);
	free(a->row);
	free(a->growth);
	free(a);
}
