/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A recording that still goes on, as a trace of what there is so far:
 *
 *	FILE.part	of a recorder, which reads the spool once somebody looks: all but about the
 *			last second. What it has does not change any more, and is the trace to come.
 *	FILE.spool	all of it, where no recorder reads it
 */
#ifndef MAYFLY_LIVE_TRACE_H
#define MAYFLY_LIVE_TRACE_H

#include <mayfly/trace.h>
#include <stdbool.h>

/* What is needed for all of them: files with names that were opened, and the names. */
struct live_session;
struct live_session *live_session_new(void); /* NULL: out of memory */
/* After all traces that it has opened. */
void live_session_free(struct live_session *s);

struct live_trace {
	struct mayfly_trace *trace;
	void *data; /* that it is in */
	size_t size;
	bool mapped;
	int64_t start_ns;  /* of the recording, CLOCK_MONOTONIC */
	int64_t opened_ns; /* since then: it has all that was there by then */
	/* A recorder lives that does not read the spool yet: its trace will have other times. */
	bool unsettled;
};

/* How long to wait for the recorder. */
enum live_wait {
	LIVE_WAIT_NOT,	 /* for the recorder's own thread */
	LIVE_WAIT_BEGUN, /* until it reads: all but about the last second */
	LIVE_WAIT_ALL,	 /* until it has written all that there is now */
};

/* A recorder lives that writes a trace of this spool. */
bool live_trace_recorded(const void *data, size_t size);

/* 0 or a negative enum mayfly_error. MAYFLY_E_EMPTY: nothing has been recorded so far.
 * MAYFLY_E_NOT_A_TRACE: the spool is not there any more, or is none. */
int live_trace_open(struct live_session *s, const char *spool, enum live_wait wait,
		    struct live_trace *out);
/* The same from a copy of the spool (spool_copy.h), which may go then. No other file of the recording is
 * read. copied_ns: CLOCK_MONOTONIC before it was copied. s: NULL: without names. */
int live_trace_open_copy(struct live_session *s, const void *copy, size_t size, int64_t copied_ns,
			 struct live_trace *out);

/* The two halves of that: what is there now, and the names, which may take a while. After the first
 * the program may end, and the spool may go. */
int live_trace_open_unnamed(const char *spool, enum live_wait wait, struct live_trace *out);
int live_trace_name(struct live_session *s, struct live_trace *t);
/* Writes it as a trace of its own, which takes the place of a file of that name. 0 or an errno or a
 * negative enum mayfly_error. */
int live_trace_save(const struct live_trace *t, const char *path, const char *note);
/* To be written as a trace of its own: it is not a part of one, nor a spool, and its end is the
 * moment at which it was opened, at which the program still ran. */
void live_trace_say_whole(struct live_trace *t);
void live_trace_close(struct live_trace *t);

#endif
