/* SPDX-License-Identifier: Apache-2.0 */
/* mayfly push --every: windows of processes that run, from time to time, until they end. */
#ifndef MAYFLY_PUSH_EVERY_H
#define MAYFLY_PUSH_EVERY_H

#include "fleet/push/push_window.h"

struct push_every {
	const struct push_to *to;
	int64_t every_ns;
	char **named; /* processes by number or name, spools; none: all that are recorded here */
	int count;
	bool quiet;
};

/* Until those that were named by number or spool have ended, or a signal asks it to end: then it pushes
 * what there is, and ends. An exit status. */
int push_every(const struct push_every *p);

#endif
