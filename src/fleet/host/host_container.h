/* SPDX-License-Identifier: Apache-2.0 */
/* The container of a process, by the path of its control group. */
#ifndef MAYFLY_HOST_CONTAINER_H
#define MAYFLY_HOST_CONTAINER_H

#include <stdbool.h>
#include <stddef.h>

#define HOST_CONTAINER_DIGITS 12 /* of its number, as Docker and crictl show it */
#define HOST_POD_BYTES	      36 /* 8-4-4-4-12 hexadecimal digits */

/* The first digits of the container's number: that of the innermost one. False: it is in none. */
bool host_container_of(const char *cgroup, char id[HOST_CONTAINER_DIGITS + 1]);
/* The number (UID) of its Kubernetes pod. False: it is in none. */
bool host_pod_of(const char *cgroup, char uid[HOST_POD_BYTES + 1]);

#endif
