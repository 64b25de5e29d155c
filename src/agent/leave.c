/* SPDX-License-Identifier: Apache-2.0 */
/* What the agent does when the program exits. */
#include "agent/leave.h"

#include <errno.h>
#include <stdlib.h>

#include "agent/allocator.h"
#include "agent/cpu/sys.h"
#include "agent/life.h"
#include "agent/path.h"
#include "agent/spool.h"

/* musl does not have it; there, only _exit() and the like leave a status. */
extern __typeof(on_exit) on_exit __attribute__((weak));

/* Our constructor is an early one, so this is one of the last handlers, and the status is final. */
static void exiting(int status, void *unused)
{
	(void)unused;
	life_find_fork();
	if (spool_header && *agent_same_process &&
	    (agent_sandboxed || spool_header->pid == (uint32_t)sys_getpid()))
		spool_exited(status);
}

void leave_watch(void)
{
	if (on_exit)
		on_exit(exiting, NULL);
}

__attribute__((destructor)) static void unloaded(void)
{
	int error = errno;

	if (atomic_load(&agent_state) != AGENT_ON || !*agent_same_process)
		return;
	if (path_enter()) {
		if (life_thread_ready() && path_writer())
			allocator_end(self.writer);
		path_leave();
	}
	spool_end();
	errno = error;
}
