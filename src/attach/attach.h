/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loading the agent into a program that runs, and taking it out of its way again; from outside, with
 * ptrace, without a debugger.
 *
 *	target_process	may that be done to this process, and if not, why
 *	target_code	where its functions are
 *	safe_point	a thread that is inside neither the allocator nor the loader, by its stack
 *	injection	that thread calls a function, and continues as if nothing had happened
 *
 * Only that one thread is stopped, for a few milliseconds: the agent itself changes what has to be
 * changed, while the other threads run. A thread that waits in a system call is preferred. What is
 * needed to continue it stands in a signal frame on its own stack, so that it continues even when this
 * process is killed meanwhile.
 */
#ifndef MAYFLY_ATTACH_H
#define MAYFLY_ATTACH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define ATTACH_WHY	320
#define ATTACH_RECORDED "it is already being recorded; 'mayfly detach' ends that"

#define ATTACH_LIBRARY	  "libmayfly-attach.so" /* beside the agent's other libraries */
#define ATTACH_TIMEOUT_NS 10000000000ll		/* when the user names none */

struct attach_result {
	char why[ATTACH_WHY]; /* why it failed: a line without the process's name; else "" */
	bool there;	      /* it failed, as the process is being recorded (detach: is not) */
	int64_t stopped_ns;   /* for that long, the longest of the stops */
};

/* Loads the library (an absolute path) and calls its mayfly_attach(settings). False: result->why. Gives
 * up after timeout_ns when no thread is found at a safe point. */
bool attach_load(pid_t pid, const char *library, const char *settings, int64_t timeout_ns,
		 struct attach_result *result);

/* Calls mayfly_detach() there. */
bool attach_unload(pid_t pid, const char *library, int64_t timeout_ns,
		   struct attach_result *result);

/* For tests: called with 0, 1, 2, ... after each change to the process. */
extern void (*attach_step)(unsigned int number);

#endif
