/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A walk through a trace's events: blocks and track events in one order, with the open spans of
 * each thread.
 *
 *	thread 0:  [ handle_request [ parse ] [ query ] ]	stack: handle_request, query
 *	thread 1:  [ compact				stack: compact
 *
 * An END closes the latest open span of its type on its thread. Usually that is the innermost one.
 * If it is not, spans overlap. Formats with a single stack of slices per thread cannot express
 * this: for them, the spans above are closed with it and begin anew.
 */
#ifndef MAYFLY_EVENT_WALK_H
#define MAYFLY_EVENT_WALK_H

#include <mayfly/trace.h>

#include "base/interner.h"

enum walk_what {
	WALK_BLOCKS = 1,
	WALK_PROMOTIONS = 2, /* among the blocks */
	WALK_TRACKS = 4,
	/* Order by time, instead of the order in which events happened. Times of blocks are
	 * rounded down to a unit, so a block may seem to precede a track event it came after. */
	WALK_BY_TIME = 8,
	WALK_UNMATCHED = 16, /* also ENDs without a BEGIN: span.number is SPAN_NONE */
};

struct open_span {
	struct mayfly_track_event begin;
	uint64_t number; /* of the trace's spans, counted from 0 in order of their BEGINs */
	uint64_t parent; /* number of the span around it, or SPAN_NONE */
	uint32_t depth;	 /* 0: there is no span around it */
	uint32_t over;	 /* later spans of its type that are not followed; these end first */
	bool cut;	 /* it has no slice any more: see walk_nesting */
};
#define SPAN_NONE UINT64_MAX

struct span_stack {
	struct open_span *span; /* outermost first */
	size_t depth, room;
};

/* For formats with slices, at an END: `close` slices of the thread end; then the `reopen` spans of
 * its stack that are not cut, from span[first] on, begin again. */
struct walk_nesting {
	size_t close, reopen, first;
};
/* If more spans would have to begin again, none does: their slices are cut and end here. */
#define WALK_REOPEN_MOST 64u

enum walk_item { WALK_END_OF_TRACE = 0, WALK_BLOCK = 1, WALK_TRACK = 2 };

struct event_walk {
	const struct mayfly_trace *trace;
	const struct mayfly_info *info;
	const struct mayfly_query *query;
	unsigned what;
	struct mayfly_cursor *blocks;
	struct mayfly_track_cursor *tracks;
	struct mayfly_event next_block;
	struct mayfly_track_event next_track;
	bool has_block, has_track, started;
	uint64_t events;	  /* events of blocks so far, without promotions */
	uint64_t spans;		  /* BEGINs so far */
	size_t open;		  /* spans on all stacks */
	struct span_stack *stack; /* one for each thread, and one for unknown threads */
	uint8_t *thread_kept;	  /* for each thread: does the query keep it? NULL: all */

	enum walk_item item; /* event_walk_run(): what take() is called for */

	/* The result of event_walk_next(). */
	struct mayfly_event block;
	struct mayfly_track_event track;
	struct open_span span; /* BEGIN: now open; END: now closed */
	struct walk_nesting nesting;
};

/*
 * Track events are limited to the query's window and threads; for a span, its BEGIN counts. A trace
 * of snapshots has no single blocks, only track events. 0 or a negative enum mayfly_error; call
 * event_walk_end() in both cases.
 */
int event_walk_begin(struct event_walk *w, const struct mayfly_trace *trace,
		     const struct mayfly_query *query, unsigned what);
/* enum walk_item, or a negative enum mayfly_error. */
int event_walk_next(struct event_walk *w);
void event_walk_end(struct event_walk *w);

/* All of it: take() is called for each item, w->item, and ends it by an error. 0 or the error. */
typedef int event_walk_take(void *context, const struct event_walk *w);
int event_walk_run(const struct mayfly_trace *trace, const struct mayfly_query *query,
		   unsigned what, event_walk_take *take, void *context);

/* For formats with slices: what the BEGIN or END of a span begins (the event; again: its slice was
 * closed by another span's END) and ends (NULL: the innermost slice of the thread), in order. */
typedef void event_walk_slice(void *context, const struct event_walk *w,
			      const struct mayfly_track_event *begin, bool again);
void event_walk_slices(const struct event_walk *w, event_walk_slice *slice, void *context);

/* The open spans of a thread. */
const struct span_stack *event_walk_stack(const struct event_walk *w, uint32_t thread);
/* The innermost open span of a thread, or NULL. */
const struct open_span *event_walk_inside(const struct event_walk *w, uint32_t thread);

/* ---- facts that formats need before they write ---- */

/*
 * For each counter: is it set by several threads? For each flow: its number of events. Memory is
 * bounded: if there are very many flows, only the first ones are counted.
 */
struct track_survey {
	uint64_t events;  /* the number of events of the walk */
	uint32_t *thread; /* type -> the only thread with values, SURVEY_NONE or SURVEY_MANY */
	struct interner flows;
	struct survey_flow *flow; /* by number */
	size_t flow_room;
};
#define SURVEY_NONE UINT32_MAX
#define SURVEY_MANY (UINT32_MAX - 1)

/* 0 or a negative enum mayfly_error; call track_survey_end() in both cases. */
int track_survey_begin(struct track_survey *s, const struct mayfly_trace *trace,
		       const struct mayfly_query *query);
void track_survey_end(struct track_survey *s);

enum flow_step {
	FLOW_NONE = 0, /* no other event belongs to it */
	FLOW_FIRST = 1,
	FLOW_NEXT = 2,
	FLOW_LAST = 3,
};

/* The step of a flow's next event. Call it once for each event, in order. */
enum flow_step track_survey_flow(struct track_survey *s, uint64_t flow);

/* Iterates over the flows of an event; *at is 0 before the first call. False: no more. */
bool track_flow(const struct mayfly_trace *trace, const struct mayfly_track_event *event,
		size_t *at, uint64_t *flow);
/* Whether each thread has its own counter, as for CPU time, or in an eventlog, where each process
 * is a thread. Other counters belong to the process, whichever thread sets them. */
bool track_is_of_threads(const struct mayfly_trace *trace, const struct mayfly_track_type *type);
/* The name of a counter; includes the thread if several threads have their own. */
const char *track_counter_name(char *buffer, size_t size, const struct mayfly_trace *trace,
			       const struct track_survey *s,
			       const struct mayfly_track_event *event);
/* Whether a field's values are addresses, to be shown in hexadecimal. */
bool track_is_address(const struct mayfly_track_field *field);
/* The value of a counter; false: it is not a finite number. */
bool track_counter_value(const struct mayfly_trace *trace, const struct mayfly_track_event *event,
			 double *value);
/* Whether label i of a set counts: if a key occurs twice, only the last one does. */
bool label_counts(const struct mayfly_label *label, size_t i, size_t count);

#endif
