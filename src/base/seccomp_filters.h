/* SPDX-License-Identifier: Apache-2.0 */
/* How many filters of system calls a process has, from its /proc/PID/status; without libc's locale or
 * memory. */
#ifndef MAYFLY_SECCOMP_FILTERS_H
#define MAYFLY_SECCOMP_FILTERS_H

#include <stdint.h>
#include <string.h>

#define SECCOMP_STATUS_BYTES                                                                       \
	4096u /* half of it is room for the lines with and behind the filters */
#define SECCOMP_FILTERS_UNSAID (UINT64_MAX - 1)

/* SECCOMP_FILTERS_UNSAID: there are some, or the text is none. */
static inline uint64_t seccomp_filters(const char *status)
{
	static const char mode[] = "\nSeccomp:\t", count[] = "\nSeccomp_filters:\t";
	const char *at = strstr(status, mode);
	uint64_t filters = 0;

	if (!at)
		return SECCOMP_FILTERS_UNSAID;
	if (at[sizeof(mode) - 1] == '0')
		return 0;
	at = strstr(status, count); /* Linux 5.9 and later */
	if (!at)
		return SECCOMP_FILTERS_UNSAID;
	for (at += sizeof(count) - 1; *at >= '0' && *at <= '9'; at++)
		filters = filters * 10 + (uint64_t)(*at - '0');
	return filters;
}

#endif
