/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The threads of a process that is recorded, from /proc/PID/task: when each begins and ends, and
 * the CPU time that it has used.
 *
 *	task	 which threads there are		each second, sooner at first
 *	TID/stat	 of a new one: when it began, and its name, again in its first seconds
 *	TID/schedstat	 of each: CPU time
 *
 * With very many threads all of this comes more seldom. A thread that begins and ends between two
 * looks is not seen. What was seen waits here until there is a stream to put it into.
 */
#ifndef MAYFLY_THREAD_WATCH_H
#define MAYFLY_THREAD_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "spool/spool_stream.h"

#define THREAD_NAME 16

struct thread_note {
	int64_t mono_ns;
	uint32_t tid;
	uint8_t what;
	uint64_t cpu_ns;
	char name[THREAD_NAME];
};

struct thread_name {
	uint32_t tid;
	bool news; /* not handed over yet */
	char name[THREAD_NAME];
};

struct watched_thread {
	uint32_t tid;
	bool seen;	 /* at the latest look */
	int64_t since;	 /* first seen */
	size_t name;	 /* in thread_watch.name, or beyond its end */
	uint64_t cpu_ns; /* as last noted; UINT64_MAX: not yet */
};

struct thread_watch {
	int64_t begun_ns, next_ns, looked_ns; /* on CLOCK_MONOTONIC; 0: not yet */
	int64_t boot_ns;		      /* that clock when the machine was switched on */
	struct watched_thread *thread;	      /* by tid */
	size_t threads, thread_room;
	struct thread_name *name; /* of all threads, also those that have ended */
	size_t names, name_room;
	bool news; /* of some name */
	struct thread_note *note;
	size_t notes, note_room;
};

/* Looks when it is due. */
void thread_watch_look(struct thread_watch *t, pid_t pid);

/* To be called when the process has ended but has not been waited for: the last figures of its
 * first thread. */
void thread_watch_last(struct thread_watch *t, pid_t pid);

/* True: enough figures are waiting to be written. */
bool thread_watch_is_full(const struct thread_watch *t);

/* Hands over the waiting figures. start_mono_ns: time 0 of the trace. 0 or a negative enum
 * mayfly_error. */
int thread_watch_hand(struct thread_watch *t, int64_t start_mono_ns, struct spool_stream *to);

void thread_watch_free(struct thread_watch *t);

#endif
