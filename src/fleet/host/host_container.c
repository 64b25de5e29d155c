/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Containers by control group: see host_container.h. Each runtime has its own names, but all have the
 * container's 64 hexadecimal digits in them:
 *
 *	/docker/ID				/system.slice/docker-ID.scope
 *	/machine.slice/libpod-ID.scope		/kubepods/burstable/podUID/ID
 *	/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podUID.slice/cri-containerd-ID.scope
 *
 * Under systemd the UID has '_' for '-'.
 */
#include "fleet/host/host_container.h"

#include <string.h>

#define ID_DIGITS 64

static const char digits[] = "0123456789abcdef";

bool host_container_of(const char *cgroup, char id[HOST_CONTAINER_DIGITS + 1])
{
	bool found = false;

	for (const char *at = cgroup; *at; at++) {
		size_t length = strspn(at, digits);

		if (length == ID_DIGITS) {
			memcpy(id, at, HOST_CONTAINER_DIGITS);
			id[HOST_CONTAINER_DIGITS] = 0;
			found = true;
		}
		if (length)
			at += length - 1;
	}
	return found;
}

/* Whether text begins with 8-4-4-4-12 digits; a copy has '-' between them. */
static bool is_uid(const char *text, char uid[HOST_POD_BYTES + 1])
{
	static const size_t group[] = {8, 4, 4, 4, 12};
	size_t at = 0;

	for (size_t i = 0; i < sizeof(group) / sizeof(group[0]); i++) {
		if (i && text[at] != '-' && text[at] != '_')
			return false;
		if (i)
			uid[at++] = '-';
		if (strspn(text + at, digits) < group[i])
			return false;
		memcpy(uid + at, text + at, group[i]);
		at += group[i];
	}
	uid[at] = 0;
	return true;
}

bool host_pod_of(const char *cgroup, char uid[HOST_POD_BYTES + 1])
{
	for (const char *at = strstr(cgroup, "pod"); at; at = strstr(at + 1, "pod"))
		if (is_uid(at + 3, uid))
			return true;
	return false;
}
