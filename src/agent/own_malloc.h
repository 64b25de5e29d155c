/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An executable with a malloc of its own (jemalloc linked into rustc). The loader finds it before
 * ours, so no hook is called. Its libraries reach it through their slots, which bypass.c leads to the
 * hooks; the functions underneath the hooks are then the executable's.
 *
 * A malloc that wraps the next one (dlsym with RTLD_NEXT) would find the hook there, and the hook would
 * call it again. So the executable finds what comes after the hooks. One that may ask by dlvsym, which
 * is not seen, is left alone.
 */
#ifndef MAYFLY_OWN_MALLOC_H
#define MAYFLY_OWN_MALLOC_H

#include "agent/image.h"

/* The executable; NULL: it has no malloc of its own, or one that is to be left alone. */
const struct image *own_malloc(void);

/* Its function of this name; NULL: it has none, or no malloc. Weak: only the preloaded agent has it. */
__attribute__((weak)) void *own_malloc_function(const char *name);

/* The name is that of a hook: what dlsym(RTLD_NEXT, name) answers to the code at `caller` where our hook must not be it; NULL: what the
 * real dlsym answers. */
void *own_malloc_next(const char *name, const void *caller);

#endif
