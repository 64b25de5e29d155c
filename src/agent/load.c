/* SPDX-License-Identifier: Apache-2.0 */
/* What the agent does when it is loaded. */
#include <errno.h>

#include "agent/bypass.h"
#include "agent/leave.h"
#include "agent/life.h"
#include "agent/spool.h"

/* Unmaps everything, because valgrind reads all that is mapped, also the part that the file does
 * not reach yet, which takes it minutes. Not when another thread may already have a packet. */
static void leave_program(void)
{
	agent_off(SPOOL_OFF_OWN_MALLOC, 0,
		  "the program brings its own malloc, which cannot be seen from here");
	if (atomic_load(&agent_threads) <= 1)
		spool_forget();
}

__attribute__((constructor)) static void loaded(void)
{
	int error = errno;

	if (life_start()) {
		self.busy = BUSY_AGENT;
		life_watch();
		leave_watch();
		if (!bypass_start())
			leave_program();
		self.busy = BUSY_NOT;
	}
	errno = error;
}
