/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many traces -> one. Each block keeps its own interval and hits, so it is weighted first and
 *summed then, however differently the traces were sampled.
 *
 *	trace 0 -- tables --> unified by what they say (merge_tables.h)
 *	  |
 *	  +-- events, packed ------+
 *	trace 1 -- events, packed -+--> by time: the earliest of all --> trace_writer
 *	trace 2 -- cursor ---------+
 *
 * A small trace is packed into some ten bytes an event and can be closed; a large one, whose cursor
 * takes less memory than that, stays open. Traces of snapshots go interval by interval.
 */
#ifndef MAYFLY_MERGE_H
#define MAYFLY_MERGE_H

#include "trace/write/writer.h"

/* What goes together: exact with either kind of sampling, the others only with their own kind. */
enum merge_kind {
	MERGE_EXACT,
	MERGE_STRATIFIED,
	MERGE_POISSON,
	MERGE_SNAPSHOTS,
	MERGE_EVENTS, /* no blocks: sums of others would not be of all */
};

enum merge_kind merge_kind_of(const struct mayfly_info *info);
bool merge_fits(enum merge_kind a, enum merge_kind b);

/* Intervals of OCaml's blocks are powers of two times one number for all of a trace, its scale:
 * rates that differ by another factor than 2, 4, 8, ... do not go together. */
struct trace_merge;
bool trace_merge_rates_fit(const struct trace_merge *m, const struct mayfly_trace *trace);
/* Whether blocks that count in sums of the trace do not once it is merged with others that have
 * blocks of OCaml's and of malloc's: memory that may be in such a trace twice. */
bool trace_merge_would_hide(const struct mayfly_trace *trace);

enum merge_align {
	MERGE_FROM_START, /* times count from each trace's own start */
	MERGE_BY_CLOCK,	  /* from the earliest start */
};

struct trace_merge *trace_merge_new(enum merge_align align);
/* *stay: the trace must stay open until trace_merge_free(). 0; MAYFLY_E_RANGE: its kind or
 * rate does not fit; or another negative enum mayfly_error. After one the merge can only be freed.
 */
int trace_merge_add(struct trace_merge *m, const struct mayfly_trace *trace, bool *stay);
/* Once. note: a line for who reads the trace. 0, what the sink said, or a negative enum
 * mayfly_error. */
int trace_merge_write(struct trace_merge *m, const char *note, trace_sink *sink, void *context);
void trace_merge_free(struct trace_merge *m);

/* Intervals of the sampled traces: the finest and the coarsest; both 1: there is none. */
void trace_merge_intervals(const struct trace_merge *m, uint64_t *finest, uint64_t *coarsest);

#endif
