/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing a trace piece by piece. See writer.h, and doc/FORMAT.md for the file.
 *
 *	alloc, free --> batch (columns of one chunk) --full--> tables' new rows, EVNT --> sink
 *	                  |                                                  |
 *	                  +--> live bytes, span of counters --span full--> SUMS
 *
 * The header and the first INFO are written with the first chunk of events. So a trace of only one
 * chunk has all of INFO, and all strings, in one place.
 */
#include "trace/write/writer.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "format/events.h"
#include "format/format.h"
#include "base/array.h"
#include "trace/write/counters_write.h"
#include "trace/write/errors_write.h"
#include "trace/write/fragments.h"
#include "trace/write/picture_write.h"
#include "trace/write/info_write.h"
#include "trace/write/residency.h"
#include "trace/write/sums_write.h"
#include "trace/write/tables.h"
#include "trace/write/track_write.h"

/*
 * Level 16 makes a trace of 1,000 samples 10 % smaller than 9, one of 30,000 samples 5 %: but that takes as
 * much CPU as all else that the recorder does for them. 19 gains less than 1 % more.
 */
#define LEVEL_SMALL  16
#define LEVEL_MEDIUM 9
#define SMALL_TRACE  8192 /* allocations */
#define MEDIUM_TRACE 300000
#define SMALL_TRACKS 50000	       /* events */
#define SMALL_NAMES  ((size_t)1 << 20) /* bytes of strings */

struct index_entry {
	uint64_t offset, events, allocs, inherited;
	int64_t from_ns, to_ns;
	uint64_t live_bytes, largest_bytes;
};

/* A block that moves to OCaml's major heap, after `event` events of the chunk. */
struct promotion {
	size_t event;
	uint64_t block;
	int64_t time_ns;
};

struct trace_writer {
	struct trace_writer_options options;
	trace_sink *sink;
	void *context;
	struct table_writer tables;
	size_t first_chain; /* the first chain that is newer than the latest chunk of events */
	struct recording *r;
	int error; /* the first one, or what the sink said */

	struct column_writer *columns;
	struct event_coder *coder;
	struct event_past past;
	struct bytes out;
	uint64_t bytes;	   /* given to the sink */
	struct bytes info; /* the first INFO's fields */
	bool begun;

	struct event_batch batch; /* of room for TRACE_CHUNK_EVENTS */
	uint32_t *free_node;
	uint64_t *free_size;
	uint64_t inherited;	     /* in this chunk */
	struct promotion *promotion; /* of this chunk */
	size_t promotions, promotion_room;
	int64_t unit, now_ns; /* times are rounded down to units */
	bool labelled;	      /* blocks of this chunk have labels */
	uint32_t heaps_told;  /* a bit each: the chunk that says that there are such is written */
	struct track_writer tracks;
	uint64_t track_events, groups; /* given to the sink */
	uint64_t track_bytes;	       /* of what was given: track events and their tables */

	struct counter_writer counters;
	struct fragments fragments[FRAGMENTS_KINDS]; /* not yet written; nodes are the file's */
	bool fragments_wait[FRAGMENTS_KINDS];
	struct error_row *error_row; /* not yet written; nodes are the file's */
	size_t error_rows, error_room;
	struct residency residency[RESIDENCY_MOMENTS]; /* not yet written; no rows: none */

	struct sums_span span;
	uint64_t span_events;
	int64_t snapshot_from_ns; /* of the current interval */

	struct index_entry *index;
	size_t chunks, chunk_room;
	uint64_t allocs, frees;
	uint64_t mapped, unmapped, mapped_before; /* of them, in MAYFLY_HEAP_MAPPING; inherited */
	uint32_t heaps;				  /* MAYFLY_HEAP_... of the blocks, a bit each */
	bool thinned;
};

static int writer_fail(struct trace_writer *w, int error)
{
	if (!w->error)
		w->error = w->r->failed ? MAYFLY_E_MEMORY : error;
	return w->error;
}

/* ---- memory ---- */

/* The arrays that every batch has. */
#define BATCH_ARRAYS(ARRAY)                                                                        \
	ARRAY(w->batch.is_free)                                                                    \
	ARRAY(w->batch.time_ns)                                                                    \
	ARRAY(w->batch.node)                                                                       \
	ARRAY(w->batch.thread)                                                                     \
	ARRAY(w->batch.size)                                                                       \
	ARRAY(w->batch.hits)                                                                       \
	ARRAY(w->batch.interval_log2)                                                              \
	ARRAY(w->batch.alloc_flags)                                                                \
	ARRAY(w->batch.freed)                                                                      \
	ARRAY(w->batch.free_thread)                                                                \
	ARRAY(w->batch.free_flags)                                                                 \
	ARRAY(w->free_node)                                                                        \
	ARRAY(w->free_size)

static bool new_batch(struct trace_writer *w)
{
	bool done = true;

	/* Pages that are never written to cost nothing. */
#define MAKE(array) done &= (array = malloc(TRACE_CHUNK_EVENTS * sizeof(*array))) != NULL;
	BATCH_ARRAYS(MAKE)
#undef MAKE
	return done;
}

static void free_batch(struct trace_writer *w)
{
#define FREE(array) free(array);
	BATCH_ARRAYS(FREE)
#undef FREE
	free(w->batch.labels);
	free(w->promotion);
}

struct trace_writer *trace_writer_new(const struct trace_writer_options *options,
				      struct recording *tables, trace_sink *sink, void *context)
{
	struct trace_writer *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->options = *options;
	w->r = tables;
	w->sink = sink;
	w->context = context;
	w->unit = options->unit_ns ? options->unit_ns : TRACE_UNIT_NS;
	if (options->snapshot_ns || (options->mode == MAYFLY_EXACT && !options->unit_ns))
		w->unit = 1;
	w->now_ns = INT64_MIN;
	tracks_begin(&w->tracks, tables);
	if (!tables_begin(&w->tables, tables) || (!options->snapshot_ns && !new_batch(w))) {
		trace_writer_free_all(w);
		return NULL;
	}
	return w;
}

void trace_writer_free_all(struct trace_writer *w)
{
	if (!w)
		return;
	tables_free(&w->tables);
	tracks_free(&w->tracks);
	if (w->coder != w->options.quick_events)
		event_coder_free(w->coder);
	if (w->columns != w->options.quick)
		column_writer_free(w->columns);
	bytes_free(&w->out);
	bytes_free(&w->info);
	free_batch(w);
	counters_free(&w->counters);
	for (size_t i = 0; i < FRAGMENTS_KINDS; i++)
		fragments_free(&w->fragments[i]);
	for (size_t i = 0; i < RESIDENCY_MOMENTS; i++)
		residency_free(&w->residency[i]);
	free(w->error_row);
	sums_free(&w->span);
	free(w->index);
	free(w);
}

/* ---- output ---- */

static int give_to_sink(struct trace_writer *w)
{
	if (w->tables.error)
		return writer_fail(w, w->tables.error);
	if (w->out.failed || w->r->failed)
		return writer_fail(w, MAYFLY_E_MEMORY);
	if (!w->error && w->out.used)
		w->error = w->sink(w->context, w->out.at, w->out.used);
	if (!w->error)
		w->bytes += w->out.used;
	w->out.used = 0;
	return w->error;
}

/* Where the next chunk will stand. */
static uint64_t next_offset(const struct trace_writer *w)
{
	return w->bytes + w->out.used;
}

/* Writes the fields of INFO that differ from the first one's. */
static void write_info_chunk(struct trace_writer *w)
{
	struct mayfly_info info = w->r->info;
	struct bytes fields = {0};

	info.mode = w->options.mode;
	info.sampler = w->options.sampler;
	info.snapshot_ns = w->options.snapshot_ns;
	if (!info.interval_bytes)
		info.interval_bytes = (uint64_t)1 << w->options.interval_log2;
	info.heaps = w->heaps;
	info.mapped_samples = w->mapped;
	info.mapped_frees = w->unmapped;
	info.mapped_inherited = w->mapped_before;
	info.thinned |= w->thinned;
	info_write(w->r, &info, &w->info, &fields);
	w->out.failed |= fields.failed;
	if (fields.used || !w->info.used)
		chunk_write(w->columns, &w->out, TRACE_INFO, &fields, NULL, 0);
	if (w->info.used)
		bytes_free(&fields);
	else
		w->info = fields;
}

/* ---- the beginning ---- */

int trace_writer_level(uint64_t allocs)
{
	return allocs <= SMALL_TRACE	? LEVEL_SMALL
	       : allocs <= MEDIUM_TRACE ? LEVEL_MEDIUM
					: TRACE_LEVEL_FAST;
}

static int level_now(const struct trace_writer *w, bool last)
{
	if (w->options.level)
		return w->options.level;
	if (w->options.quick && (last || w->options.mode == MAYFLY_EXACT))
		return COLUMNS_LEAN;
	if (!last)
		return w->options.mode == MAYFLY_EXACT ? TRACE_LEVEL_FAST : LEVEL_MEDIUM;
	return w->options.mode == MAYFLY_EXACT && w->allocs <= SMALL_TRACE
		   ? LEVEL_MEDIUM
		   : trace_writer_level(w->allocs);
}

static void begin_file(struct trace_writer *w, bool last)
{
	struct bytes *b = &w->out;
	int level;

	if (w->begun)
		return;
	w->begun = true;
	level = level_now(w, last);
	w->columns = level == COLUMNS_LEAN ? w->options.quick : column_writer_new(level);
	w->coder = level == COLUMNS_LEAN && w->options.quick_events ? w->options.quick_events
		   : w->columns					    ? event_coder_new(w->columns)
								    : NULL;
	if (!w->coder) {
		writer_fail(w, MAYFLY_E_MEMORY);
		return;
	}
	bytes_put(b, TRACE_MAGIC, 8);
	bytes_put_fixed(b, TRACE_VERSION, 4);
	bytes_put_fixed(b, TRACE_HEADER_BYTES, 4);
	bytes_put_fixed(b, 0, 4);
	if (!b->failed)
		bytes_put_fixed(b, trace_checksum(0, b->at, b->used), 4);
	write_info_chunk(w);
}

/* ---- groups ---- */

static struct index_entry *new_index_entry(struct trace_writer *w)
{
	if (!array_reserve(&w->index, &w->chunk_room, w->chunks, sizeof(*w->index))) {
		writer_fail(w, MAYFLY_E_MEMORY);
		return NULL;
	}
	assert(!w->chunks || w->index[w->chunks - 1].offset < next_offset(w));
	w->index[w->chunks] = (struct index_entry){.offset = next_offset(w)};
	return &w->index[w->chunks];
}

static void write_sums_chunk(struct trace_writer *w)
{
	struct sums_build *const part[2] = {&w->span.before, &w->span.after};
	const struct sums_tables tables = {w->tables.node_frame, w->tables.chain_end,
					   w->tables.chains, w->tables.frames};

	w->span_events = 0;
	if (!w->error && !sums_write(part, &tables, w->columns, &w->out))
		writer_fail(w, MAYFLY_E_MEMORY);
}

static void count_sums(struct trace_writer *w, struct index_entry *entry)
{
	struct sums_events e = {&w->batch, w->free_node, w->free_size, 0, 0};

	if (w->options.mode != MAYFLY_EXACT)
		return;
	if (!sums_add_chunk(&w->span, &e, w->tables.nodes))
		writer_fail(w, MAYFLY_E_MEMORY);
	entry->live_bytes = e.live_bytes;
	entry->largest_bytes = e.largest_bytes;
	w->span_events += w->batch.events;
}

/* Belongs to the chunk of events before it. */
static void write_promotions(struct trace_writer *w)
{
	size_t count = w->promotions;
	struct chunk_maker c = {0};
	uint64_t *event = chunk_add(&c, COLUMN_PROMOTION_EVENT, count);
	uint64_t *block = chunk_add(&c, COLUMN_PROMOTION_BLOCK, count);
	uint64_t *time = chunk_add(&c, COLUMN_PROMOTION_TIME, count);
	struct promotion last = {.time_ns = w->batch.time_ns[0]};

	for (size_t i = 0; i < count && !c.failed; i++) {
		const struct promotion *p = &w->promotion[i];

		assert(p->event >= last.event && p->event <= w->batch.events);
		event[i] = p->event - last.event;
		block[i] = varint_zigzag((int64_t)(p->block - last.block));
		time[i] = varint_zigzag((p->time_ns - last.time_ns) / w->unit);
		last = *p;
	}
	bytes_put_u(&c.head, count);
	bytes_put_u(&c.head, (uint64_t)w->unit);
	chunk_finish(&c, w->columns, TRACE_PROMOTIONS, &w->out);
	w->promotions = 0;
}

static void write_event_chunk(struct trace_writer *w)
{
	const struct event_context context = {
	    .chain_end = w->tables.chain_end,
	    .chains = w->tables.chains,
	    .first_chain = w->first_chain,
	    .node_frame = w->tables.node_frame,
	    .nodes = w->tables.nodes - 1,
	    .threads = (uint32_t)w->tables.threads,
	    .frames = (uint32_t)w->tables.frames,
	    .exact = w->options.mode == MAYFLY_EXACT && !w->options.unit_ns,
	    .unit_ns = w->options.unit_ns ? w->options.unit_ns : TRACE_UNIT_NS,
	};
	struct event_batch *b = &w->batch;
	struct index_entry *entry;

	assert(b->allocs <= b->events && b->events <= TRACE_CHUNK_EVENTS);
	if (!b->events || w->error)
		return;
	assert(b->time_ns[0] <= b->time_ns[b->events - 1] && w->inherited <= b->allocs);
	entry = new_index_entry(w);
	if (!entry)
		return;
	b->labelled = w->labelled;
	entry->events = b->events;
	entry->allocs = b->allocs;
	entry->inherited = w->inherited;
	entry->from_ns = b->time_ns[0];
	entry->to_ns = b->time_ns[b->events - 1];
	count_sums(w, entry);
	events_write(w->coder, &w->past, &context, b, &w->out);
	/* The index says the same as the chunk, so that a trace that is read while it grows, without
	 * one, has the times of the finished trace. */
	if (context.exact) {
		entry->from_ns = b->time_ns[0] = w->past.first_ns;
		entry->to_ns = w->past.last_ns;
	}
	if (w->promotions)
		write_promotions(w);
	b->events = b->allocs = 0;
	b->first_sample = w->allocs;
	w->inherited = 0;
	w->labelled = false;
	w->first_chain = w->tables.chains_written;
	w->chunks++;
}

/* Writes the track events, after the events of blocks. */
static void write_track_chunk(struct trace_writer *w)
{
	size_t before = w->out.used;

	w->track_events += w->tracks.events;
	tracks_write_events(&w->tracks, w->columns, w->track_events <= SMALL_TRACKS, &w->out);
	w->track_bytes += w->out.used - before;
}

/* Writes counters, nearly empty pages and mappings. */
static void write_measured_chunks(struct trace_writer *w)
{
	counters_write(&w->counters, w->r, w->columns, &w->out);
	for (uint32_t i = 0; i < FRAGMENTS_KINDS; i++) {
		if (!w->fragments_wait[i])
			continue;
		fragments_write(&w->fragments[i], i, w->columns, &w->out);
		fragments_free(&w->fragments[i]);
		w->fragments_wait[i] = false;
	}
	if (w->error_rows) {
		w->error_rows = errors_join(w->error_row, w->error_rows);
		errors_write(w->error_row, w->error_rows, w->columns, &w->out);
		w->error_rows = 0;
	}
	for (uint32_t i = 0; i < RESIDENCY_MOMENTS; i++) {
		if (w->residency[i].rows)
			residency_write(&w->residency[i], i, w->columns, &w->out);
		residency_free(&w->residency[i]);
	}
}

/* A reader that does not know these heaps would add their blocks to malloc's. Such a chunk makes it
 * refuse the trace. */
static void tell_heaps(struct trace_writer *w, uint32_t heaps, uint32_t chunk)
{
	struct bytes empty = {0};

	if (w->heaps_told & heaps || !(w->heaps & heaps))
		return;
	chunk_write(w->columns, &w->out, chunk, &empty, NULL, 0);
	w->heaps_told |= heaps;
}

/* Writes the new rows of all tables. */
static int write_tables(struct trace_writer *w, bool last)
{
	struct column_writer *columns;
	int for_names, error;
	size_t before;

	for_names = w->begun && !w->options.level && !w->options.quick && !w->options.snapshot_ns
			? (w->r->text.used < SMALL_NAMES ? LEVEL_SMALL : LEVEL_MEDIUM)
			: 0;
	begin_file(w, last);
	if (w->error)
		return w->error;
	error = tracks_number_nodes(&w->tracks, &w->tables);
	columns = last && for_names ? column_writer_new(for_names) : w->columns;
	if (error || !columns)
		return writer_fail(w, error ? error : MAYFLY_E_MEMORY);
	tell_heaps(w, 1u << MAYFLY_HEAP_POOL | 1u << MAYFLY_HEAP_POOL_MAPPED, TRACE_POOLS);
	tell_heaps(w, 1u << MAYFLY_HEAP_MAPPING, TRACE_MAPPED);
	tables_write(&w->tables, columns, &w->out, last);
	if (columns != w->columns)
		column_writer_free(columns);
	if (w->tables.error)
		return writer_fail(w, w->tables.error);
	before = w->out.used;
	tracks_write_tables(&w->tracks, w->columns, &w->out);
	w->track_bytes += w->out.used - before;
	return w->out.failed ? writer_fail(w, MAYFLY_E_MEMORY) : 0;
}

/* Ends the current chunk. last: with the names and everything else that is left. */
static int write_group(struct trace_writer *w, bool last)
{
	if (w->error || (!last && !w->batch.events && !w->tracks.events))
		return w->error;
	if (write_tables(w, last))
		return w->error;
	write_event_chunk(w);
	write_track_chunk(w);
	w->groups++;
	if (last || w->span_events >= SUMS_SPAN_EVENTS)
		write_sums_chunk(w);
	write_measured_chunks(w);
	return give_to_sink(w);
}

/* ---- snapshots ---- */

/* Writes the interval that ends at to_ns, unless nothing has happened in it. */
static int write_snapshot(struct trace_writer *w, int64_t to_ns, bool last)
{
	struct sums_build *b = &w->span.after;
	struct index_entry *entry;

	if (write_tables(w, last))
		return w->error;
	entry = !b->events ? NULL : new_index_entry(w);
	if (entry) {
		if (b->largest_bytes < w->span.live_bytes)
			b->largest_bytes = w->span.live_bytes;
		b->from_ns = w->snapshot_from_ns;
		b->to_ns = to_ns;
		entry->events = b->events;
		for (size_t i = 0; i < b->entries; i++)
			entry->allocs += b->entry[i].allocs;
		entry->inherited = w->inherited;
		entry->from_ns = b->from_ns;
		entry->to_ns = to_ns;
		entry->live_bytes = w->span.live_bytes;
		entry->largest_bytes = b->largest_bytes;
		write_sums_chunk(w);
		w->inherited = 0;
		w->chunks++;
	}
	w->groups++;
	if (!w->error) {
		write_track_chunk(w);
		write_measured_chunks(w);
	}
	return give_to_sink(w);
}

/* Writes track events between two snapshots. */
static int write_waiting_tracks(struct trace_writer *w)
{
	if (w->error || !w->tracks.events || write_tables(w, false))
		return w->error;
	write_track_chunk(w);
	w->groups += !w->span.after.events; /* not while events of the interval wait */
	return give_to_sink(w);
}

/* The intervals that end at or before this time are over. */
static int close_snapshots(struct trace_writer *w, int64_t time_ns)
{
	int64_t step = w->options.snapshot_ns, end;

	if (!step || w->error)
		return w->error;
	end = w->snapshot_from_ns + step;
	if (time_ns < end)
		return 0;
	if (w->span.after.events)
		write_snapshot(w, end, false);
	else
		write_waiting_tracks(w);
	w->snapshot_from_ns = time_ns - time_ns % step;
	return w->error;
}

static int add_to_snapshot(struct trace_writer *w, uint32_t node, uint64_t size, bool is_free,
			   uint32_t flags)
{
	struct sums_span *s = &w->span;

	if (!sums_add(&s->after, node, size, is_free, flags, w->tables.nodes))
		return writer_fail(w, MAYFLY_E_MEMORY);
	s->live_bytes = is_free ? s->live_bytes - size : s->live_bytes + size;
	if (s->after.largest_bytes < s->live_bytes)
		s->after.largest_bytes = s->live_bytes;
	return 0;
}

/* ---- events ---- */

static inline int64_t round_time(struct trace_writer *w, int64_t ns)
{
	if (ns > TRACE_LATEST_NS)
		ns = TRACE_LATEST_NS;
	if (ns < -TRACE_LATEST_NS + w->unit) /* which rounding down shall not pass */
		ns = -TRACE_LATEST_NS + w->unit;
	if (w->unit != 1) /* a division takes long */
		ns = (ns / w->unit - (ns % w->unit < 0)) * w->unit;
	if (ns < w->now_ns)
		ns = w->now_ns;
	w->now_ns = ns;
	return ns;
}

/* Block i of the chunk has labels, or may have. Those before the first one have none. */
static bool note_labels(struct trace_writer *w, size_t i)
{
	struct event_batch *b = &w->batch;

	if (w->labelled)
		return true;
	if (!b->labels)
		b->labels = malloc(TRACE_CHUNK_EVENTS * sizeof(*b->labels));
	if (b->labels)
		memset(b->labels, 0, i * sizeof(*b->labels));
	return w->labelled = b->labels != NULL;
}

int trace_writer_alloc(struct trace_writer *w, int64_t time_ns, const struct trace_block *block,
		       uint64_t *serial)
{
	bool exact = w->options.mode == MAYFLY_EXACT || w->options.snapshot_ns;
	struct event_batch *b = &w->batch;
	size_t i = b->allocs;
	uint32_t node;

	*serial = w->options.snapshot_ns ? 0 : w->allocs;
	if (w->error)
		return w->error;
	if (block->thread >= w->r->threads || block->interval_log2 > TRACE_MAX_INTERVAL ||
	    block->hits > TRACE_MAX_HITS || block->labels >= w->r->label_sets ||
	    (exact && (block->hits || block->interval_log2)))
		return writer_fail(w, MAYFLY_E_RANGE);
	time_ns = round_time(w, time_ns);
	if (w->options.snapshot_ns && close_snapshots(w, time_ns))
		return w->error;
	node = tables_node(&w->tables, block->node);
	if (node == RECORDING_NONE)
		return writer_fail(w, w->tables.error);
	w->heaps |= 1u << MAYFLY_FLAG_HEAP(block->flags);
	if (w->options.snapshot_ns && sums_leave_out(block->flags))
		return 0;
	w->allocs++;
	w->inherited += (block->flags & MAYFLY_FLAG_INHERITED) != 0;
	if (MAYFLY_FLAG_HEAP(block->flags) == MAYFLY_HEAP_MAPPING) {
		w->mapped++;
		w->mapped_before += (block->flags & MAYFLY_FLAG_INHERITED) != 0;
	}
	w->thinned |= (block->flags & MAYFLY_FLAG_THINNED) != 0;
	if (w->options.snapshot_ns)
		return add_to_snapshot(w, node, block->size, false, block->flags);
	assert(b->events < TRACE_CHUNK_EVENTS);
	b->is_free[b->events] = 0;
	b->time_ns[b->events++] = time_ns;
	b->node[i] = node;
	b->thread[i] = block->thread;
	b->size[i] = block->size;
	b->hits[i] = block->hits;
	b->interval_log2[i] = block->interval_log2;
	b->alloc_flags[i] = block->flags;
	if (block->labels || w->labelled) {
		if (!note_labels(w, i))
			return writer_fail(w, MAYFLY_E_MEMORY);
		b->labels[i] = block->labels;
	}
	b->allocs++;
	return b->events == TRACE_CHUNK_EVENTS ? write_group(w, false) : 0;
}

int trace_writer_free(struct trace_writer *w, int64_t time_ns, uint64_t serial,
		      const struct trace_block *block, uint32_t thread, uint32_t flags)
{
	struct event_batch *b = &w->batch;
	size_t i = b->events - b->allocs;
	uint32_t node;

	if (w->error || serial == TRACE_THINNED)
		return w->error;
	if (thread >= w->r->threads || flags > UINT8_MAX || serial >= w->allocs)
		return writer_fail(w, MAYFLY_E_RANGE);
	time_ns = round_time(w, time_ns);
	if (w->options.snapshot_ns && close_snapshots(w, time_ns))
		return w->error;
	node = tables_node(&w->tables, block->node);
	if (node == RECORDING_NONE)
		return writer_fail(w, w->tables.error);
	if (w->options.snapshot_ns && sums_leave_out(block->flags))
		return 0;
	w->frees++;
	w->unmapped += MAYFLY_FLAG_HEAP(block->flags) == MAYFLY_HEAP_MAPPING;
	if (w->options.snapshot_ns)
		return add_to_snapshot(w, node, block->size, true, flags);
	assert(b->allocs <= b->events && b->events < TRACE_CHUNK_EVENTS);
	b->is_free[b->events] = 1;
	b->time_ns[b->events++] = time_ns;
	b->freed[i] = serial;
	b->free_thread[i] = thread;
	b->free_flags[i] = (uint8_t)flags;
	w->free_node[i] = sums_leave_out(block->flags) ? SUMS_LEFT_OUT : node;
	w->free_size[i] = sums_leave_out(block->flags) ? 0 : block->size;
	return b->events == TRACE_CHUNK_EVENTS ? write_group(w, false) : 0;
}

static bool counts_fit(const struct trace_writer *w, const struct trace_counts *c)
{
	const uint64_t most = TRACE_COUNTS_MAX;

	return w->options.snapshot_ns && c->allocs <= most && c->alloc_bytes <= most &&
	       w->allocs + c->allocs <= most && w->span.live_bytes + c->alloc_bytes <= most &&
	       c->frees <= w->allocs - w->frees + c->allocs &&
	       c->free_bytes <= w->span.live_bytes + c->alloc_bytes && c->inherited <= c->allocs &&
	       c->inherited_bytes <= c->alloc_bytes;
}

int trace_writer_count(struct trace_writer *w, int64_t time_ns, uint32_t node,
		       const struct trace_counts *counts)
{
	struct sums_span *s = &w->span;
	struct sums_entry e = {.allocs = counts->allocs,
			       .alloc_bytes = counts->alloc_bytes,
			       .frees = counts->frees,
			       .free_bytes = counts->free_bytes,
			       .temps = counts->temps,
			       .temp_bytes = counts->temp_bytes,
			       .inherited = counts->inherited,
			       .inherited_bytes = counts->inherited_bytes};

	if (w->error)
		return w->error;
	if (!counts_fit(w, counts))
		return writer_fail(w, MAYFLY_E_RANGE);
	if (close_snapshots(w, round_time(w, time_ns)))
		return w->error;
	e.node = tables_node(&w->tables, node);
	if (e.node == RECORDING_NONE)
		return writer_fail(w, w->tables.error);
	if (s->after.events == 0)
		s->after.largest_bytes = s->live_bytes;
	if (!sums_add_counts(&s->after, &e, w->tables.nodes))
		return writer_fail(w, MAYFLY_E_MEMORY);
	w->allocs += e.allocs;
	w->frees += e.frees;
	w->inherited += e.inherited;
	assert(w->frees <= w->allocs && e.free_bytes <= s->live_bytes + e.alloc_bytes);
	s->live_bytes += e.alloc_bytes - e.free_bytes;
	return 0;
}

/* Promotions after the very last event are left out: there is no chunk that they could belong to.
 * */
int trace_writer_promote(struct trace_writer *w, int64_t time_ns, uint64_t serial)
{
	if (w->error || serial == TRACE_THINNED || w->options.snapshot_ns)
		return w->error;
	if (serial >= w->allocs)
		return writer_fail(w, MAYFLY_E_RANGE);
	if (w->promotions == TRACE_CHUNK_EVENTS) {
		if (!w->batch.events)
			return 0;
		if (write_group(w, false))
			return w->error;
	}
	return ARRAY_ADD(w->promotion, w->promotion_room, w->promotions,
			 (struct promotion){w->batch.events, serial, round_time(w, time_ns)})
		   ? 0
		   : writer_fail(w, MAYFLY_E_MEMORY);
}

int trace_writer_counter(struct trace_writer *w, int64_t time_ns, uint32_t name, uint32_t unit,
			 double value)
{
	if (w->error)
		return w->error;
	if (name >= w->r->strings || unit >= w->r->strings)
		return writer_fail(w, MAYFLY_E_RANGE);
	if (counters_due(&w->counters)) {
		begin_file(w, false);
		if (!w->error)
			counters_write(&w->counters, w->r, w->columns, &w->out);
		if (give_to_sink(w))
			return w->error;
	}
	return counters_add(&w->counters, time_ns, name, unit, value)
		   ? 0
		   : writer_fail(w, MAYFLY_E_MEMORY);
}

static int compare_fragments(const void *a, const void *b)
{
	const struct mayfly_fragment *x = a, *y = b;

	return (x->node > y->node) - (x->node < y->node);
}

/* Sorted by ascending node, each node once: a reader refuses anything else. */
static void join_fragments(struct fragments *f)
{
	size_t kept = 0;

	if (f->entries)
		qsort(f->entry, f->entries, sizeof(*f->entry), compare_fragments);
	for (size_t i = 0; i < f->entries; i++) {
		const struct mayfly_fragment *e = &f->entry[i];

		if (!kept || f->entry[kept - 1].node != e->node) {
			f->entry[kept++] = *e;
			continue;
		}
		f->entry[kept - 1].blocks += e->blocks;
		f->entry[kept - 1].bytes += e->bytes;
		f->entry[kept - 1].pages += e->pages;
		f->entry[kept - 1].held_bytes += e->held_bytes;
	}
	f->entries = kept;
}

int trace_writer_fragments(struct trace_writer *w, uint32_t kind, struct fragments *f)
{
	struct fragments *mine = &w->fragments[kind];

	assert(kind < FRAGMENTS_KINDS);
	fragments_free(mine);
	*mine = *f;
	*f = (struct fragments){0};
	for (size_t i = 0; i < mine->entries && !w->error; i++) {
		mine->entry[i].node = tables_node(&w->tables, mine->entry[i].node);
		if (mine->entry[i].node == RECORDING_NONE)
			writer_fail(w, w->tables.error);
	}
	join_fragments(mine);
	w->fragments_wait[kind] = true;
	return w->error;
}

int trace_writer_error(struct trace_writer *w, const struct error_row *row)
{
	struct error_row mine = *row;

	if (w->error)
		return w->error;
	mine.node = tables_node(&w->tables, row->node);
	if (mine.node == RECORDING_NONE)
		return writer_fail(w, w->tables.error);
	return ARRAY_ADD(w->error_row, w->error_room, w->error_rows, mine)
		   ? 0
		   : writer_fail(w, MAYFLY_E_MEMORY);
}

int trace_writer_picture(struct trace_writer *w, const struct mayfly_picture *picture)
{
	if (w->options.snapshot_ns)
		return writer_fail(w, MAYFLY_E_RANGE);
	if (write_group(w, false))
		return w->error;
	begin_file(w, false);
	if (!w->error)
		picture_write(picture, w->columns, &w->out);
	return give_to_sink(w);
}

void trace_writer_residency(struct trace_writer *w, uint32_t moment, struct residency *r)
{
	assert(moment < RESIDENCY_MOMENTS);
	residency_free(&w->residency[moment]);
	w->residency[moment] = *r;
	*r = (struct residency){0};
}

int trace_writer_track(struct trace_writer *w, const struct trace_track *event)
{
	int error;

	if (w->error)
		return w->error;
	if (tracks_due(&w->tracks) &&
	    (w->options.snapshot_ns ? write_waiting_tracks(w) : write_group(w, false)))
		return w->error;
	error = tracks_add(&w->tracks, event, w->options.snapshot_ns ? 0 : w->allocs + w->frees);
	return error ? writer_fail(w, error) : 0;
}

int trace_writer_time(struct trace_writer *w, int64_t time_ns)
{
	if (!w->options.snapshot_ns || w->error)
		return w->error;
	return close_snapshots(w, round_time(w, time_ns));
}

int trace_writer_flush(struct trace_writer *w)
{
	return w->options.snapshot_ns ? write_waiting_tracks(w) : write_group(w, false);
}

void trace_writer_rest(struct trace_writer *w)
{
	if (w->coder && w->coder != w->options.quick_events)
		event_coder_rest(w->coder);
}

/* ---- the end ---- */

static void write_index(struct trace_writer *w)
{
	uint64_t at = next_offset(w), last = 0;
	struct bytes head = {0}, trailer = {0};
	int64_t time = 0;

	bytes_put_u(&head, w->chunks);
	bytes_put_u(&head, (uint64_t)w->unit);
	for (size_t i = 0; i < w->chunks; i++) {
		const struct index_entry *e = &w->index[i];

		assert(e->offset > last && e->offset < at && e->allocs <= e->events);
		bytes_put_u(&head, e->offset - last);
		bytes_put_u(&head, e->events);
		bytes_put_u(&head, e->allocs);
		bytes_put_u(&head, e->inherited);
		bytes_put_s(&head, e->from_ns / w->unit - time);
		bytes_put_u(&head, (uint64_t)(e->to_ns / w->unit - e->from_ns / w->unit));
		if (w->options.mode == MAYFLY_EXACT || w->options.snapshot_ns) {
			bytes_put_u(&head, e->live_bytes);
			bytes_put_u(&head, e->largest_bytes);
		}
		last = e->offset;
		time = e->to_ns / w->unit;
	}
	w->out.failed |= head.failed;
	chunk_write(w->columns, &w->out, TRACE_INDEX, &head, NULL, 0);
	bytes_put_fixed(&trailer, at, 8);
	if (!trailer.failed)
		bytes_put_fixed(&trailer, trace_checksum(0, trailer.at, 8), 4);
	bytes_put_fixed(&trailer, 0, 4);
	bytes_put(&trailer, TRACE_END_MAGIC, 8);
	w->out.failed |= trailer.failed;
	bytes_put(&w->out, trailer.at, trailer.used);
	bytes_free(&head);
	bytes_free(&trailer);
}

int trace_writer_finish(struct trace_writer *w)
{
	int64_t end = w->r->info.duration_ns;

	if (w->options.snapshot_ns) {
		close_snapshots(w, end);
		if (end < w->now_ns)
			end = w->now_ns;
		write_snapshot(w, end, true);
	} else {
		write_group(w, true);
	}
	if (w->error)
		return w->error;
	/* Nothing is read that comes after the end. */
	if (w->r->info.duration_ns < w->past.last_ns)
		w->r->info.duration_ns = w->past.last_ns;
	write_info_chunk(w);
	write_index(w);
	return give_to_sink(w);
}

uint64_t trace_writer_bytes(const struct trace_writer *w)
{
	return w->bytes;
}

uint64_t trace_writer_track_bytes(const struct trace_writer *w)
{
	return w->track_bytes;
}

uint64_t trace_writer_chunks(const struct trace_writer *w)
{
	return w->groups;
}

uint64_t trace_writer_allocs(const struct trace_writer *w)
{
	return w->allocs;
}

size_t trace_writer_waiting(const struct trace_writer *w)
{
	return w->batch.events;
}

struct recording *trace_writer_tables(const struct trace_writer *w)
{
	return w->r;
}

int trace_buffer_sink(void *buffer, const void *bytes, size_t size)
{
	struct trace_buffer *b = buffer;
	struct bytes all = {b->bytes, b->used, b->size, false};

	bytes_put(&all, bytes, size);
	*b = (struct trace_buffer){all.at, all.used, all.size};
	return all.failed ? MAYFLY_E_MEMORY : 0;
}
