/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose memory is to be fetched: what a recorder, or the agent of a host, tells of its processes. Its functions
 * are called from several threads.
 */
#ifndef MAYFLY_PULL_SOURCE_H
#define MAYFLY_PULL_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "record/live_trace.h"

struct pull_process {
	pid_t pid;
	char *service, *program, *spool;
	ino_t inode; /* of its spool */
	uid_t owner;
};

struct pull_list {
	struct pull_process *process;
	size_t count, room;
};

/* Copies the texts. False: out of memory. */
bool pull_list_add(struct pull_list *list, const struct pull_process *process);
void pull_list_free(struct pull_list *list);

/* What whoever pushes has to tell. */
struct pull_pushes {
	bool pushes; /* windows are pushed at all */
	uint64_t windows, failures;
	int64_t last_ns; /* CLOCK_MONOTONIC of the last success; 0: none */
};

struct pull_source {
	/* The processes that are recorded now. False: out of memory. */
	bool (*list)(void *context, struct pull_list *list);
	/* What is recorded of one until now: 0, an errno or a negative enum mayfly_error. names: with functions
	 * and lines. One call at a time. */
	int (*open)(void *context, const struct pull_process *process, bool names,
		    struct live_trace *trace);
	void (*pushes)(void *context, struct pull_pushes *pushes); /* NULL: there are none */
	/* NULL: all is well; or why it is not. ready: whether there is something to be asked already; otherwise
	 * whether the process that records still does its work. */
	const char *(*health)(void *context, bool ready);
	void *context;
};

#endif
