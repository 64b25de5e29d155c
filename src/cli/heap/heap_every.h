/* SPDX-License-Identifier: Apache-2.0 */
/* Pictures of a process again and again. */
#ifndef MAYFLY_HEAP_EVERY_H
#define MAYFLY_HEAP_EVERY_H

#include <signal.h>

#include "cli/heap/heap_growth.h"

struct heap_every {
	int64_t every_ns;
	int64_t for_ns;			      /* 0: until the process ends */
	const volatile sig_atomic_t *stopped; /* not 0: a signal says that it is enough */
	bool shows;			      /* progress on standard error */
};

/* Until the time is over, the process ends, or a signal comes. False: why[] says why there are no more
 * pictures; those that there are stay. */
bool heap_every_run(const struct heap_every *e, struct heap_growth *g, pid_t pid,
		    const struct picture_wishes *wishes, char *why, size_t size);

#endif
