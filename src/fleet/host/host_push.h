/* SPDX-License-Identifier: Apache-2.0 */
/* Windows of a host's processes. Nothing is kept on the disk: what the database does not take is part of the
 * next window. */
#ifndef MAYFLY_HOST_PUSH_H
#define MAYFLY_HOST_PUSH_H

#include "fleet/host/host_copy.h"
#include "fleet/host/host_process.h"
#include "fleet/push/push_said.h"
#include "fleet/push/push_window.h"

struct host_push {
	struct push_to to; /* its service, labels and share are each process's */
	struct push_said said;
	bool away;    /* since this was last set to false, the database has not answered */
	bool checked; /* the tables have the right version */
	struct host_copies copies;
	/* For who asks how it goes. */
	uint64_t windows, failures;
	int64_t last_ns; /* CLOCK_MONOTONIC of the last window; 0: none */
};

/*
 * Pushes a window of a process that is known, if there is something to tell: it records, or did since its
 * last window, or has ended, or has live blocks and a window of its rule's length has passed. The window
 * of a process that has ended is its last one: then it is done.
 */
void host_push(struct host_push *h, struct host_process *p, const struct host_config *c,
	       int64_t now_ns);

#endif
