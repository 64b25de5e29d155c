/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace that is open, as the files that read traces see it.
 *
 *	trace.c		memory, and what the trace is
 *	reader.c	opening: finds the chunks, counts, cuts off what is damaged
 *	side_chunks.c	chunks without which a trace can be used, also where they are damaged
 *	info_read.c	INFO
 *	tables_read.c	STRS, MODS, THRD, FRMS, TREE, NAME
 *	cursor.c	events, chunk after chunk
 *	sums.c		per-stack counters, chunk after chunk
 *	track_read.c	track events and labels: track_read.h
 */
#ifndef MAYFLY_READER_H
#define MAYFLY_READER_H

#include <mayfly/trace.h>

#include "format/columns.h"
#include "format/events.h"
#include "format/format.h"

#include <stdatomic.h>

/* A chunk of events or, in a trace of snapshots, of sums. */
struct trace_chunk {
	uint64_t offset; /* of the chunk's header in the file */
	uint64_t events, allocs, inherited;
	uint64_t first_event, first_alloc; /* those that came before */
	int64_t from_ns, to_ns;		   /* of its first and last event */
	/* Exact traces: live bytes at the end of the chunk, and the largest at any of its events.
	 */
	uint64_t live_bytes, largest_bytes;
	/* The tables at this point. */
	uint32_t nodes, threads, frames, chains, first_chain;
};

/* A SUMS chunk. */
struct trace_sums {
	uint64_t offset;
	uint32_t nodes, chains, frames; /* at this point */
};

/* A chunk of track events. */
struct trace_tracks {
	uint64_t offset;
	uint64_t events;
};

struct trace_labels {
	size_t first, count; /* in label[] */
	const char *text;    /* of those that count */
};

struct trace_counter {
	struct mayfly_counter shown; /* points into: */
	int64_t *time_ns;
	double *value;
	size_t time_room, value_room;
};

/* The standard errors of a node's two sums (what it allocated, what of that is live), and the number of
 * samples that each was estimated from. */
struct trace_error {
	uint32_t node;
	struct {
		uint32_t samples;
		double bytes, blocks;		    /* standard errors */
		double choice_bytes, choice_blocks; /* those that add up */
	} of[ERROR_SUMS];
};

/* What is missing because its chunk is bad. Numbers that were given there are not known, so later
 * chunks of the kind cannot go on with them. */
struct trace_lost {
	bool names;
	bool texts, types, labels; /* of track events, and of labels */
	bool counters;
	bool sums; /* of events, which tell the same */
	bool picture;
	bool fragments[FRAGMENTS_KINDS], residency[RESIDENCY_MOMENTS];
};

struct mayfly_trace {
	const uint8_t *data;
	size_t size;
	uint8_t *owned; /* the trace made of a spool */
	struct mayfly_info info;
	bool indexed;		     /* what it says comes from its index, which is right */
	struct mayfly_helper helper; /* all zero: none */
	double ocaml_scale; /* intervals of OCaml's heaps are powers of two times this: 1 to 2 */

	struct mayfly_bad_chunk *bad; /* [info.bad_chunks] */
	size_t bad_room;
	struct trace_lost lost;

	uint8_t *pool; /* a bit for each node: overlap.c; NULL: nothing is in the trace twice */

	const char **string; /* [strings]; string[0] is "" */
	size_t strings, string_room;
	/* Strings below this number, and no others, are those that other tables than NAME refer to. 0:
	 * they refer to later ones, too, as no writer does. */
	uint32_t table_strings;
	const char **command;
	struct mayfly_module *module;
	size_t module_room;
	struct mayfly_thread *thread;
	size_t thread_room;
	struct mayfly_frame *frame;
	size_t frame_room;
	struct mayfly_location *location;
	struct mayfly_node *node;
	size_t node_room;
	uint32_t *chain_end; /* the last node of each chain */
	size_t chains, chain_room;
	void **block; /* memory that the above point into: texts, build-ids */
	size_t blocks, block_room;

	struct trace_counter *counter;
	size_t counter_room;
	struct mayfly_fragmentation fragments[FRAGMENTS_KINDS];
	struct mayfly_residency residency[RESIDENCY_MOMENTS];
	struct mayfly_picture picture; /* holder NULL: none */
	struct trace_error *sum_error; /* by ascending node */
	size_t sum_errors;	       /* 0: the errors of sums are unknown, or the events tell */

	const char **text; /* of track events and labels; text[0] is "" */
	size_t texts, text_room;
	struct mayfly_track_type *track_type;
	size_t track_type_room;
	struct trace_labels *label_set; /* [info.label_sets]; the first is empty */
	size_t label_set_room;
	struct mayfly_label *label; /* of all sets */
	size_t labels, label_room;
	struct trace_tracks *track;
	size_t tracks, track_room;

	struct trace_chunk *chunk;
	size_t chunks, chunk_room;
	struct trace_sums *sums;
	size_t sums_chunks, sums_room;
	size_t parts; /* in all of them */

	_Atomic(void *) finding;	     /* trace_set_finding() */
	_Atomic(struct trace_index *) index; /* trace_set_index() */
};

/*
 * What one question has found and others need again: the peak, which takes passes over all events.
 * Several threads may find it at once; the first keeps it, until the trace is closed. NULL: it has
 * not been found.
 */
static inline const void *trace_finding(const struct mayfly_trace *t)
{
	return atomic_load(&t->finding);
}

/* found: from malloc. */
void trace_set_finding(const struct mayfly_trace *t, void *found);

/*
 * The first member of a struct that one question made from the whole trace and later ones use, too.
 * Closing the trace frees it.
 */
struct trace_index {
	void (*free)(struct trace_index *index);
};

static inline const struct trace_index *trace_index(const struct mayfly_trace *t)
{
	return atomic_load(&t->index);
}

/* Keeps the index, or frees it when another thread was faster. Returns the one that is kept. */
const struct trace_index *trace_set_index(const struct mayfly_trace *t, struct trace_index *index);

/* A trace that lies in memory, which must stay; not a spool. 0 or a negative enum mayfly_error. */
int trace_open(const void *data, size_t size, struct mayfly_trace **trace);

/* All memory that depends on the file comes from a budget: of opening, and of each walk. */
uint64_t trace_budget(const struct mayfly_trace *t);

/* An array that grows with the file and stays: of *room items, `used` are in use. */
struct kept_array {
	void *array; /* the address of the pointer to it */
	size_t *room, used, item;
	bool dirty; /* new memory need not be zero: pages that are never written to cost nothing */
};
#define GROWING(array, room, used)                                                                 \
	((struct kept_array){&(array), &(room), used, sizeof(*(array)), false})
#define GROWING_DIRTY(array, room, used)                                                           \
	((struct kept_array){&(array), &(room), used, sizeof(*(array)), true})

/* Makes room for `more` items. False: *error is set. */
bool trace_grow(uint64_t *budget, int *error, struct kept_array g, uint64_t more);

/* The interval of a block with these flags and this log2. */
static inline double trace_interval(const struct mayfly_trace *t, uint32_t flags, uint32_t log2)
{
	double interval = (double)((uint64_t)1 << log2);

	return mayfly_heap_is_ocaml(MAYFLY_FLAG_HEAP(flags)) ? interval * t->ocaml_scale : interval;
}

/* Whether a block counts in sums over all heaps. False: another block has the same memory, or it is
 * a mapping. */
static inline bool trace_counts(const struct mayfly_trace *t, uint32_t heap, uint32_t node)
{
	if (heap == MAYFLY_HEAP_POOL || heap == MAYFLY_HEAP_MAPPING)
		return false;
	if (!t->pool || (heap != MAYFLY_HEAP_MALLOC && heap != MAYFLY_HEAP_EXTERNAL))
		return true;
	return heap == MAYFLY_HEAP_MALLOC &&
	       !(node < t->info.nodes && t->pool[node / 8] >> node % 8 & 1);
}

/* Whether some of the trace's blocks may not count in sums over all heaps. A trace that was cut off
 * does not say which heaps it has. */
static inline bool trace_leaves_out(const struct mayfly_trace *t)
{
	return t->pool || !t->info.heaps ||
	       t->info.heaps & (1u << MAYFLY_HEAP_POOL | 1u << MAYFLY_HEAP_MAPPING);
}

/* The state of the tables at a chunk, as events_read() needs it. */
struct event_context trace_context(const struct mayfly_trace *t, const struct trace_chunk *chunk);

/* Counts the parts of the trace (sums.h): those of the SUMS chunks or, where there is none, by counting
 * the events. *sound: the SUMS chunks before the first that is unsound. Where events tell the same, it
 * drops the others, and all that do not tell inherited blocks apart. */
int sums_count(struct mayfly_trace *t, size_t *sound);

/* ---- opening ---- */

/* trace_grow() on the chunk's budget, unless the chunk has failed. */
static inline bool chunk_grow(struct chunk_reader *c, struct kept_array g, uint64_t more)
{
	return !c->error && trace_grow(c->budget, &c->error, g, more);
}

/* `count` items and one more, all zero, that live as long as the trace. NULL: c->error is set. */
void *trace_keep(struct mayfly_trace *t, struct chunk_reader *c, uint64_t count, size_t item);

/* The unit of a chunk's times, in ns. */
uint64_t chunk_unit(struct chunk_reader *c);
/* A time from its number of units; 0 when it is out of range, and the chunk is damaged. */
int64_t chunk_time(struct chunk_reader *c, int64_t count, uint64_t unit);

/* ---- opening, overlap.c ---- */

/* Fills t->pool, once names and heaps are known. MAYFLY_E_DAMAGED: which blocks count twice depends on
 * names that are missing. */
int overlap_find(struct mayfly_trace *t);

/* Whether all blocks of the trace count now, but some would not if the trace also had the OCaml
 * blocks and malloc blocks of others: merged with those, its sums become smaller. */
bool overlap_would_hide(const struct mayfly_trace *t);

/* ---- names_late.c ---- */

/* Locations that a frame gets: location[first] and those after it, innermost first. */
struct late_name {
	size_t frame, first, count;
};

/* Names the frames of a trace that has none, as one that is still being recorded, before anything
 * else is done with it. Takes `location` over, from malloc, also when it fails; its texts must stay
 * as long as the trace. 0 or MAYFLY_E_MEMORY. */
int trace_name_late(struct mayfly_trace *t, struct mayfly_location *location,
		    const struct late_name *name, size_t names);

/* ---- opening: side_chunks.c ---- */

/* Whether a trace can be used without the chunks of this type. */
bool side_chunk(const struct mayfly_trace *t, uint32_t type);
/* Remembers that such a chunk at this place is bad. kind: the number at its beginning, UINT64_MAX when
 * that is unknown. False: c->error. */
bool side_chunk_lost(struct mayfly_trace *t, struct chunk_reader *c, uint32_t type, size_t at,
		     uint64_t kind);

/* ---- opening: counters_read.c, errors_read.c, fragments_read.c, picture_read.c, residency_read.c ---- */

/* Each reads the chunk at whose first byte c stands; c->error tells how it went. */
void counters_read(struct mayfly_trace *t, struct chunk_reader *c);
void fragments_read(struct mayfly_trace *t, struct chunk_reader *c);
void residency_read(struct mayfly_trace *t, struct chunk_reader *c);
void picture_read(struct mayfly_trace *t, struct chunk_reader *c);
void errors_read(struct mayfly_trace *t, struct chunk_reader *c);
/* After all chunks: whether the errors that were read are of this trace's sums. Then they count the
 * samples, too. */
void errors_find(struct mayfly_trace *t);
void counters_close(struct mayfly_trace *t);
void fragments_close(struct mayfly_trace *t);
void residency_close(struct mayfly_trace *t);

/* ---- opening, tables_read.c ---- */

struct successor;

struct table_reader {
	struct mayfly_trace *t;
	struct chunk_reader chunk; /* the current one */
	uint64_t budget;
	uint32_t next_string, string_end; /* string_end: beyond the largest that was referred to */
	bool named;

	uint16_t *depth; /* of each node */
	size_t depth_room;
	uint32_t *successors; /* of the root, of frame 0, ... : entry + 1 */
	size_t successors_room;
	struct successor *entry;
	size_t entries, entry_room;
};

static inline void tables_damaged(struct table_reader *r)
{
	chunk_fail(&r->chunk, MAYFLY_E_DAMAGED);
}

static inline bool tables_grow(struct table_reader *r, struct kept_array g, uint64_t more)
{
	return chunk_grow(&r->chunk, g, more);
}

/* INFO, whose first byte r->chunk stands at (info_read.c); r->chunk.error tells how it went. */
void info_read(struct table_reader *r);

/* Reads a chunk of a table, at whose first byte r->chunk stands; r->chunk.error tells how it went.
 * False: it is of another type. */
bool tables_read(struct table_reader *r, uint32_t type);
/* A count in the head of the chunk, at most this; else the chunk is damaged, and 0. */
size_t tables_read_count(struct table_reader *r, uint64_t most);
/* Texts of a chunk, to be added to *text. */
void tables_read_texts(struct table_reader *r, const char ***text, size_t *texts, size_t *room);
void tables_read_end(struct table_reader *r);

#endif
