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
#include "agent/spool_file.h"

/* musl does not have it; there, only _exit() and the like leave a status, and ask for a picture. */
extern __typeof(on_exit) on_exit __attribute__((weak));

#define NAP_NS	   1000000 /* with the kernel's slack, 10000 of them take 10.5 s */
#define NAPS_MOST  10000
#define NAPS_ALONE 100 /* between looks whether the recorder lives */

/* Whoever asks second is a signal handler, or another thread. */
static bool is_first(void)
{
	static _Atomic uint32_t asked;

	return !atomic_exchange(&asked, 1);
}

/* While the recorder stops the program, this does not run. */
static enum spool_last_heap ask_for_heap(struct spool_header *h)
{
	uint32_t request;

	if (agent_sandboxed)
		return SPOOL_LAST_SANDBOX;
	if (!spool_file_has_recorder())
		return SPOOL_LAST_NO_RECORDER;
	atomic_store(&h->last_heap, SPOOL_LAST_ASKED);
	request = atomic_fetch_add(&h->heaps_asked, 1) + 1;
	for (unsigned int naps = 0; naps < NAPS_MOST; naps++) {
		if ((int32_t)(atomic_load(&h->heaps_read) - request) >= 0)
			return SPOOL_LAST_ASKED;
		if (naps % NAPS_ALONE == NAPS_ALONE - 1 && !spool_file_has_recorder())
			return SPOOL_LAST_NO_RECORDER;
		sys_nap(NAP_NS);
	}
	return SPOOL_LAST_LATE;
}

void leave_last_heap(void)
{
	struct spool_header *h = spool_header;

	if (h && agent_config.last_heap && atomic_load(&agent_state) == AGENT_ON && is_first())
		atomic_store(&h->last_heap, ask_for_heap(h));
}

/* Our constructor is an early one, so this is one of the last handlers, and the status is final. */
static void exiting(int status, void *unused)
{
	(void)unused;
	life_find_fork();
	if (spool_header && *agent_same_process &&
	    (agent_sandboxed || spool_header->pid == (uint32_t)sys_getpid())) {
		spool_exited(status);
		leave_last_heap();
	}
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
