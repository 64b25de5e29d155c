/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The spool that a process writes now, as its memory has it: also when the file is gone, has another name,
 * or another file has its name.
 */
#ifndef MAYFLY_PROCESS_SPOOL_H
#define MAYFLY_PROCESS_SPOOL_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "format/spool_format.h"

struct process_spool {
	char path[PATH_MAX];
	bool gone; /* the path leads to no file, or to another one */
	struct spool_header header;
};

/* False: it has none mapped, or that cannot be seen. */
bool process_spool_find(pid_t pid, struct process_spool *s);

#endif
