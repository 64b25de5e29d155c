/* SPDX-License-Identifier: Apache-2.0 */
/* The processes of this machine that carry the agent and are being recorded, as far as this user may
 * see. */
#ifndef MAYFLY_RECORDED_PROCESSES_H
#define MAYFLY_RECORDED_PROCESSES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct recorded_process {
	pid_t pid;
	char *command; /* its arguments, with spaces between */
	char *spool;
};

struct recorded_processes {
	struct recorded_process *process; /* by pid */
	size_t count, room;
};

/* name: only those whose program is called so, as ps or the command line has it; NULL: all. False:
 * out of memory. */
bool recorded_processes_find(struct recorded_processes *c, const char *name);
void recorded_processes_free(struct recorded_processes *c);

#endif
