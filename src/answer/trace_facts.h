/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Facts about a trace as a whole: what kind it is, how it was recorded, what it holds. Text
 * functions write into the caller's buffer and return it.
 */
#ifndef MAYFLY_TRACE_FACTS_H
#define MAYFLY_TRACE_FACTS_H

#include <mayfly/trace.h>

/* Whether each block counts for itself, so that figures have no error. */
bool trace_is_exact(const struct mayfly_info *info);
/* Whether it is not about blocks: it was made of a file that has events alone. */
bool trace_has_no_blocks(const struct mayfly_info *info);
/* Whether mayfly recorded the program, so that it can be recorded again in another way. Else the trace
 * was made of another tool's file. */
bool trace_is_recorded(const struct mayfly_info *info);
/* Whether no block of it is of malloc: a file of Memtrace's. */
bool trace_is_ocaml_alone(const struct mayfly_info *info);
/* Whether it has blocks of malloc that OCaml's blocks lie in. */
bool trace_overlaps(const struct mayfly_info *info);
/* Whether it has blocks of malloc that those of a pool of the program's lie in. */
bool trace_has_pools(const struct mayfly_info *info);

/* Its blocks, the frees and the inherited blocks that its figures are about: without mappings. */
uint64_t trace_samples(const struct mayfly_info *info);
uint64_t trace_frees(const struct mayfly_info *info);
uint64_t trace_inherited(const struct mayfly_info *info);

/* "97 % of the allocations were dropped while recording" when so much is missing that no figure is the
 * program's; else "". */
char *trace_lost_text(char *buffer, size_t size, const struct mayfly_info *info);

/* A frame that a runtime with mayfly/memprof.h has named, which knows its callers, too. */
bool trace_is_runtime_frame(const struct mayfly_frame *frame);
/* Whose heaps those are that are not malloc's: "OCaml", the name that another runtime has given its heap,
 * or "the runtime". */
const char *trace_heap_owner(const struct mayfly_trace *trace);

/* The number of intervals that a trace of snapshots has counters for; 0 for other traces. */
size_t trace_snapshots(const struct mayfly_trace *trace);
/* "every 500 ms, 2 with changes", or, when the snapshots of another tool's file had no interval, "2". */
char *trace_snapshots_text(char *buffer, size_t size, const struct mayfly_trace *trace);
/* "1 byte in 512 KiB", and how far the interval was raised. */
char *interval_text(char *buffer, size_t size, const struct mayfly_trace *trace);
/* "stratified" between these two; "" when it is not known. */
char *sampler_text(char *buffer, size_t size, const struct mayfly_info *info, const char *before,
		   const char *after);
/* The same for traces that were converted and lack something. */
char *mode_text(char *buffer, size_t size, const struct mayfly_trace *trace);

/* Code addresses on stacks that lie in a module, and those of them with a function name. */
struct module_frames {
	size_t frames, named;
};

/* An array with an item for each module, to be freed; NULL when out of memory. */
struct module_frames *count_module_frames(const struct mayfly_trace *trace);

/* The number of distinct stacks that allocated. */
size_t trace_stacks(const struct mayfly_trace *trace);

/* A span counts once. */
struct track_counts {
	uint64_t spans, instants, values; /* values: of counters */
	size_t span_types, label_sets;	  /* types: that began; sets: without the empty one */
};

/* Counts the whole trace. 0 or a negative enum mayfly_error. */
int count_tracks(const struct mayfly_trace *trace, struct track_counts *counts);
/* "1234 spans of 4 types, 20 instants, 1 counter value"; "" when there is none of them. */
char *track_counts_text(char *buffer, size_t size, const struct track_counts *counts);

#define MOST_LABEL_KEYS 8 /* that are named */

#endif
