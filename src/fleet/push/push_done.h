/* SPDX-License-Identifier: Apache-2.0 */
/* How a push to a server ended. */
#ifndef MAYFLY_PUSH_DONE_H
#define MAYFLY_PUSH_DONE_H

enum push_done {
	PUSH_GOOD,
	PUSH_THERE,   /* there is nothing that it lacks */
	PUSH_TRACE,   /* the trace cannot be pushed */
	PUSH_AWAY,    /* the server cannot be had, or takes nothing now */
	PUSH_REFUSED, /* the server does not take it, now or later */
};

/* On the last three, why[PUSH_WHY] is one line without a line break. */
#define PUSH_WHY 600

#endif
