/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events other than allocations, ready to be shown: types of spans with what their threads
 * allocated meanwhile; instants, counters, CPU time and pauses by thread.
 */
#ifndef MAYFLY_EVENT_ROWS_H
#define MAYFLY_EVENT_ROWS_H

#include <mayfly/trace.h>

#include "answer/json_writer.h"
#include "answer/thread_pauses.h"

enum span_sort {
	SPAN_SORT_SELF,
	SPAN_SORT_TOTAL,
	SPAN_SORT_COUNT,
	SPAN_SORT_ALLOCATED,
	SPAN_SORT_LIVE,
};
/* As options say them; ends with NULL. */
extern const char *const span_sort_names[];

struct event_rows {
	const struct mayfly_trace *trace;
	struct mayfly_spans *spans;
	struct mayfly_track_sums *sums;	    /* NULL: only spans were asked for */
	struct thread_pauses pauses;	    /* likewise empty */
	const struct mayfly_span_row **row; /* [spans->rows], sorted */
	enum span_sort sort;
	bool blocks; /* what spans allocate is known, and shown */
	/* How often OCaml's runtime had overwritten events before they were read: they are missing. */
	uint64_t losses;
};

/* Spans alone; with everything else: then what spans allocate is not shown. 0 or a negative enum
 * mayfly_error; event_rows_end() is to be called in both cases. */
int event_rows_of_spans(struct event_rows *e, const struct mayfly_trace *trace,
			const struct mayfly_query *query, enum span_sort sort);
int event_rows_of_all(struct event_rows *e, const struct mayfly_trace *trace,
		      const struct mayfly_query *query, enum span_sort sort);
void event_rows_end(struct event_rows *e);

bool trace_has_spans(const struct mayfly_trace *trace);
/* Whether the trace knows what spans allocate. */
bool trace_has_span_blocks(const struct mayfly_info *info);

/* Spans that have not ended; and all: ended, open and ignored. */
uint64_t open_spans(const struct mayfly_spans *spans);
uint64_t all_spans(const struct mayfly_spans *spans);

/* The tables that a sum may stand in. */
enum event_section {
	SECTION_INSTANTS,
	SECTION_COUNTERS,
	SECTION_BUCKETS, /* numbers of blocks that OCaml's runtime allocated, by class of size */
	SECTION_THREADS, /* CPU time */
};
enum event_section event_section(const struct mayfly_track_type *type);

/* Members of an object that is open. At most `top` rows in each list; 0: all. */
void json_events(struct json *j, const struct event_rows *e, const struct mayfly_query *query,
		 size_t top);

#endif
