/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A recording that still goes on, as a trace of what there is so far:
 *
 *	FILE.spool	all of it, while it is small
 *	FILE.part	once the recorder reads the spool: all but about the last second
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
};

/* 0 or a negative enum mayfly_error. MAYFLY_E_EMPTY: nothing has been recorded so far.
 * MAYFLY_E_NOT_A_TRACE: the spool is not there any more, or is none. */
int live_trace_open(struct live_session *s, const char *spool, struct live_trace *out);
void live_trace_close(struct live_trace *t);

#endif
