/* SPDX-License-Identifier: Apache-2.0 */
/* What the agent does when it is loaded, and when the program exits. */
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <string.h>
#include <unistd.h>

#include "agent/allocator.h"
#include "agent/bypass.h"
#include "agent/life.h"
#include "agent/path.h"
#include "agent/real.h"
#include "agent/spool.h"

/* Valgrind's tools that do so preload a library of their own beside the core's. A dlsym that fails
 * would leave its message for the program's dlerror. */
static bool valgrind_replaces_malloc(void)
{
	for (char **e = environ; e && *e; e++) {
		const char *at = strncmp(*e, "LD_PRELOAD=", 11) ? NULL : *e;

		while (at && (at = strstr(at, "/vgpreload_")))
			if (strncmp(at += 11, "core", 4))
				return true;
	}
	return false;
}

/* False for a program that never calls ours, but *other, a malloc of its own. The first malloc that
 * dlsym finds may also be the program's jump (PLT) to ours: then the symbol is undefined there. */
static bool hooks_are_called(const void **other)
{
	if (valgrind_replaces_malloc())
		return false;

	void *first = real_dlsym(RTLD_DEFAULT, "malloc");
	Dl_info here, there;
	ElfW(Sym) *symbol = NULL;

	if (!first || !dladdr((void *)hooks_are_called, &here) ||
	    !dladdr1(first, &there, (void **)&symbol, RTLD_DL_SYMENT))
		return true;
	*other = first;
	return there.dli_fbase == here.dli_fbase || !symbol || symbol->st_shndx == SHN_UNDEF;
}

/* Unmaps everything, because valgrind reads all that is mapped, also the part that the file does
 * not reach yet, which takes it minutes. Not when another thread may already have a packet. */
static void leave_program(void)
{
	agent_off(SPOOL_OFF_OWN_MALLOC, 0,
		  "the program brings its own malloc, which cannot be seen from here");
	if (atomic_load(&agent_threads) <= 1)
		spool_forget();
}

__attribute__((constructor)) static void loaded(void)
{
	const void *other = NULL;
	int error = errno;

	if (life_start()) {
		self.busy = BUSY_AGENT;
		life_watch();
		if (hooks_are_called(&other)) {
			bypass_start();
		} else {
			if (other)
				bypass_own_malloc(other);
			leave_program();
		}
		self.busy = BUSY_NOT;
	}
	errno = error;
}

__attribute__((destructor)) static void unloaded(void)
{
	int error = errno;

	if (atomic_load(&agent_state) != AGENT_ON || !*agent_same_process)
		return;
	if (path_enter()) {
		if (life_thread_ready() && path_writer())
			allocator_end(self.writer);
		path_leave();
	}
	spool_end();
	errno = error;
}
