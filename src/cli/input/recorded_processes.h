/* SPDX-License-Identifier: Apache-2.0 */
/* The processes of this machine that carry the agent and are being recorded, as far as this user may
 * see. */
#ifndef MAYFLY_CARRIERS_H
#define MAYFLY_CARRIERS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct carrier {
	pid_t pid;
	char *command; /* its arguments, with spaces between */
	char *spool;
};

struct carriers {
	struct carrier *carrier; /* by pid */
	size_t count, room;
};

/* name: only those whose program is called so, as ps or the command line has it; NULL: all. False:
 * out of memory. */
bool carriers_find(struct carriers *c, const char *name);
void carriers_free(struct carriers *c);

#endif
