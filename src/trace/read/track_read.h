/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening the chunks text, type, labl and trak: track events and labels (doc/FORMAT.md).
 *
 *	track_read.c	texts, types, sets of labels; lists the trak chunks
 *	track_cursor.c	going through the events
 */
#ifndef MAYFLY_TRACK_READ_H
#define MAYFLY_TRACK_READ_H

#include "trace/read/reader.h"

bool tracks_read_begin(struct table_reader *r); /* false: r->chunk.error */

/* Reads a chunk of text, type or labl, or notes one of trak, at whose first byte r->chunk stands;
 * r->chunk.error tells how it went. False: it is of another type. at: of its header in the file. */
bool tracks_read(struct table_reader *r, uint32_t type, size_t at);

/* After all chunks: leaves out the trak chunks that are damaged, or refer to what is missing. r->error
 * tells how it went. */
void tracks_drop_unsound(struct mayfly_trace *t, struct chunk_reader *r);
/* Keeps the first `count` of them. */
void tracks_cut(struct mayfly_trace *t, size_t count);

void tracks_close(struct mayfly_trace *t);

/* The cursor's next chunk, which there is: checks all of it. 0 or an error, after which the chunk after
 * it can be loaded. */
int track_cursor_load(struct mayfly_track_cursor *cursor);

#endif
