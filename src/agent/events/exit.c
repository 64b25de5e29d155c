/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program ends without exit(), whose handlers load.c belongs to: hooks of _exit, _Exit and
 * quick_exit leave the status in the spool, and ask for the last picture of the heap.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/cpu/sys.h"
#include "agent/events/process.h"
#include "agent/leave.h"
#include "agent/life.h"
#include "agent/real.h"
#include "agent/spool.h"

static struct {
	void (*_exit)(int);
	void (*quick_exit)(int);
} next;

/* Before anybody may fork: dlsym has no place in the child of a vfork. */
__attribute__((constructor)) static void look_up(void)
{
	int error = errno;

	if (next.quick_exit)
		return;
	REAL_LOOK_UP(next._exit, _exit);
	REAL_LOOK_UP(next.quick_exit, quick_exit);
	errno = error;
}

/* Not the child of a vfork, which has the program's memory: its status is none of the program's. */
static void note_exit(int status)
{
	life_find_fork();
	if (spool_header && agent_same_process && *agent_same_process && process_is_this()) {
		spool_exited(status);
		leave_last_heap();
	}
}

static __attribute__((noreturn)) void leave_at_once(int status)
{
	note_exit(status);
	if (next._exit)
		next._exit(status);
	for (;;)
		sys_call3(SYS_exit_group, status, 0, 0);
}

EXPORT void _exit(int status)
{
	leave_at_once(status);
}

EXPORT void _Exit(int status)
{
	leave_at_once(status);
}

/* Its handlers may call _exit() with another status. */
EXPORT void quick_exit(int status)
{
	if (!next.quick_exit)
		look_up();
	if (!next.quick_exit)
		leave_at_once(status);
	note_exit(status);
	next.quick_exit(status);
	__builtin_unreachable();
}
