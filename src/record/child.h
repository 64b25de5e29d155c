/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program run as if mayfly were not there: same terminal, process group, descriptors, signal mask
 * and dispositions; signals for mayfly reach it; when it stops, mayfly stops; its end is reported.
 *
 *	child_fork()	the process exists and waits (its number names the files)
 *	child_run()	it becomes the program
 *	child_signals()	whenever child.signals is readable, until child.ended
 */
#ifndef MAYFLY_CHILD_H
#define MAYFLY_CHILD_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

struct child {
	pid_t pid;
	bool adopted;	  /* another process has started it: see child_adopt() */
	pid_t pid_inside; /* its number in its own PID namespace; 0: the same */
	int process;	  /* its pidfd, when it was adopted; or -1 */
	int signals;	  /* signalfd */
	int go, failed;	  /* pipes */
	sigset_t mask;	  /* as mayfly was started with */
	struct sigaction chld, xfsz, pipe;
	struct rlimit file_size, files; /* as mayfly was started with */
	int stop_signal;		/* it has stopped: call child_stop_too() */
	bool stopped;
	bool ended;
	int status;	     /* of wait4() */
	struct rusage usage; /* likewise: with the children that it waited for */
	int64_t ended_ns;    /* CLOCK_MONOTONIC */
	/* Called once, when it has ended and is still there to be looked at. May be NULL. */
	void (*ending)(void *context);
	void *context;
	bool interrupted; /* a signal that asks to end came since this was last set to false */
};

/* Starts a process that waits for child_run(). In the new process, and only then, prepare(context)
 * is called before it becomes argv; it may change the environment. 0 or an errno. */
int child_fork(struct child *c, char **argv, void (*prepare)(void *context), void *context);

/* Instead of child_fork(): watches a process that runs already. Signals for mayfly are not forwarded to
 * it, and how it ends is not known. 0 or an errno. */
int child_adopt(struct child *c, pid_t pid);

/* Signals wait for the child_...() that asks for them. To be called as early as possible: a signal that
 * comes before is lost if it is ignored, as in jobs that a script has started in the background. before:
 * the mask until then. */
void child_hold_signals(sigset_t *before);

/* Its number as the process itself has it. */
pid_t child_own_pid(const struct child *c);

/* 0: the program runs. Otherwise the errno of execvp(); the process is gone. */
int child_run(struct child *c);

/* Instead of child_run(): ends the process. */
void child_cancel(struct child *c);

/* Takes the signals that are there: forwards, notes that the child stopped or ended. */
void child_signals(struct child *c);

/* The child has stopped for job control: so does mayfly, until somebody continues it. */
void child_stop_too(struct child *c);

/* After the end: signals have their usual effect on mayfly again, except for those meant for the
 * program that mayfly has no use for. */
void child_release_signals(struct child *c);

/* What the shell would show: the exit status, or 128 + the signal. */
int child_exit_status(const struct child *c);

#endif
