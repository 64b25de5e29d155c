/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The track events of a trace, arranged for being drawn: made once by one pass over all events, then
 * any range is answered in a time that grows with the pixels, not with the events.
 *
 *	lane "worker-3"		rows: of spans by depth, then instants
 *	row 0	|-- request -------|  |-- request --------|
 *	row 1	  |- parse -| |-a-|	|- parse -|
 *	row 2	  '     ''   ' (instants)
 *
 * A span lies in the lowest row of its thread that is free at its begin, so the items of a row never
 * overlap and both their begins and their ends ascend: binary search finds those of a range, and
 * those that lie within one pixel.
 */
#ifndef MAYFLY_LANE_INDEX_H
#define MAYFLY_LANE_INDEX_H

#include "trace/read/reader.h"

#include <mayfly/trace.h>

#define LANE_ROWS    64u	/* of spans that are kept; deeper ones are only counted */
#define LANE_PROCESS UINT32_MAX /* instead of a thread: what concerns the whole process */
#define LANE_OPEN    INT64_MAX	/* end of a span that never ended */

struct lane_item {
	int64_t begin_ns, end_ns; /* equal for instants */
	int64_t busy_ns;	  /* the sum of the durations of the items before it in the row */
	uint32_t type;
	uint32_t value; /* of its first field, in lane_index.value[]; LANE_NO_VALUE */
};

#define LANE_NO_VALUE UINT32_MAX

struct lane_row {
	struct lane_item *item;
	size_t items, room;
};

struct lane {
	uint32_t thread; /* index, or LANE_PROCESS */
	/* When the thread began and ended, by the events that say so; INT64_MIN, INT64_MAX: none. */
	int64_t start_ns, exit_ns;
	size_t span_rows;
	struct lane_row row[LANE_ROWS]; /* [span_rows] */
	struct lane_row instants;
	uint64_t deeper;    /* spans that have no row */
	uint64_t unmatched; /* ends without a begin */
};

/* The values of a type of counter, in time order; for a type that several threads count, in one
 * line. */
struct lane_counter {
	uint32_t type;
	size_t points;
	int64_t *time_ns;
	double *value;
	size_t time_room, value_room;
};

struct lane_index {
	struct trace_index kept;
	/* Lanes with events: first the process's, then threads in the trace's order. */
	struct lane **lane;
	size_t lanes;
	struct lane_counter *counter;
	size_t counters;
	/* The fields of an item stand one after the other. An item of LANE_PROCESS has one more: the
	 * index of its thread. */
	union mayfly_value *value;
	size_t values, value_room;
	int64_t end_ns; /* of the recording */
};

/* Made at the first call and kept until the trace is closed. Several threads may call it at once. 0 or
 * a negative enum mayfly_error. */
int lane_index(const struct mayfly_trace *trace, const struct lane_index **index);

/* The first item of the row that ends after this time or, if it is an instant, is not before it. */
size_t lane_first(const struct lane_row *row, int64_t from_ns);
/* The first item from number `first` on that begins at this time or later. */
size_t lane_begin_at(const struct lane_row *row, size_t first, int64_t ns);

#endif
