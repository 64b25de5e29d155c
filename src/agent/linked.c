/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent linked into a static program (libmayfly.a), where no loader can put it in front.
 *
 * The linker's --wrap leads the program's malloc to the hook, and __real_malloc to libc's. Nothing is
 * loaded later, so nothing can pass the hooks by, and dlsym is not needed: all that is looked up
 * stands in a table here. mmap, fork, exec and the like are not hooked: such programs have no events
 * of these.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "agent/bypass.h"
#include "agent/real.h"

/* ---- the note by which `mayfly record` knows such a program (record/program.c) ---- */

__asm__(".pushsection .note.mayfly, \"a\", @note\n"
	"	.balign 4\n"
	"	.long 7, 0, 1\n" /* bytes of the name, of the rest; a type of ours */
	"	.asciz \"mayfly\"\n"
	"	.balign 4\n"
	"	.popsection");

/* ---- the functions underneath ---- */

#define LINKED(X)                                                                                  \
	X(malloc)                                                                                  \
	X(free)                                                                                    \
	X(calloc)                                                                                  \
	X(realloc)                                                                                 \
	X(memalign)                                                                                \
	X(aligned_alloc)                                                                           \
	X(posix_memalign)                                                                          \
	X(valloc)                                                                                  \
	X(pvalloc)                                                                                 \
	X(malloc_usable_size)                                                                      \
	X(prctl)                                                                                   \
	X(syscall)

#define DECLARE(name) void __real_##name(void);
LINKED(DECLARE)

void *real_dlsym(void *handle, const char *name)
{
	static const struct {
		const char *name;
		void (*function)(void);
	} table[] = {
#define ROW(name) {#name, __real_##name},
	    LINKED(ROW)};

	(void)handle;
	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++)
		if (!strcmp(table[i].name, name))
			return (void *)table[i].function;
	return NULL;
}

/* Elsewhere weak symbols, which would leave them out of the program. */
__attribute__((used)) static __typeof(_dl_find_object) *const needed = _dl_find_object;
__attribute__((used)) static __typeof(on_exit) *const needed_too = on_exit;

_Atomic bool real_ready;
const bool real_is_musl = false;

__attribute__((constructor(101))) static void ready(void)
{
	/* Nobody has asked for a recording: the program may run like this for years. */
	if (!getenv("MAYFLY"))
		atomic_store(&agent_state, AGENT_OFF);
	atomic_store(&real_ready, true);
}

/* ---- what needs a loader ---- */

bool bypass_start(void)
{
	real_resolve();
	return true;
}
