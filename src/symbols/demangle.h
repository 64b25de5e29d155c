/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The strings of a symbols session: every name and path is kept once, in one arena, until the
 * session ends. Also readable names for C++, Rust and OCaml symbols.
 */
#ifndef MAYFLY_DEMANGLE_H
#define MAYFLY_DEMANGLE_H

#include <stddef.h>

struct demangle;

struct demangle *demangle_new(void); /* NULL: no memory */
void demangle_free(struct demangle *d);

/* The one copy of these bytes, zero-terminated; NULL when out of memory. */
const char *demangle_intern(struct demangle *d, const char *text, size_t length);

/*
 * The readable form of a linkage name: parameters but no return type, no Rust hash. A name that is
 * not mangled comes back as it is. NULL when out of memory. Remembered, so asking again is cheap.
 */
const char *demangle_name(struct demangle *d, const char *name);

#endif
