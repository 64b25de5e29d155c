/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters of a trace: series of (time, value) with a name and a unit, as the recorder and the
 * agent measure them beside the blocks.
 *
 *	counter 0 "rss"		o   o   o   o		points of all counters, in the order in
 *	counter 1 "threads"	o   o       o		which they come; most were read at one
 *	moment			0   1   2   3		of a few moments
 *
 * A writer holds some thousand points, then they become one `cntr` chunk (doc/FORMAT.md).
 */
#ifndef MAYFLY_COUNTERS_WRITE_H
#define MAYFLY_COUNTERS_WRITE_H

#include "format/columns.h"
#include "trace/write/recording.h"

#define COUNTERS_HELD 16384u /* points, and moments, until a chunk is due */

struct written_counter {
	uint32_t name, unit; /* strings of the tables */
	int64_t last_ns;
	size_t points, last_moment; /* in this chunk; last_moment: + 1, 0: none */
};

struct counter_point {
	uint32_t counter, moment;
	double value;
};

struct counter_writer {
	struct written_counter *counter;
	size_t counters, counter_room, named, last;
	struct counter_point *point;
	int64_t *moment;
	size_t points, moments;
};

void counters_free(struct counter_writer *w);
/* False: no memory. A value that is not a finite number is left out; a time before the counter's
 * last one counts as that. */
bool counters_add(struct counter_writer *w, int64_t time_ns, uint32_t name, uint32_t unit,
		  double value);
static inline bool counters_due(const struct counter_writer *w)
{
	return w->points == COUNTERS_HELD;
}
/* Appends the chunk, if there are points. Out of memory shows as out->failed. */
void counters_write(struct counter_writer *w, const struct recording *tables,
		    struct column_writer *columns, struct bytes *out);

#endif
