/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a stopped thread may call the loader: by its stack.
 *
 * It may not when it is inside the allocator, the loader or what takes their locks (fork, atexit), as it
 * would wait for itself; nor in a signal handler, as what that has interrupted may be one of these.
 * Other threads may be there: they run on.
 */
#ifndef MAYFLY_SAFE_POINT_H
#define MAYFLY_SAFE_POINT_H

#include "attach/target_code.h"

/* How much of the stack must be known. */
enum safe_point_demand {
	SAFE_WHOLE,   /* all of it, to the thread's start */
	SAFE_VISIBLE, /* as far as it can be walked: code without unwind tables may hide the rest */
};

/* The walk of libdwfl reads the stopped threads of this process, which the caller traces. False: it
 * cannot. */
bool safe_point_begin(const struct target_code *t, pid_t pid);

/* waits: the stop has interrupted a system call in which the thread waited. */
bool safe_point_here(const struct target_code *t, pid_t tid, bool waits,
		     enum safe_point_demand demand);

#endif
