/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing track events and labels: the chunks text, type, labl and trak. doc/FORMAT.md has them.
 * Readers that do not know them skip them, so they share nothing with the other chunks but threads
 * and nodes: their texts are not those of STRS.
 */
#ifndef MAYFLY_TRACK_WRITE_H
#define MAYFLY_TRACK_WRITE_H

#include "format/columns.h"
#include "format/format.h"
#include "trace/write/tables.h"
#include "trace/write/writer.h"

#define TRACKS_HELD TRACE_CHUNK_EVENTS /* events that wait, at most */

/* Events that wait, as in the columns of their chunk, except that nodes and values are those of the
 * tables. */
struct track_writer {
	const struct recording *r;
	size_t types, sets; /* written so far */

	uint32_t *text_number; /* of the tables' strings; 0: not used so far */
	size_t text_room;
	uint32_t next_text;
	struct bytes text; /* those that are new */

	uint64_t *type, *time, *at, *thread, *node; /* [TRACKS_HELD] */
	uint64_t *value;			    /* of all of them, event after event */
	size_t events, values;
	int64_t first_ns, last_ns;
	uint64_t first_at, last_at;

	/* The columns of the current chunk; used again for the next one. */
	uint64_t *number, *real, *words, *form;
	size_t column_room, form_room;
	size_t numbers, reals, texts, forms;
	uint32_t first_text;
	struct column_writer *columns; /* of many events: fast */
};

void tracks_begin(struct track_writer *w, const struct recording *r);
void tracks_free(struct track_writer *w);

static inline bool tracks_due(const struct track_writer *w)
{
	return w->events == TRACKS_HELD;
}

/* at: the number of events before it in the trace. Not to be called when a chunk is due. 0, or
 * MAYFLY_E_MEMORY or MAYFLY_E_RANGE. */
int tracks_add(struct track_writer *w, const struct trace_track *event, uint64_t at);

/* Numbers the nodes of the events that wait. To be called before the tables of a group are written;
 * blocks have numbered theirs by then. 0 or an error. */
int tracks_number_nodes(struct track_writer *w, struct table_writer *tables);

/* Writes new texts, types and sets of labels, and prepares the events. */
void tracks_write_tables(struct track_writer *w, struct column_writer *columns, struct bytes *out);

/* The events, after tracks_write_tables(). few: the trace is small, so that slow compression pays.
 * */
void tracks_write_events(struct track_writer *w, struct column_writer *columns, bool few,
			 struct bytes *out);

#endif
