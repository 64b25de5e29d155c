/* SPDX-License-Identifier: Apache-2.0 */
/* An executable with a malloc of its own: see own_malloc.h. */
#include "agent/own_malloc.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

#include "agent/agent.h"
#include "agent/real.h"
#include "agent/redirect.h"
#include "agent/slots.h"

static struct image program;

static bool is_whole(const struct image *o)
{
	return image_find(o, "free") && image_find(o, "calloc") && image_find(o, "realloc");
}

/* A sanitizer's runtime, whose reports show the stack that called malloc. */
static bool is_sanitizer(const struct image *o)
{
	return image_find(o, "__sanitizer_set_report_path");
}

static bool look(void)
{
	const void *first = real_dlsym(RTLD_DEFAULT, "malloc");
	const struct link_map *map = first ? slots_image_at(first, &program) : NULL;

	return map && !*map->l_name && image_find(&program, "malloc") == first &&
	       is_whole(&program) && !is_sanitizer(&program) && !image_imports(&program, "dlvsym");
}

const struct image *own_malloc(void)
{
	static _Atomic uint32_t known; /* 1: it has none, 2: it has one */

	if (!atomic_load(&known))
		atomic_store(&known, look() ? 2 : 1);
	return atomic_load(&known) == 2 ? &program : NULL;
}

void *own_malloc_function(const char *name)
{
	void *function = own_malloc() ? image_find(&program, name) : NULL;

	return function ? redirect_underneath(function) : NULL;
}

void *own_malloc_next(const char *name, const void *caller)
{
	const struct image *o = own_malloc();

	return o && image_has(o, caller) ? real_dlsym(RTLD_NEXT, name) : NULL;
}
