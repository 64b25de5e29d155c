/* SPDX-License-Identifier: Apache-2.0 */
/* Windows of a host's processes. Nothing is kept on the disk: what the database does not take is part of the
 * next window. */
#ifndef MAYFLY_HOST_PUSH_H
#define MAYFLY_HOST_PUSH_H

#include "fleet/host/host_process.h"
#include "fleet/push/push_said.h"
#include "fleet/push/push_window.h"
#include "record/live_trace.h"

/* Names of functions, which are kept for some users each, as one may read what another may not. */
#define HOST_SESSIONS 4u

struct host_session {
	struct live_session *session; /* NULL: none */
	uid_t owner;
	uint64_t used;
	unsigned int traces; /* named with it */
};

struct host_push {
	struct push_to to; /* its service, labels and share are each process's */
	struct push_said said;
	bool away;    /* since this was last set to false, the database has not answered */
	bool checked; /* the tables have the right version */
	struct host_session session[HOST_SESSIONS];
	uint64_t uses;
};

/*
 * Pushes a window of a process that is known, if there is something to tell: it records, or did since its
 * last window, or has ended, or has live blocks and a window of its rule's length has passed. The window
 * of a process that has ended is its last one: then it is done.
 */
void host_push(struct host_push *h, struct host_process *p, const struct host_config *c,
	       int64_t now_ns);

void host_push_end(struct host_push *h);

#endif
