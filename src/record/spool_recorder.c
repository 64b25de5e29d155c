/* SPDX-License-Identifier: Apache-2.0 */
/* The process that reads a spool while it is written: see spool_recorder.h. */
#include "record/spool_recorder.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "base/system/process_file.h"

void spool_recorder_sign(struct spool_header *h)
{
	uint64_t start = 0;

	process_file_start(getpid(), &start);
	/* Never the number of one with the start of another. */
	atomic_store(&h->recorder_pid, 0);
	atomic_store(&h->recorder_start, start);
	atomic_store(&h->recorder_namespace, process_file_own_namespace());
	atomic_store(&h->recorder_pid, (uint32_t)getpid());
}

enum spool_recorder spool_recorder_of(const struct spool_header *h, pid_t *pid)
{
	pid_t number = (pid_t)atomic_load(&h->recorder_pid);
	uint64_t start = atomic_load(&h->recorder_start), now;
	uint32_t space = atomic_load(&h->recorder_namespace), own = process_file_own_namespace();

	*pid = 0;
	if (number <= 0)
		return SPOOL_RECORDER_NONE;
	if (space && own && space != own)
		return SPOOL_RECORDER_ELSEWHERE;
	if (kill(number, 0) && errno == ESRCH)
		return SPOOL_RECORDER_NONE;
	if (start && process_file_start(number, &now) && now != start)
		return SPOOL_RECORDER_NONE;
	*pid = number;
	return SPOOL_RECORDER_LIVES;
}
