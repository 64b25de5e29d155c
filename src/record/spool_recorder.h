/* SPDX-License-Identifier: Apache-2.0 */
/* The process that reads a spool while it is written: its number in the header, and whether it lives. */
#ifndef MAYFLY_SPOOL_RECORDER_H
#define MAYFLY_SPOOL_RECORDER_H

#include <sys/types.h>

#include "format/spool_format.h"

enum spool_recorder {
	SPOOL_RECORDER_NONE, /* there was none, or it has died */
	SPOOL_RECORDER_LIVES,
	SPOOL_RECORDER_ELSEWHERE, /* in another PID namespace, where it cannot be seen from here */
};

/* From now on this process is it. */
void spool_recorder_sign(struct spool_header *h);

/* LIVES: *pid is its number. */
enum spool_recorder spool_recorder_of(const struct spool_header *h, pid_t *pid);

#endif
