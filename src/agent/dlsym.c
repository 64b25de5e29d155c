/* SPDX-License-Identifier: Apache-2.0 */
/* Looking functions up after ours. In a static program linked.c does that. */
#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>

#include "agent/real.h"

_Atomic bool real_ready = true;
const bool real_is_musl = false;

void *real_dlsym(void *handle, const char *name)
{
	static void *(*_Atomic found)(void *, const char *);
	void *(*function)(void *, const char *) = atomic_load(&found);

	if (!function) {
		void *p = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");

		if (!p)
			return NULL; /* an older libc, in which the agent cannot work */
		memcpy(&function, &p, sizeof(p));
		atomic_store(&found, function);
	}
	return function(handle, name);
}
