/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening a trace: checks every chunk's CRC, decodes the tables, and lists the chunks of events,
 * which only cursors decode.
 *
 *	header  INFO  | STRS MODS THRD FRMS TREE EVNT | FRMS TREE EVNT SUMS | ...  INFO  indx
 *	                 tables_read.c            listed with what the tables have there
 *
 * Opening believes what the index says of each chunk. A cursor that finds something else in a chunk
 * reports that the trace is damaged. Without an index, as when the trace was cut off, opening goes
 * through all events once and also cuts off what is damaged. side_chunks.c has what is left out
 * instead.
 *
 * Hostile input: all memory that depends on the file is taken from a budget of 64 MiB + 4096 times
 * the size of the file, one for opening and another for each cursor.
 */
#include "trace/read/reader.h"

#include <stdlib.h>
#include <string.h>

#include "trace/read/cursor.h"
#include "format/format.h"
#include "trace/read/sums.h"
#include "trace/sums_build.h"
#include "trace/read/track_read.h"

struct opening {
	struct mayfly_trace *t;
	struct table_reader tables;
	uint32_t group_chains; /* chains before the current group */
	bool seen_info, indexed, damaged;
	bool finished; /* the trailer is right */
	int stopped;   /* why no further chunk was read */
	size_t sound;  /* a place behind unsound chunks where a sound one is, or the trailer */
};

static void opening_fail(struct opening *o, int error)
{
	chunk_fail(&o->tables.chunk, error);
}

/* ---- chunks of events and sums ---- */

static void note_chunk(struct opening *o, size_t offset)
{
	struct mayfly_trace *t = o->t;

	if (!tables_grow(&o->tables, GROWING(t->chunk, t->chunk_room, t->chunks), 1))
		return;
	t->chunk[t->chunks++] = (struct trace_chunk){
	    .offset = offset,
	    .nodes = (uint32_t)t->info.nodes,
	    .threads = (uint32_t)t->info.threads,
	    .frames = (uint32_t)t->info.frames,
	    .chains = (uint32_t)t->chains,
	    .first_chain = o->group_chains,
	};
	o->group_chains = (uint32_t)t->chains;
}

static void note_sums(struct opening *o, size_t offset)
{
	struct mayfly_trace *t = o->t;

	if (!tables_grow(&o->tables, GROWING(t->sums, t->sums_room, t->sums_chunks), 1))
		return;
	t->sums[t->sums_chunks++] = (struct trace_sums){
	    .offset = offset,
	    .nodes = (uint32_t)t->info.nodes,
	    .chains = (uint32_t)t->chains,
	    .frames = (uint32_t)t->info.frames,
	};
	if (t->info.snapshot_ns)
		note_chunk(o, offset);
}

static bool read_index_entry(struct varint_in *in, const struct mayfly_info *info,
			     struct trace_chunk *c, int64_t unit, int64_t *time, uint64_t *offset)
{
	uint64_t events, allocs, inherited, lasts;
	int64_t from;

	*offset += varint_u(in);
	events = varint_u(in);
	allocs = varint_u(in);
	inherited = varint_u(in);
	from = varint_s(in);
	lasts = varint_u(in);
	if (info->mode == MAYFLY_EXACT || info->snapshot_ns) {
		c->live_bytes = varint_u(in);
		c->largest_bytes = varint_u(in);
	}
	if (in->bad || *offset != c->offset || allocs > events || inherited > allocs ||
	    events > (info->snapshot_ns ? (uint64_t)INT64_MAX : TRACE_CHUNK_EVENTS) ||
	    lasts > INT64_MAX || __builtin_add_overflow(*time, from, &from) ||
	    __builtin_add_overflow(from, (int64_t)lasts, time) ||
	    __builtin_mul_overflow(from, unit, &c->from_ns) ||
	    __builtin_mul_overflow(*time, unit, &c->to_ns) || c->from_ns < -TRACE_LATEST_NS ||
	    c->to_ns > TRACE_LATEST_NS)
		return false;
	c->events = events;
	c->allocs = allocs;
	c->inherited = inherited;
	return true;
}

static bool read_index(struct opening *o)
{
	struct mayfly_trace *t = o->t;
	struct varint_in *in = &o->tables.chunk.head;
	uint64_t chunks = varint_u(in), unit = varint_u(in), offset = 0;
	int64_t time = 0;

	if (chunks != t->chunks || unit < 1 || unit > 1000000000)
		return false;
	for (size_t i = 0; i < t->chunks; i++)
		if (!read_index_entry(in, &t->info, &t->chunk[i], (int64_t)unit, &time, &offset) ||
		    (i && t->chunk[i].from_ns < t->chunk[i - 1].to_ns))
			return false;
	return !in->bad && !varint_left(in);
}

/* The trailer after the index: offset of the index, its CRC-32, zero, magic. */
static bool check_trailer(const struct mayfly_trace *t, size_t index, size_t end)
{
	struct varint_in in = varint_begin(t->data + end, t->size - end);
	uint64_t offset = varint_fixed(&in, 8);
	uint32_t crc = (uint32_t)varint_fixed(&in, 4);

	varint_fixed(&in, 4);
	return t->size - end == TRACE_TRAILER_BYTES && offset == index &&
	       crc == trace_checksum(0, t->data + end, 8) && memcmp(in.at, TRACE_END_MAGIC, 8) == 0;
}

static void read_contents(struct opening *o, uint32_t type, size_t at)
{
	struct chunk_reader *c = &o->tables.chunk;

	if (!o->seen_info && type != TRACE_INFO) {
		opening_fail(o, MAYFLY_E_DAMAGED);
	} else if (type == TRACE_INFO) {
		o->seen_info = true;
		info_read(&o->tables);
	} else if (type == TRACE_INDEX) {
		o->indexed = o->finished && read_index(o);
		if (o->finished && !o->indexed)
			opening_fail(o, MAYFLY_E_DAMAGED);
	} else if (type == TRACE_POOLS || type == TRACE_MAPPED) {
		; /* for readers that do not know these heaps */
	} else if (type == TRACE_PROMOTIONS) {
		promotions_check(c);
	} else if (type == TRACE_COUNTERS) {
		counters_read(o->t, c);
	} else if (type == TRACE_FRAGMENTS) {
		fragments_read(o->t, c);
	} else if (type == TRACE_MAPPINGS) {
		residency_read(o->t, c);
	} else if (type == TRACE_PICTURE) {
		picture_read(o->t, c);
	} else if (type == TRACE_ERRORS) {
		errors_read(o->t, c);
	} else if (!tables_read(&o->tables, type) && !tracks_read(&o->tables, type, at) &&
		   TRACE_ESSENTIAL(type)) {
		opening_fail(o, MAYFLY_E_VERSION);
	}
}

/* A chunk that the trace can be used without is unsound; `kind` as for side_chunk_lost(). */
static void lose_chunk(struct opening *o, uint32_t type, size_t at, uint64_t kind)
{
	o->tables.chunk.error = 0;
	side_chunk_lost(o->t, &o->tables.chunk, type, at, kind);
}

/* One chunk that is not of events. False: it was the last. */
static bool read_other_chunk(struct opening *o, const struct chunk_header *h, size_t at,
			     size_t next)
{
	struct chunk_reader *c = &o->tables.chunk;
	uint64_t kind = UINT64_MAX;

	if (h->type == TRACE_INDEX)
		o->finished = check_trailer(o->t, at, next);
	if (chunk_begin(c, h)) {
		struct varint_in first = c->head;

		kind = varint_u(&first);
		read_contents(o, h->type, at);
	}
	if (c->error && c->error != MAYFLY_E_MEMORY && o->seen_info && side_chunk(o->t, h->type))
		lose_chunk(o, h->type, at, kind);
	return h->type != TRACE_INDEX;
}

/* Whether the trace goes on behind an unsound chunk that it can be used without: behind it, and others
 * like it, there is a sound one, or the trailer. */
static bool goes_on(struct opening *o, const struct chunk_header *unsound, size_t at)
{
	const struct mayfly_trace *t = o->t;
	struct chunk_header h = *unsound;

	while (at >= o->sound) { /* else it is known from a chunk before */
		size_t next = at + TRACE_CHUNK_BYTES + h.stored;
		int error;

		if (!o->seen_info || !side_chunk(t, h.type))
			return false;
		if (h.type == TRACE_INDEX)
			error = check_trailer(t, at, next) ? 0 : MAYFLY_E_EMPTY;
		else
			error = chunk_find(t->data + next, t->size - next, true, &h);
		if (error && error != MAYFLY_E_DAMAGED)
			return false;
		if (!error)
			o->sound = next;
		at = error ? next : 0;
	}
	return true;
}

static int read_chunks(struct opening *o)
{
	struct mayfly_trace *t = o->t;
	struct chunk_reader *c = &o->tables.chunk;
	size_t at = TRACE_HEADER_BYTES;
	struct chunk_header h;
	bool more = true;

	while (more && !c->error) {
		size_t next;

		o->stopped = chunk_find(t->data + at, t->size - at, true, &h);
		if (o->stopped && (o->stopped != MAYFLY_E_DAMAGED || !goes_on(o, &h, at)))
			break;
		next = at + TRACE_CHUNK_BYTES + h.stored;
		if (o->stopped) {
			lose_chunk(o, h.type, at, UINT64_MAX);
			o->finished = h.type == TRACE_INDEX;
			more = !o->finished;
		} else if (h.type == TRACE_EVENTS && o->seen_info && !t->info.snapshot_ns) {
			note_chunk(o, at);
		} else if (h.type == TRACE_SUMS && o->seen_info) {
			/* Sums count on from those before. */
			if (!t->lost.sums)
				note_sums(o, at);
		} else {
			more = read_other_chunk(o, &h, at, next);
			chunk_end(c);
		}
		at = next;
	}
	return c->error;
}

/* ---- counting what is there ---- */

/* Adds up the chunks: what came before each, and the totals. */
static void add_up_chunks(struct opening *o)
{
	struct mayfly_trace *t = o->t;
	struct mayfly_info *info = &t->info;

	info->samples = info->frees = info->inherited = 0;
	for (size_t i = 0; i < t->chunks; i++) {
		struct trace_chunk *c = &t->chunk[i];

		c->first_event = info->samples + info->frees;
		c->first_alloc = info->samples;
		info->samples += c->allocs;
		info->frees += c->events - c->allocs;
		info->inherited += c->inherited;
		if (info->duration_ns < c->to_ns)
			info->duration_ns = c->to_ns;
	}
}

/* Fills in what an index would have said of the chunk. */
static int count_chunk(struct opening *o, struct trace_chunk *chunk, int64_t *last_ns)
{
	const struct event_context context = trace_context(o->t, chunk);
	struct chunk_reader *c = &o->tables.chunk;
	struct chunk_header h;
	struct event_batch b;

	if (chunk_find(o->t->data + chunk->offset, o->t->size - chunk->offset, false, &h))
		return MAYFLY_E_DAMAGED;
	if (chunk_begin(c, &h) && events_read(c, &context, &b)) {
		chunk->events = b.events;
		chunk->allocs = b.allocs;
		chunk->inherited = 0;
		for (size_t i = 0; i < b.allocs; i++)
			chunk->inherited += (b.alloc_flags[i] & MAYFLY_FLAG_INHERITED) != 0;
		chunk->from_ns = chunk->to_ns = *last_ns;
		if (b.events && b.time_ns[0] > *last_ns)
			chunk->from_ns = b.time_ns[0];
		if (b.events && b.time_ns[b.events - 1] > *last_ns)
			chunk->to_ns = *last_ns = b.time_ns[b.events - 1];
	}
	chunk_end(c);
	return c->error;
}

static void count_live(struct trace_chunk *chunk, const struct cursor_batch *b, uint64_t live)
{
	size_t alloc = 0, freed = 0;

	chunk->largest_bytes = 0;
	for (size_t i = 0; i < b->e.events; i++) {
		if (b->e.is_free[i]) {
			const struct cursor_block *block = &b->freed[freed++];

			live -= sums_leave_out(block->flags) ? 0 : block->size;
		} else {
			live += sums_leave_out(b->e.alloc_flags[alloc]) ? 0 : b->e.size[alloc];
			alloc++;
		}
		if (chunk->largest_bytes < live)
			chunk->largest_bytes = live;
	}
	chunk->live_bytes = live;
}

/* Keeps the first `count` chunks of events, and the sums that stand before the next. */
static void cut_chunks(struct mayfly_trace *t, size_t count)
{
	if (count == t->chunks)
		return;
	while (t->sums_chunks && t->sums[t->sums_chunks - 1].offset >= t->chunk[count].offset)
		t->sums_chunks--;
	for (size_t i = 0; i < t->tracks; i++)
		if (t->track[i].offset >= t->chunk[count].offset)
			tracks_cut(t, i);
	t->chunks = count;
}

/* Goes through all events, counts them, and cuts the trace off before the first unsound chunk. */
static int count_events(struct opening *o)
{
	struct mayfly_trace *t = o->t;
	struct cursor_batch b;
	struct mayfly_cursor *c;
	int64_t last_ns = -TRACE_LATEST_NS;
	uint64_t live = 0;
	size_t sound = 0;
	int error = 0, result;

	while (sound < t->chunks && !error) {
		error = count_chunk(o, &t->chunk[sound], &last_ns);
		sound += !error;
	}
	o->tables.chunk.error = 0;
	cut_chunks(t, sound);
	add_up_chunks(o);
	if (error && (error != MAYFLY_E_DAMAGED || !sound))
		return error;
	o->damaged |= error != 0;
	error = mayfly_cursor_open(t, &c);
	for (sound = 0; !error; sound++) {
		result = cursor_next_batch(c, &b);
		if (result != 1) {
			error = result;
			break;
		}
		count_live(&t->chunk[sound], &b, live);
		live = t->chunk[sound].live_bytes;
	}
	mayfly_cursor_close(c);
	cut_chunks(t, sound);
	add_up_chunks(o);
	o->damaged |= error != 0;
	return error == MAYFLY_E_DAMAGED && sound ? 0 : error;
}

/* The same for a trace of snapshots. */
static int count_snapshots(struct opening *o)
{
	struct mayfly_trace *t = o->t;
	struct sums_cursor *c;
	struct sums_part part;
	uint64_t live = 0, events = 0;
	size_t sound = 0;
	int result = sums_cursor_open(t, &c);

	if (result)
		return result;
	while ((result = sums_cursor_next(c, &part)) == 1 && sound < t->chunks) {
		struct trace_chunk *chunk = &t->chunk[sound++];

		chunk->events = part.end_event - events;
		events = part.end_event;
		chunk->from_ns = part.from_ns;
		chunk->to_ns = part.to_ns;
		for (size_t i = 0; i < part.nodes; i++) {
			chunk->allocs += part.allocs[i];
			chunk->inherited += part.inherited[i];
			live += part.alloc_bytes[i] - part.free_bytes[i];
		}
		chunk->live_bytes = live;
		chunk->largest_bytes = part.largest_bytes;
	}
	sums_cursor_close(c);
	o->damaged |= result != 0;
	if (sound < t->chunks)
		t->sums_chunks = t->chunks = sound;
	add_up_chunks(o);
	return result == MAYFLY_E_DAMAGED && sound ? 0 : result < 0 ? result : 0;
}

static int count_sums(struct opening *o)
{
	struct mayfly_trace *t = o->t;
	size_t chunks = t->sums_chunks, sound;
	int error = sums_count(t, &sound);

	if (!error && sound < chunks && side_chunk(t, TRACE_SUMS))
		lose_chunk(o, TRACE_SUMS, (size_t)t->sums[sound].offset, UINT64_MAX);
	return error ? error : o->tables.chunk.error;
}

/* ---- opening ---- */

static int check_trace_header(const uint8_t *data, size_t size)
{
	struct varint_in in = varint_begin(data, size);
	uint32_t version, bytes, features;

	if (size < 8 || memcmp(data, TRACE_MAGIC, 8))
		return MAYFLY_E_NOT_A_TRACE;
	if (size < TRACE_HEADER_BYTES)
		return MAYFLY_E_EMPTY;
	varint_fixed(&in, 8);
	version = (uint32_t)varint_fixed(&in, 4);
	bytes = (uint32_t)varint_fixed(&in, 4);
	features = (uint32_t)varint_fixed(&in, 4);
	if ((uint32_t)varint_fixed(&in, 4) != trace_checksum(0, data, 20))
		return MAYFLY_E_DAMAGED;
	if (version != TRACE_VERSION || bytes != TRACE_HEADER_BYTES ||
	    features & ~TRACE_FEATURES_KNOWN)
		return MAYFLY_E_VERSION;
	return 0;
}

static int begin_opening(struct opening *o)
{
	struct mayfly_trace *t = o->t;
	struct mayfly_info *info = &t->info;
	int error = check_trace_header(t->data, t->size);

	if (error)
		return error;
	o->tables.t = t;
	o->tables.budget = trace_budget(t);
	o->tables.chunk.budget = &o->tables.budget;
	o->tables.chunk.compress = compress_new(0);
	o->tables.next_string = 1;
	info->format_version = TRACE_VERSION;
	info->file_bytes = t->size;
	info->program = info->version = info->off_text = info->note = info->title = "";
	info->entry = "";
	info->host = info->runtime_parameters = info->context = "";
	if (!o->tables.chunk.compress)
		return MAYFLY_E_MEMORY;
	if (!tables_grow(&o->tables, GROWING(t->string, t->string_room, 0), 1) ||
	    !tables_grow(&o->tables, GROWING(t->node, t->node_room, 0), 1) ||
	    !tables_grow(&o->tables, GROWING(o->tables.depth, o->tables.depth_room, 0), 1))
		return o->tables.chunk.error;
	t->string[0] = "";
	t->strings = 1;
	if (!tracks_read_begin(&o->tables))
		return o->tables.chunk.error;
	t->node[0] = (struct mayfly_node){UINT32_MAX, UINT32_MAX};
	info->nodes = 1;
	return 0;
}

static int open_trace(struct opening *o)
{
	struct mayfly_trace *t = o->t;
	struct mayfly_info *info = &t->info;
	int error = begin_opening(o);

	if (!error)
		error = read_chunks(o);
	if (error)
		return error;
	if (!o->seen_info || (!t->chunks && !t->tracks && !o->finished))
		return o->stopped ? o->stopped : MAYFLY_E_DAMAGED;
	info->strings = t->strings;
	t->indexed = o->indexed;
	if (o->indexed)
		add_up_chunks(o);
	else
		error = info->snapshot_ns ? count_snapshots(o) : count_events(o);
	if (!error) {
		tracks_drop_unsound(t, &o->tables.chunk);
		error = o->tables.chunk.error;
	}
	if (!error && (info->mode == MAYFLY_EXACT || info->snapshot_ns))
		error = count_sums(o);
	if (!error)
		error = overlap_find(t);
	if (!error)
		errors_find(t);
	info->whole = info->complete && o->finished && !o->damaged;
	info->complete = info->whole && !info->bad_chunks;
	return error;
}

int trace_open(const void *data, size_t size, struct mayfly_trace **trace)
{
	struct opening *o = calloc(1, sizeof(*o));
	struct mayfly_trace *t = calloc(1, sizeof(*t));
	int error = MAYFLY_E_MEMORY;

	*trace = NULL;
	if (o && t) {
		t->data = data;
		t->size = size;
		o->t = t;
		error = open_trace(o);
		chunk_end(&o->tables.chunk);
		compress_free(o->tables.chunk.compress);
		tables_read_end(&o->tables);
	}
	free(o);
	if (error)
		mayfly_trace_close(t);
	else
		*trace = t;
	return error;
}

void mayfly_trace_close(struct mayfly_trace *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->blocks; i++)
		free(t->block[i]);
	free(t->block);
	free(t->owned);
	free(t->string);
	free(t->command);
	free(t->module);
	free(t->thread);
	free(t->frame);
	free(t->node);
	free(t->chain_end);
	free(t->chunk);
	free(t->sums);
	counters_close(t);
	tracks_close(t);
	fragments_close(t);
	residency_close(t);
	free(t->sum_error);
	free(t->bad);
	free(t->pool);
	free(t->finding);
	if (t->index)
		t->index->free(t->index);
	free(t);
}
