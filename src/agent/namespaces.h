/* SPDX-License-Identifier: Apache-2.0 */
/* Which namespaces this process is in. */
#ifndef MAYFLY_NAMESPACES_H
#define MAYFLY_NAMESPACES_H

#include <fcntl.h>
#include <stdint.h>

#include "agent/agent.h"
#include "agent/cpu/sys.h"

/* link: "/proc/self/ns/pid" or the like. The inode in "pid:[4026531836]"; 0: there is no /proc. */
static inline uint32_t namespace_of(const char *link)
{
	char text[32];
	long length = sys_readlinkat(AT_FDCWD, link, text, sizeof(text));
	uint32_t inode = 0;

	for (long i = 0; !sys_failed(length) && i < length; i++)
		if (text[i] >= '0' && text[i] <= '9')
			inode = inode * 10 + (uint32_t)(text[i] - '0');
	return inode;
}

#endif
