/* SPDX-License-Identifier: Apache-2.0 */
/* What time it is, and waiting. */
#ifndef MAYFLY_CLOCK_H
#define MAYFLY_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

/* CLOCK_MONOTONIC */
static inline int64_t now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

/* A signal ends it early. */
static inline void clock_wait(int64_t ns)
{
	struct timespec left = {ns / 1000000000, ns % 1000000000};

	if (ns > 0)
		nanosleep(&left, NULL);
}

#endif
