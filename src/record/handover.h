/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spools for processes that cannot open them by their path: they run as another user, or see other
 * files (format/handover_message.h). A thread of the recorder answers them, so that a program does not
 * wait for what the recorder is just reading.
 *
 * Anybody on this machine can connect. A caller that does not know the recording's secret gets nothing.
 * One that does gets new files of this recording, as many as its limit allows, and those that it has
 * mapped already.
 */
#ifndef MAYFLY_HANDOVER_H
#define MAYFLY_HANDOVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "format/handover_message.h"

struct handover_given; /* a spool that was given to a process */

struct handover_server {
	char key[HANDOVER_KEY_DIGITS + 1]; /* "": there is none */
	int listener[2], stop;		   /* abstract, and a file */
	bool runs;
	unsigned long thread;
	const char *file; /* the trace; the spools are beside it */
	pid_t first;	  /* the process that the recorder's own spool is for */
	pid_t only;	  /* the process that may ask; 0: any */
	/* The limit of each spool, and of all together that were made here; 0: none */
	uint64_t most_bytes;
	struct handover_given *given;
	size_t count, room;
};

/* Opens the socket, before the program starts. False: it goes without. */
bool handover_open(struct handover_server *s);
/* Answers from now on. The fields file, only and most_bytes are set. */
void handover_start(struct handover_server *s);
/* Ends that, and removes the spools that no agent has begun. */
void handover_stop(struct handover_server *s);

#endif
