/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A walk through a trace's events: blocks and track events in one order, and which spans of a
 * thread are open meanwhile.
 *
 *	thread 0:  [ handle_request [ parse ] [ query ] ]	stack: handle_request, query
 *	thread 1:  [ compact				stack: compact
 *
 * An END closes the latest span of its type that its thread has open. Mostly that is the innermost
 * one. Where it is not, spans overlap, and formats that know only one stack of slices for each
 * thread cannot say so: for them, the spans above are closed with it and begin anew.
 */
#ifndef MAYFLY_EVENT_WALK_H
#define MAYFLY_EVENT_WALK_H

#include <mayfly/trace.h>

enum walk_what {
	WALK_BLOCKS = 1,
	WALK_PROMOTIONS = 2, /* with the blocks */
	WALK_TRACKS = 4,
	/* By time. Else in the order in which they happened: blocks' times are whole numbers of a
	 * unit, so a block may have a time just before that of the track event it came after. */
	WALK_BY_TIME = 8,
	WALK_UNMATCHED = 16, /* ENDs without a BEGIN, too: span.number is SPAN_NONE */
};

struct open_span {
	struct mayfly_track_event begin;
	uint64_t number; /* of the trace's spans, counted from 0 in order of their BEGINs */
	uint64_t parent; /* number of the span around it, or SPAN_NONE */
	uint32_t depth;	 /* 0: there is no span around it */
	uint32_t
	    over; /* spans of its type, begun after it, that are not followed: they end first */
	bool cut; /* has no slice any more: see walk_nesting */
};
#define SPAN_NONE UINT64_MAX

struct span_stack {
	struct open_span *span; /* the outermost first */
	size_t depth, room;
};

/* For formats of slices, at an END: this many slices of the thread are closed; then the `reopen`
 * spans of its stack that are not cut, from span[first] on, begin again. */
struct walk_nesting {
	size_t close, reopen, first;
};
/* More than so many are not begun again: as slices they are cut, and end here. */
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
	uint64_t events;	  /* blocks' events so far, without promotions */
	uint64_t spans;		  /* BEGINs so far */
	size_t open;		  /* on all stacks */
	struct span_stack *stack; /* of each thread, and one for those that are unknown */
	uint8_t *thread_kept;	  /* of each thread: does the query keep it; NULL: all */

	/* What event_walk_next() has found. */
	struct mayfly_event block;
	struct mayfly_track_event track;
	struct open_span span; /* BEGIN: now open; END: now closed */
	struct walk_nesting nesting;
};

/*
 * Of track events, those in the query's window and of its threads: a span counts by its BEGIN. A
 * trace of snapshots has no blocks to walk through, but track events. 0 or a negative enum
 * mayfly_error; event_walk_end() is to be called in both cases.
 */
int event_walk_begin(struct event_walk *w, const struct mayfly_trace *trace,
		     const struct mayfly_query *query, unsigned what);
/* enum walk_item, or a negative enum mayfly_error. */
int event_walk_next(struct event_walk *w);
void event_walk_end(struct event_walk *w);

/* The spans that a thread has open. */
const struct span_stack *event_walk_stack(const struct event_walk *w, uint32_t thread);
/* The innermost one; NULL: none. */
const struct open_span *event_walk_inside(const struct event_walk *w, uint32_t thread);

/* ---- what formats have to know before they write ---- */

/*
 * Of each counter, whether several threads have values of it; of each flow, how many events.
 * Memory is bounded: of very many flows, the first ones.
 */
struct track_survey {
	uint64_t events;  /* all that will be found */
	uint32_t *thread; /* of each type: the one with its values, SURVEY_NONE or SURVEY_MANY */
	struct survey_flow *flow;
	size_t flows, slots;
};
#define SURVEY_NONE UINT32_MAX
#define SURVEY_MANY (UINT32_MAX - 1)

/* 0 or a negative enum mayfly_error; track_survey_end() is to be called in both cases. */
int track_survey_begin(struct track_survey *s, const struct mayfly_trace *trace,
		       const struct mayfly_query *query);
void track_survey_end(struct track_survey *s);

enum flow_step {
	FLOW_NONE = 0, /* no other event belongs to it */
	FLOW_FIRST = 1,
	FLOW_NEXT = 2,
	FLOW_LAST = 3,
};

/* The step of a flow's next event. Asked once for each, in their order. */
enum flow_step track_survey_flow(struct track_survey *s, uint64_t flow);

/* The numbers of the flows that an event belongs to: *at is 0 before the first call. False: no
 * more. */
bool track_flow(const struct mayfly_trace *trace, const struct mayfly_track_event *event,
		size_t *at, uint64_t *flow);
/* Whether each thread has a counter of its own, as of its CPU time, or of an eventlog, where each
 * process is a thread. Others are the process's, whichever thread says the value. */
bool track_is_of_threads(const struct mayfly_trace *trace, const struct mayfly_track_type *type);
/* What a counter is called: with its thread, when it is of threads and several have one. */
const char *track_counter_name(char *buffer, size_t size, const struct mayfly_trace *trace,
			       const struct track_survey *s,
			       const struct mayfly_track_event *event);
/* Whether a field's values are addresses, which people read in hexadecimal. */
bool track_is_address(const struct mayfly_track_field *field);
/* The value of a counter; false: it is no finite number. */
bool track_counter_value(const struct mayfly_trace *trace, const struct mayfly_track_event *event,
			 double *value);
/* Whether label i of a set counts: of a key that is there twice, the last one does. */
bool label_counts(const struct mayfly_label *label, size_t i, size_t count);

#endif
