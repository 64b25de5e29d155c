/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many traces -> one. Each block keeps its own interval and hits. So each is weighted before it is
 * summed, and the traces may have been sampled differently.
 *
 *	trace 0 -- tables --> unified by what they say (merge_tables.h)
 *	  |
 *	  +-- events, packed ------+
 *	trace 1 -- events, packed -+--> by time: the earliest of all --> trace_writer
 *	trace 2 -- cursor ---------+
 *
 * A small trace is packed into about ten bytes an event and can be closed. A large one stays open,
 * because its cursor takes less memory than that. Traces of snapshots are merged interval by
 * interval.
 */
#ifndef MAYFLY_MERGE_H
#define MAYFLY_MERGE_H

#include "trace/write/writer.h"

/* Which traces can be merged: exact ones with either kind of sampling, others only with their own
 * kind. */
enum merge_kind {
	MERGE_EXACT,
	MERGE_STRATIFIED,
	MERGE_POISSON,
	MERGE_SNAPSHOTS,
	MERGE_EVENTS, /* no blocks: they would be missing from the sums of the others */
};

enum merge_kind merge_kind_of(const struct mayfly_info *info);
bool merge_fits(enum merge_kind a, enum merge_kind b);

/* In a trace all intervals of OCaml blocks are powers of two times one number, its scale. So traces
 * whose rates differ by a factor other than 2, 4, 8, ... cannot be merged. */
struct trace_merge;
bool trace_merge_rates_fit(const struct trace_merge *m, const struct mayfly_trace *trace);
/* Whether some blocks that count in the trace's sums will no longer count once it is merged with
 * traces that have both OCaml blocks and malloc blocks. Those blocks may be in such a trace twice.
 * */
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
/* To be called once. note: a line for the reader of the trace. 0, what the sink said, or a negative
 * enum mayfly_error. */
int trace_merge_write(struct trace_merge *m, const char *note, trace_sink *sink, void *context);
void trace_merge_free(struct trace_merge *m);

/* Intervals of the sampled traces: the finest and the coarsest; both 1: there is none. */
void trace_merge_intervals(const struct trace_merge *m, uint64_t *finest, uint64_t *coarsest);

#endif
