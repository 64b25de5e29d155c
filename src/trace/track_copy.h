/* SPDX-License-Identifier: Apache-2.0 */
/* Taking track events and labels over from an open trace into one that is being made. */
#ifndef MAYFLY_TRACK_COPY_H
#define MAYFLY_TRACK_COPY_H

#include "trace/writer.h"

struct track_copy {
	const struct mayfly_trace *from;
	struct recording *to;
	uint32_t *type;	  /* of each of the trace's types: that of the tables, or RECORDING_NONE */
	uint32_t *labels; /* of each set, likewise */
	struct mayfly_track_cursor *cursor;
	struct mayfly_track_event next;
	bool more; /* `next` is one */
	uint64_t lost;
};

/* Adds the trace's types and sets of labels to the tables. What no longer fits becomes events that
 * are lost, and blocks without labels. 0 or an error. */
int track_copy_begin(struct track_copy *c, const struct mayfly_trace *from, struct recording *to);
void track_copy_end(struct track_copy *c);

/* Writes c->next as an event of this thread, node and time, and steps on. 0 or an error. */
int track_copy_next(struct track_copy *c, struct trace_writer *w, uint32_t thread, uint32_t node,
		    int64_t time_ns);

#endif
