/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of a process at one moment.
 *
 *	all its threads stop; their registers are read
 *	one of them forks a copy of the process, which never runs
 *	all threads run on
 *	the copy is read, for as long as that takes
 *	it is killed; a thread of the process waits for it
 *
 * Where no copy can be made, the caller has the memory copied while the threads are stopped. A process that
 * is about to exit needs no copy: its threads stay stopped until freeze_end(). The calling thread traces
 * them; it must be the one that ends the freeze.
 *
 * Nobody but the caller can read the copy. When the caller is killed, so is the copy; then a child that
 * has ended, of which the program gets no signal, stays until the program ends. When it is killed within
 * the stop, a system call that waits may end with EINTR, as after SIGSTOP and SIGCONT.
 */
#ifndef MAYFLY_FREEZE_H
#define MAYFLY_FREEZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "attach/injection.h"

#define FREEZE_WHY	 320
#define FREEZE_REGISTERS INJECTION_REGISTERS
#define FREEZE_WORDS	 INJECTION_WORDS

struct frozen_thread {
	pid_t tid;
	uint64_t registers[FREEZE_REGISTERS];
	uint64_t thread_pointer;      /* where its thread-local variables are: fs */
	uint64_t words[FREEZE_WORDS]; /* of all other registers, and what a system call is given */
	size_t word_count;
};

enum frozen_how {
	FROZEN_COPY,	/* a copy of the process */
	FROZEN_MEMORY,	/* its memory was copied while it was stopped */
	FROZEN_HELD,	/* the process itself: it stays stopped */
	FROZEN_RUNNING, /* its memory is read while it runs */
};

struct freeze;

struct freeze_wishes {
	bool no_stop;
	bool hold;
	int64_t most_stop_ns; /* 0: any */
	/* Called while all threads are stopped, when no copy could be made: copies the memory. False: it
	 * cannot. */
	bool (*copy_memory)(void *context, const struct freeze *f);
	/* Called while all threads are stopped, when the copy lacks memory that fork() does not copy
	 * (MADV_DONTFORK): copies it. False: it cannot. NULL: it is not needed. */
	bool (*copy_missing)(void *context, const struct freeze *f);
	void *context;
};

struct freeze {
	pid_t pid;
	enum frozen_how how;
	int memory; /* /proc/PID/mem of the copy, or of the process itself */
	int maps;   /* the same of maps */
	int pages;  /* the same of pagemap; -1: it cannot be read */
	struct frozen_thread *thread;
	size_t threads, unstopped; /* those that did not stop have no registers */
	int64_t frozen_ns;	   /* CLOCK_MONOTONIC while all were stopped; 0: they were not */
	int64_t stopped_ns;	   /* of one that is held: so far */
	char why_no_copy[FREEZE_WHY];
	struct freeze_held *held; /* its own */
};

/* How long the stop may take, from what the process has in memory. */
int64_t freeze_expect_ns(pid_t pid);

/* False: why[] says why not; freeze_end() need not be called. */
bool freeze_begin(struct freeze *f, pid_t pid, const struct freeze_wishes *wishes, char *why,
		  size_t size);
/* To be called now and then: lets threads go that stopped too late. */
void freeze_tend(struct freeze *f);
void freeze_end(struct freeze *f);

#endif
