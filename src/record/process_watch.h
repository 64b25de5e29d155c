/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that writes a spool, as it is seen from here.
 *
 * The number in a spool's header and name is the one that the process has in its own PID namespace.
 * Where that is not ours, the process is found by the spool that it has mapped, and is known from
 * then on by a descriptor (pidfd): numbers are used again, and exec changes neither.
 */
#ifndef MAYFLY_PROCESS_WATCH_H
#define MAYFLY_PROCESS_WATCH_H

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "record/spool_watch.h"

struct process_watch {
	pid_t pid;    /* its number here; 0: it has ended, or cannot be found */
	int fd;	      /* its pidfd, or -1 */
	bool foreign; /* it has other numbers for itself and its threads */
};

void process_watch_begin(struct process_watch *p, const struct spool_entry *e);
bool process_watch_ended(const struct process_watch *p);
/* It lives, and has the spool mapped; or whether it has cannot be seen. False after an exec. */
bool process_watch_writes(const struct process_watch *p, const char *spool);
/* How it ended, as wait() would say. False: that is not known. */
bool process_watch_status(const struct process_watch *p, int *status);
void process_watch_close(struct process_watch *p);

/* Its PID namespace is not ours. */
bool process_is_foreign(const struct spool_entry *e);

/* The process has this file mapped. */
bool process_maps_file(pid_t pid, const struct stat *st);

/* The number here of the process that has this spool mapped; 0: there is none. */
pid_t process_of_spool(const struct spool_entry *e);

/* True while the process that writes this spool lives: it has the file mapped. */
bool spool_in_use(const struct spool_entry *e);

/* "/folder/FILE" and the ending, as the kernel writes it; FILE need not be there. NULL: there is no such
 * folder, or no memory. */
char *spool_real_name(const char *file, const char *ending);

/* True when any process has any spool of this recording mapped: also a child that was forked a
 * moment ago and has not made its own yet. Slow: looks at all processes. */
bool spool_anybody(const char *file);

#endif
