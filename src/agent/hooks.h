/* SPDX-License-Identifier: Apache-2.0 */
/* The hooks by name, for what leads other code to them. */
#ifndef MAYFLY_HOOKS_H
#define MAYFLY_HOOKS_H

#include <stddef.h>

struct hook {
	const char *name;
	void *function; /* ours */
	size_t real;	/* where the one underneath stands in struct real */
};

/* NULL: there is none of this name. */
const struct hook *hooks_find(const char *name);

/* The allocator's own function underneath. */
void *hooks_underneath(const struct hook *hook);

#endif
