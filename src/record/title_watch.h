/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a process calls itself (/proc/PID/cmdline, as ps shows it). It is looked at each second, more
 * often at first.
 */
#ifndef MAYFLY_TITLE_WATCH_H
#define MAYFLY_TITLE_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "record/process_watch.h"

struct title_watch {
	int64_t begun_ns, next_ns; /* on CLOCK_MONOTONIC; 0: not yet */
	uint32_t bytes;
	char *text; /* not ended by a zero; NULL: not seen so far */
};

/* Looks when it is due. What has replaced the program in this process (exec) has no part in it: it
 * does not have the spool mapped. */
void title_watch_look(struct title_watch *t, const struct process_watch *process,
		      const char *spool);
void title_watch_free(struct title_watch *t);

#endif
