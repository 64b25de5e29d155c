/* SPDX-License-Identifier: Apache-2.0 */
/* How much memory the kernel lets the cgroup of a process have: v1 and v2. */
#ifndef MAYFLY_CGROUP_LIMIT_H
#define MAYFLY_CGROUP_LIMIT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The least of the limits of the process's cgroup and of those that it lies in, as far as they can
 * be seen; 0: there is none. */
uint64_t cgroup_memory_limit(pid_t pid);

/* The same of the text of /proc/PID/cgroup, with another folder for /sys/fs/cgroup. */
uint64_t cgroup_limit_of(const char *text, const char *root);

#endif
