/* SPDX-License-Identifier: Apache-2.0 */
/* The hooks by name, for what leads other code to them. */
#ifndef MAYFLY_HOOKS_H
#define MAYFLY_HOOKS_H

#include <stddef.h>
#include <stdint.h>

#include "agent/agent.h"

struct hook {
	const char *name;
	void *function; /* ours */
	size_t real;	/* where the one underneath stands in struct real, or HOOK_BESIDE */
};

/* The program's realloc, if no hook stands before it: then libc's reallocarray calls this one, too. */
HIDDEN extern void *(*hooks_other_realloc)(void *block, size_t size);

/* NULL: there is none of this name. */
const struct hook *hooks_find(const char *name);

/* Makes do with the functions underneath the others. */
#define HOOK_BESIDE SIZE_MAX

/* The allocator's own function underneath; NULL: it has none. */
void *hooks_underneath(const struct hook *hook);

#endif
