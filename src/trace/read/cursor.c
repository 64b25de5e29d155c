/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Going through the events of a trace, chunk by chunk.
 *
 *	EVNT chunk --decode.c--> arrays --match early frees--> batch --> one event after the other
 *	                                      |
 *	          blocks of this chunk, and of earlier ones what is still live:
 *
 *	shelf 0 (of chunk 0)	index in the chunk | 3 | 17 | 90 | ...
 *				the block          | . | x  | .  |	x: freed
 *	shelf 1 (of chunk 1)	...
 *
 * A free finds its shelf by the block's number, then the block's place on the shelf, and marks it
 * as freed; a shelf that is half empty closes its gaps.
 *
 * So memory is bounded by one chunk and what is live. Blocks are mostly freed in ascending or in
 * descending order of their numbers, so the places beside the last one are tried first.
 */
#include "trace/read/cursor.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/search.h"
#include "trace/read/decode.h"
#include "format/weights.h"
#include "format/format.h"

#define GONE BLOCK_GONE

struct shelf {
	uint64_t first; /* number of the chunk's first block */
	size_t count, live, room, hint;
	uint32_t *index; /* ascending: number - first */
	struct cursor_block *block;
};

struct mayfly_cursor {
	const struct mayfly_trace *t;
	uint64_t budget;
	int error;
	/* Chunk k is decoded by decoder k modulo their number. Chunks from next_chunk to before
	 * `started` have been begun. */
	struct decoder *decoder;
	size_t decoders, started;
	struct decoder *at; /* of the current chunk */
	size_t next_chunk, first_chunk;
	uint64_t first_known; /* number of the first block that is known */

	struct shelf *shelf; /* in the order of their chunks; none is empty but the last used */
	size_t shelves, shelf_room, last_shelf;

	struct cursor_batch b;
	struct cursor_promotion *promotion;
	size_t promotion_room, promoted;
	bool wants_promotions;
	size_t event, alloc, freed;
};

static int cursor_fail(struct mayfly_cursor *c, int error)
{
	if (!c->error)
		c->error = error;
	return c->error;
}

static int cursor_wrong(struct mayfly_cursor *c)
{
	return cursor_fail(c, MAYFLY_E_DAMAGED);
}

/* ---- decoders ---- */

static void run_decoder(void *decoder)
{
	decoder_run(decoder);
}

/* Without memory for a decoder, its chunk gets the error. */
static void start_decoder(struct mayfly_cursor *c)
{
	struct decoder *d = &c->decoder[c->started % c->decoders];
	const struct mayfly_helper *helper = &c->t->helper;

	assert(c->started < c->t->chunks && !d->task);
	if (!d->t && !decoder_begin(d, c->t))
		d->error = MAYFLY_E_MEMORY;
	d->chunk = &c->t->chunk[c->started++];
	if (!d->error && helper->start && c->started - 1 > c->next_chunk)
		d->task = helper->start(helper->context, run_decoder, d);
}

/* One chunk ahead at first, then more and more: many cursors read only a few chunks. */
static void start_decoders(struct mayfly_cursor *c)
{
	size_t ahead = c->next_chunk - c->first_chunk;

	if (ahead >= c->decoders)
		ahead = c->decoders - 1;
	while (c->started < c->t->chunks && c->started <= c->next_chunk + ahead)
		start_decoder(c);
}

/* The decoder of the next chunk, when it has finished. */
static struct decoder *take_decoder(struct mayfly_cursor *c)
{
	struct decoder *d = &c->decoder[c->next_chunk % c->decoders];
	const struct mayfly_helper *helper = &c->t->helper;

	assert(c->next_chunk < c->started && d->chunk == &c->t->chunk[c->next_chunk]);
	if (d->task)
		helper->finish(helper->context, d->task, true);
	else if (!d->error)
		decoder_run(d);
	d->task = NULL;
	return d;
}

static void free_decoders(struct mayfly_cursor *c)
{
	const struct mayfly_helper *helper = &c->t->helper;

	for (size_t i = 0; i < c->decoders; i++) {
		struct decoder *d = &c->decoder[i];

		if (d->task)
			helper->finish(helper->context, d->task, false);
		decoder_end(d);
	}
	free(c->decoder);
}

/* ---- what is live from earlier chunks ---- */

#define SHELF_ITEM (sizeof(uint32_t) + sizeof(struct cursor_block))

static void free_shelf(struct mayfly_cursor *c, struct shelf *s)
{
	free(s->index);
	free(s->block);
	c->budget += (uint64_t)s->room * SHELF_ITEM;
}

/* Removes shelves without blocks. */
static void drop_empty(struct mayfly_cursor *c)
{
	size_t kept = 0;

	for (size_t i = 0; i < c->shelves; i++) {
		if (c->shelf[i].live)
			c->shelf[kept++] = c->shelf[i];
		else
			free_shelf(c, &c->shelf[i]);
	}
	c->shelves = kept;
	c->last_shelf = 0;
}

/* Closes the gaps of freed blocks. Memory that cannot shrink stays. */
static void close_gaps(struct mayfly_cursor *c, struct shelf *s)
{
	uint32_t *index;
	struct cursor_block *block;
	size_t kept = 0;

	for (size_t i = 0; i < s->count; i++) {
		if (s->block[i].node == GONE)
			continue;
		s->index[kept] = s->index[i];
		s->block[kept++] = s->block[i];
	}
	assert(kept == s->live);
	s->count = kept;
	s->hint = 0;
	index = realloc(s->index, (kept + 1) * sizeof(*index));
	block = realloc(s->block, (kept + 1) * sizeof(*block));
	if (index)
		s->index = index;
	if (block)
		s->block = block;
	if (index && block) {
		c->budget += (uint64_t)(s->room - kept) * SHELF_ITEM;
		s->room = kept;
	}
}

static struct shelf *find_shelf(struct mayfly_cursor *c, uint64_t number)
{
	size_t last = c->last_shelf;

	if (last < c->shelves && number >= c->shelf[last].first &&
	    (last + 1 == c->shelves || number < c->shelf[last + 1].first))
		return &c->shelf[last];
	last = FIRST_THAT(i, 0, c->shelves, c->shelf[i].first > number);
	if (!last)
		return NULL;
	c->last_shelf = last - 1;
	return &c->shelf[last - 1];
}

/* The place of a block on the shelf, s->count when it has none. */
static size_t find_on_shelf(struct shelf *s, uint64_t index)
{
	size_t low;

	if (s->hint + 1 < s->count && s->index[s->hint + 1] == index)
		return ++s->hint;
	if (s->hint && s->hint <= s->count && s->index[s->hint - 1] == index)
		return --s->hint;
	low = FIRST_THAT(i, 0, s->count, s->index[i] >= index);
	if (low == s->count || s->index[low] != index)
		return s->count;
	return s->hint = low;
}

/* Takes a block out. False: it is not there. */
static bool take_from_shelf(struct mayfly_cursor *c, uint64_t number, struct cursor_block *block)
{
	struct shelf *s = find_shelf(c, number);
	size_t i = s ? find_on_shelf(s, number - s->first) : 0;

	if (!s || i == s->count || s->block[i].node == GONE)
		return false;
	assert(s->live && s->live <= s->count);
	*block = s->block[i];
	s->block[i].node = GONE;
	s->live--;
	if (s->count >= 64 && s->live < s->count / 2)
		close_gaps(c, s);
	return true;
}

/* ---- a chunk ---- */

/* A shelf for `count` blocks. */
static struct shelf *new_shelf(struct mayfly_cursor *c, size_t count)
{
	uint64_t bytes = (uint64_t)count * SHELF_ITEM;
	struct shelf *s;

	drop_empty(c);
	if (!trace_grow(&c->budget, &c->error, GROWING(c->shelf, c->shelf_room, c->shelves), 1))
		return NULL;
	if (bytes > c->budget) {
		cursor_fail(c, MAYFLY_E_TOO_LARGE);
		return NULL;
	}
	/* find_shelf() needs this order. */
	assert(!c->shelves || c->shelf[c->shelves - 1].first < c->b.e.first_sample);
	s = &c->shelf[c->shelves];
	*s = (struct shelf){.first = c->b.e.first_sample, .live = count, .room = count};
	s->index = malloc((count + 1) * sizeof(*s->index));
	s->block = malloc((count + 1) * sizeof(*s->block));
	if (!s->index || !s->block) {
		free(s->index);
		free(s->block);
		cursor_fail(c, MAYFLY_E_MEMORY);
		return NULL;
	}
	c->budget -= bytes;
	c->shelves++;
	return s;
}

/* The live blocks of the current chunk go to a shelf. */
static int keep_live(struct mayfly_cursor *c)
{
	const struct event_batch *e = &c->b.e;
	const struct decoder *d = c->at;
	struct shelf *s = d && d->own_live ? new_shelf(c, d->own_live) : NULL;

	if (!s)
		return c->error;
	for (size_t i = 0; i < e->allocs; i++) {
		if (d->own[i].node == GONE)
			continue;
		s->index[s->count] = (uint32_t)i;
		s->block[s->count++] = d->own[i];
	}
	assert(s->count == s->live);
	return 0;
}

/* Finds the blocks of earlier chunks that this chunk's frees name. */
static int match_early(struct mayfly_cursor *c)
{
	struct decoder *d = c->at;

	for (size_t i = 0; i < d->earlies; i++) {
		uint64_t number = d->e.freed[d->early[i]];
		struct cursor_block *block = &d->named[d->early[i]];

		if (take_from_shelf(c, number, block))
			continue;
		if (number >= c->first_known)
			return cursor_wrong(c);
		*block = (struct cursor_block){.node = GONE};
	}
	return 0;
}

/* ---- promotions ---- */

/* The block as it is before the frees of the current chunk. False: it is not live. */
static bool look_at_block(struct mayfly_cursor *c, struct cursor_promotion *p)
{
	const struct event_batch *e = &c->b.e;
	struct shelf *s;
	size_t i;

	if (p->number >= e->first_sample) {
		i = (size_t)(p->number - e->first_sample);
		if (i >= e->allocs)
			return false;
		decode_block(e, i, 0, &p->block); /* its time is filled in later */
		return true;
	}
	s = find_shelf(c, p->number);
	i = s ? find_on_shelf(s, p->number - s->first) : 0;
	if (!s || i == s->count || s->block[i].node == GONE)
		return false;
	p->block = s->block[i];
	return true;
}

/* Moves the time between those of the events around it. */
static int64_t bound_promotion(const struct event_batch *e, size_t event, int64_t time_ns)
{
	if (event < e->events && time_ns > e->time_ns[event])
		time_ns = e->time_ns[event];
	if (event && time_ns < e->time_ns[event - 1])
		time_ns = e->time_ns[event - 1];
	return time_ns;
}

struct promotion_columns {
	uint64_t unit;
	size_t count;
	const uint64_t *event, *block, *time;
};

static void read_promotion_columns(struct chunk_reader *r, struct promotion_columns *p)
{
	uint64_t count = varint_u(&r->head);

	p->unit = varint_u(&r->head);
	if (count > TRACE_CHUNK_EVENTS || !p->unit || p->unit > TRACE_UNIT_NS)
		chunk_fail(r, MAYFLY_E_DAMAGED);
	if (r->error || !chunk_columns(r, 0x2a))
		return;
	p->count = (size_t)count;
	p->event = chunk_numbers(r, COLUMN_PROMOTION_EVENT, p->count);
	p->block = chunk_numbers(r, COLUMN_PROMOTION_BLOCK, p->count);
	p->time = chunk_numbers(r, COLUMN_PROMOTION_TIME, p->count);
}

void promotions_check(struct chunk_reader *r)
{
	struct promotion_columns columns;

	read_promotion_columns(r, &columns);
}

/* Reads the chunk that r has begun, which opening has told if it is bad. Promotions of unknown blocks
 * are left out. */
static void read_promotions(struct mayfly_cursor *c, struct chunk_reader *r)
{
	const struct event_batch *e = &c->b.e;
	int64_t time_ns = e->events ? e->time_ns[0] : 0;
	uint64_t number = 0, at = 0;
	struct promotion_columns read;

	read_promotion_columns(r, &read);
	if (r->error || (read.count > c->promotion_room &&
			 !decode_room(&c->budget, &c->error, &c->promotion, c->promotion_room,
				      read.count, sizeof(*c->promotion))))
		return;
	if (read.count > c->promotion_room)
		c->promotion_room = read.count;
	for (size_t i = 0; i < read.count; i++) {
		struct cursor_promotion *p = &c->promotion[c->b.promotions];
		uint64_t step = (uint64_t)varint_unzigzag(read.time[i]) * read.unit;

		at = read.event[i] <= e->events - at ? at + read.event[i] : e->events;
		number += (uint64_t)varint_unzigzag(read.block[i]);
		time_ns = bound_promotion(e, (size_t)at, (int64_t)((uint64_t)time_ns + step));
		*p = (struct cursor_promotion){.event = at, .number = number, .time_ns = time_ns};
		c->b.promotions += look_at_block(c, p);
	}
}

/* A chunk of promotions stands right after that of the events. */
static void load_promotions(struct mayfly_cursor *c, const struct chunk_header *events)
{
	const uint8_t *at = events->bytes + events->stored;
	struct chunk_reader r = {.compress = c->at->reader.compress, .budget = &c->budget};
	struct chunk_header h;

	c->promoted = 0;
	if (chunk_find(at, (size_t)(c->t->data + c->t->size - at), true, &h) ||
	    h.type != TRACE_PROMOTIONS)
		return;
	if (chunk_begin(&r, &h))
		read_promotions(c, &r);
	chunk_end(&r);
	c->b.promotion = c->promotion;
}

static void fill_batch(struct mayfly_cursor *c)
{
	const struct decoder *d = c->at;

	c->b.e = d->e;
	c->b.freed = d->named;
	c->b.alloc_time_ns = d->own_ns;
	c->b.chunk = d->chunk;
}

static int load_chunk(struct mayfly_cursor *c)
{
	if (keep_live(c))
		return c->error;
	memset(&c->b, 0, sizeof(c->b));
	c->event = c->alloc = c->freed = 0;
	if (c->at)
		decoder_clear(c->at);
	start_decoders(c);
	c->at = take_decoder(c);
	c->next_chunk++;
	if (c->at->error)
		return cursor_fail(c, c->at->error);
	fill_batch(c);
	if (c->wants_promotions)
		load_promotions(c, &c->at->header);
	if (c->error || match_early(c))
		return c->error;
	for (size_t i = 0; i < c->b.promotions; i++) {
		struct cursor_promotion *p = &c->promotion[i];

		if (p->number >= c->b.e.first_sample)
			p->block.time_ns = c->b.alloc_time_ns[p->number - c->b.e.first_sample];
	}
	return 0;
}

int cursor_next_batch(struct mayfly_cursor *c, struct cursor_batch *batch)
{
	if (c->error)
		return c->error;
	if (c->next_chunk == c->t->chunks)
		return 0;
	if (load_chunk(c))
		return c->error;
	*batch = c->b;
	return 1;
}

int cursor_start_at(struct mayfly_cursor *c, size_t chunk)
{
	if (c->next_chunk != c->first_chunk || c->b.chunk || chunk > c->t->chunks)
		return MAYFLY_E_RANGE;
	c->next_chunk = c->first_chunk = c->started = chunk;
	if (chunk < c->t->chunks)
		c->first_known = c->t->chunk[chunk].first_alloc;
	return 0;
}

void cursor_live(const struct mayfly_cursor *c,
		 void (*live)(void *context, uint64_t number, const struct cursor_block *block),
		 void *context)
{
	for (size_t i = 0; i < c->shelves; i++) {
		const struct shelf *s = &c->shelf[i];

		for (size_t k = 0; k < s->count; k++)
			if (s->block[k].node != GONE)
				live(context, s->first + s->index[k], &s->block[k]);
	}
	for (size_t i = 0; i < c->b.e.allocs; i++)
		if (c->at->own[i].node != GONE)
			live(context, c->b.e.first_sample + i, &c->at->own[i]);
}

/* ---- one event after the other ---- */

int mayfly_cursor_open(const struct mayfly_trace *trace, struct mayfly_cursor **cursor)
{
	struct mayfly_cursor *c;

	*cursor = NULL;
	if (trace->info.snapshot_ns)
		return MAYFLY_E_ABSENT;
	c = calloc(1, sizeof(*c));
	if (!c)
		return MAYFLY_E_MEMORY;
	c->t = trace;
	c->budget = trace_budget(trace);
	c->decoders = trace->helper.start ? trace->helper.tasks + 1 : 1;
	c->decoder = calloc(c->decoders, sizeof(*c->decoder));
	if (!c->decoder) {
		free(c);
		return MAYFLY_E_MEMORY;
	}
	*cursor = c;
	return 0;
}

static void fill_event(const struct mayfly_cursor *c, const struct cursor_block *b,
		       struct mayfly_event *event)
{
	event->node = b->node;
	event->alloc_thread = b->thread;
	event->heap = MAYFLY_FLAG_HEAP(b->flags);
	event->size = b->size;
	event->hits = b->hits;
	event->labels = b->labels;
	event->inherited = b->flags & MAYFLY_FLAG_INHERITED;
	event->interval = trace_interval(c->t, b->flags, b->interval_log2);
	event->alloc_time_ns = b->time_ns;
	if (!b->hits) { /* what exact traces are made of */
		event->weight_bytes = (double)b->size;
		event->weight_blocks = 1;
		return;
	}
	sample_weight(estimate_sampler(c->t->info.sampler, b->flags), event->interval, b->size,
		      b->hits, &event->weight_bytes, &event->weight_blocks);
}

void mayfly_cursor_promotions(struct mayfly_cursor *c)
{
	c->wants_promotions = true;
}

/* False: an event comes first. */
static bool next_promotion(struct mayfly_cursor *c, struct mayfly_event *event)
{
	const struct cursor_promotion *p;

	if (c->promoted == c->b.promotions)
		return false;
	p = &c->promotion[c->promoted];
	if (p->event > c->event)
		return false;
	c->promoted++;
	*event = (struct mayfly_event){
	    .kind = MAYFLY_PROMOTE,
	    .time_ns = p->time_ns,
	    .thread = p->block.thread,
	    .sample = p->number,
	};
	fill_event(c, &p->block, event);
	return true;
}

int mayfly_cursor_next(struct mayfly_cursor *c, struct mayfly_event *event)
{
	const struct event_batch *e = &c->b.e;
	struct cursor_block block;
	size_t i;

	if (c->error)
		return c->error;
	if (next_promotion(c, event))
		return 1;
	while (c->event == e->events) {
		if (c->next_chunk == c->t->chunks)
			return 0;
		if (load_chunk(c))
			return c->error;
		if (next_promotion(c, event))
			return 1;
	}
	event->time_ns = e->time_ns[c->event];
	if (e->is_free[c->event++]) {
		i = c->freed++;
		event->kind = MAYFLY_FREE;
		event->flags = e->free_flags[i];
		event->thread = e->free_thread[i];
		event->sample = e->freed[i];
		fill_event(c, &c->b.freed[i], event);
		return 1;
	}
	i = c->alloc++;
	/* In the cursor's own copy the block may be marked as freed already. */
	decode_block(e, i, c->b.alloc_time_ns[i], &block);
	event->kind = MAYFLY_ALLOC;
	event->flags = block.flags;
	event->thread = block.thread;
	event->sample = e->first_sample + i;
	fill_event(c, &block, event);
	return 1;
}

void mayfly_cursor_close(struct mayfly_cursor *c)
{
	if (!c)
		return;
	free_decoders(c);
	for (size_t i = 0; i < c->shelves; i++)
		free_shelf(c, &c->shelf[i]);
	free(c->shelf);
	free(c->promotion);
	free(c);
}
