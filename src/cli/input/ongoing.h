/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A recording that goes on: which one the user means, and looks at it from time to time, each of
 * which gives a trace of what there is so far, and at its end the trace that the recorder made.
 */
#ifndef MAYFLY_ONGOING_H
#define MAYFLY_ONGOING_H

#include <sys/types.h>

#include "cli/input/open_trace.h"

/*
 * What the user named: a spool, the trace that will be made of it, or the number of a process that
 * is being recorded. The path of the spool, for the caller to free, and *still: whether the
 * recording goes on. NULL: it is none of them; *why then says, for a process, why it cannot be
 * shown, or is NULL.
 */
char *ongoing_find(const char *named, bool *still, const char **why);
/* The same where a finished trace cannot be meant: one of an earlier recording may be there with the name
 * that this one's will have. */
char *ongoing_find_unfinished(const char *named, bool *still, const char **why);
/* The spool of a process: the first one that it has mapped. NULL: *why there is none. */
char *ongoing_of_process(long pid, const char **why);

struct ongoing {
	char *file;  /* the trace to come: the spool's name without its ending */
	char *spool; /* of the latest image */
	pid_t pid;   /* as the process itself has it */
	bool ours;   /* the recorder is this process */
	struct live_session *session;
	unsigned int lost; /* looks at it that found no file */
	bool unsettled;	   /* of the latest look: its times may change (live_trace.h) */
};

/* False: out of memory. */
bool ongoing_begin(struct ongoing *r, const char *spool, bool ours);
/* After all traces that it has opened. */
void ongoing_end(struct ongoing *r);

enum ongoing_seen {
	ONGOING_UNSEEN, /* nothing new: there is nothing yet, or it cannot be read now */
	ONGOING_SO_FAR,
	ONGOING_DONE, /* the trace */
};

/* last: the recorder is known to be done. False: there is no more to come. *opened is set unless
 * *seen is ONGOING_UNSEEN. */
bool ongoing_look(struct ongoing *r, bool last, struct opened_trace *opened,
		  enum ongoing_seen *seen);

#endif
