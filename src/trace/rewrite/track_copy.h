/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Taking track events and labels over from a trace into one that is being made.
 *
 *	trace's cursor ──> types, threads, nodes, texts of the tables ──> next ──> writer
 *	                                    └── or all of them packed ──────┘
 */
#ifndef MAYFLY_TRACK_COPY_H
#define MAYFLY_TRACK_COPY_H

#include "base/bytes.h"
#include "base/varint.h"
#include "trace/write/writer.h"

struct track_copy {
	const struct mayfly_trace *from;
	struct recording *to;
	const uint32_t *thread, *node; /* the tables' numbers; NULL: the same */
	uint32_t *type;	  /* of each of the trace's types: that of the tables, or RECORDING_NONE */
	uint32_t *labels; /* of each set of labels; 0: the tables had no room for it */
	struct mayfly_track_cursor *cursor;
	struct bytes packed;
	struct varint_in in;
	uint64_t lost; /* events whose type the tables had no room for */

	/* The next event, as the tables have it; `more` says whether there is one. */
	struct trace_track next;
	uint64_t value[MAYFLY_TRACK_VALUES];
	uint64_t events_before;
	bool more;
};

/* Adds the trace's types and sets of labels to the tables. `thread` and `node` belong to the caller
 * and must stay valid until the copy ends or is packed. 0 or an error. */
int track_copy_begin(struct track_copy *c, const struct mayfly_trace *from, struct recording *to,
		     const uint32_t *thread, const uint32_t *node);
void track_copy_end(struct track_copy *c);

/* Reads all events; from then on the trace is not needed. 0 or an error. */
int track_copy_pack(struct track_copy *c);

/* Writes the next event with its time moved by offset_ns, and goes to the one after it. 0 or an
 * error. */
int track_copy_next(struct track_copy *c, struct trace_writer *w, int64_t offset_ns);

#endif
