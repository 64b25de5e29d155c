/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing a trace file piece by piece, in bounded memory.
 *
 *	header, INFO, { tables' new rows, events and/or sums } ..., names, INFO, index, trailer
 *
 * The caller adds rows to the tables (recording.h) and hands over events in time order. When a
 * chunk of events is full, the rows that are new since the last one are written, then the events.
 * At the end the names that symbolising has found are written. What has been given to the sink is a
 * usable trace at every chunk's end (without names, until the end). Nothing is given before the
 * first chunk is full or flushed.
 *
 * No input or output: the bytes go to a sink. Nothing is ever written at an earlier place.
 */
#ifndef MAYFLY_WRITER_H
#define MAYFLY_WRITER_H

#include "trace/write/recording.h"

/* Takes the bytes that follow; 0, an error of the caller's (positive), or a negative enum
 * mayfly_error. It sticks: the writer then returns it from every call. */
typedef int trace_sink(void *context, const void *bytes, size_t size);

struct trace_writer_options {
	uint32_t mode;	  /* enum mayfly_mode */
	uint32_t sampler; /* enum mayfly_sampler */
	uint32_t interval_log2;
	/* Per-stack counters at each such interval instead of events; 0: events. */
	int64_t snapshot_ns;
	/* Times are whole numbers of this; 0: chosen by the mode. */
	uint32_t unit_ns;
	int level; /* of compression; 0: chosen by size */
	/* If not NULL, it is compressed with less care, by this one (COLUMNS_LEAN), which many traces of
	 * one kind may share: what was best for one is tried first for the next. */
	struct column_writer *quick;
	struct event_coder *quick_events; /* of `quick`; may be shared in the same way */
};

/* The level of compression for a whole trace with this number of blocks. */
#define TRACE_LEVEL_FAST 1
int trace_writer_level(uint64_t allocs);

struct trace_writer;

#define TRACE_THINNED UINT64_MAX /* a block that is not in the trace: its free is left out */

struct trace_writer *trace_writer_new(const struct trace_writer_options *options,
				      struct recording *tables, trace_sink *sink, void *context);

/* Events, in time order (a time before the last one's counts as that). */
struct trace_block {
	uint64_t size;
	uint32_t node, thread; /* in the tables */
	uint32_t hits;
	uint8_t interval_log2;
	uint8_t flags;	 /* MAYFLY_FLAG_... of the allocation */
	uint32_t labels; /* set of the tables (recording_labels()); 0: none */
};

/* *serial: the block's number, counted from 0 over the whole trace; with snapshots, always 0. */
int trace_writer_alloc(struct trace_writer *w, int64_t time_ns, const struct trace_block *block,
		       uint64_t *serial);
/* block: as it was allocated. thread: the one that frees. flags: MAYFLY_FLAG_... of the free. */
int trace_writer_free(struct trace_writer *w, int64_t time_ns, uint64_t serial,
		      const struct trace_block *block, uint32_t thread, uint32_t flags);

/* With snapshots: the sums of one node's blocks in an interval, where single blocks are not known.
 * Live bytes between the ends of intervals are then not known either. */
struct trace_counts {
	uint64_t allocs, alloc_bytes, frees, free_bytes, temps, temp_bytes;
	uint64_t inherited, inherited_bytes; /* among allocs */
};
#define TRACE_COUNTS_MAX ((uint64_t)1 << 60) /* of all blocks, and of all bytes */
int trace_writer_count(struct trace_writer *w, int64_t time_ns, uint32_t node,
		       const struct trace_counts *counts);

/* The block is moved to OCaml's major heap. */
int trace_writer_promote(struct trace_writer *w, int64_t time_ns, uint64_t serial);

/* A counter's value from this time on. Times of one counter ascend; those of different counters may
 * be in any order. name and unit: strings of the tables. A value that is not a finite number is
 * left out. */
int trace_writer_counter(struct trace_writer *w, int64_t time_ns, uint32_t name, uint32_t unit,
			 double value);

/* A track event: a span's begin or end, an instant, a counter's value. It has happened after the
 * latest event of a block that was handed over. Its time is kept to the nanosecond, whatever the
 * unit of times; a time before the latest track event's counts as that. Also with snapshots. */
struct trace_track {
	int64_t time_ns;
	uint32_t kind;	       /* enum mayfly_track_kind */
	uint32_t type;	       /* of the tables (recording_track_type()) */
	uint32_t thread, node; /* in the tables; node 0: no stack */
	const uint64_t *value; /* one for each field of the type; not of MAYFLY_TRACK_END */
			       /* INT and FLOAT: their bits; TEXT: a string of the tables */
};
int trace_writer_track(struct trace_writer *w, const struct trace_track *event);

/* Nearly empty pages at a moment (fragments.h, whose kind this is); entries' nodes are those of the
 * tables. The last one of a kind counts. Takes f's entries over. */
struct fragments;
int trace_writer_fragments(struct trace_writer *w, uint32_t kind, struct fragments *f);

/* The picture of the heap, of a trace with events: writes what waits, then the chunk. Blocks by
 * ascending number. The last picture counts. */
int trace_writer_picture(struct trace_writer *w, const struct mayfly_picture *picture);

/* Mappings with resident pages (residency.h). Takes what r holds. */
struct residency;
void trace_writer_residency(struct trace_writer *w, uint32_t moment, struct residency *r);

/* Standard errors of the sums of a node, in a sampled trace of snapshots (errors_write.h;
 * the node is one of the tables). All rows of one node add up. */
struct error_row;
int trace_writer_error(struct trace_writer *w, const struct error_row *row);

/* Time has passed without events: closes the snapshots that are due. */
int trace_writer_time(struct trace_writer *w, int64_t time_ns);

/* Ends the current chunk although it is not full. Small chunks make the trace larger. */
int trace_writer_flush(struct trace_writer *w);
/* After that: gives back memory that only the next chunk needs. */
void trace_writer_rest(struct trace_writer *w);

/* Writes names, INFO from tables->info (mode, sampler, counts of events are the writer's own),
 * index and trailer. */
int trace_writer_finish(struct trace_writer *w);
void trace_writer_free_all(struct trace_writer *w); /* NULL is allowed */

uint64_t trace_writer_bytes(const struct trace_writer *w);	 /* given to the sink so far */
uint64_t trace_writer_track_bytes(const struct trace_writer *w); /* of them, for track events */
/* Groups of chunks given to the sink so far. An event, of a block or of a track, that was handed
 * over while this was n is in the sink once it is > n. */
uint64_t trace_writer_chunks(const struct trace_writer *w);
uint64_t trace_writer_allocs(const struct trace_writer *w);
/* Events of blocks that were handed over and are not in the sink. */
size_t trace_writer_waiting(const struct trace_writer *w);
struct recording *trace_writer_tables(const struct trace_writer *w);

/* A sink into memory. Out of memory is MAYFLY_E_MEMORY. */
struct trace_buffer {
	uint8_t *bytes; /* malloc'ed; the caller frees it */
	size_t used, size;
};
int trace_buffer_sink(void *buffer, const void *bytes, size_t size);

#endif
