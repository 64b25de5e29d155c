/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The strings of a symbols session: each name and path is stored once, in one arena, until the
 * session ends. Also readable names for C++, Rust and OCaml symbols.
 */
#ifndef MAYFLY_DEMANGLE_H
#define MAYFLY_DEMANGLE_H

#include <stddef.h>

struct demangle;

struct demangle *demangle_new(void); /* NULL: out of memory */
void demangle_free(struct demangle *d);

/* The only copy of these bytes, zero-terminated; NULL: out of memory. */
const char *demangle_intern(struct demangle *d, const char *text, size_t length);

/*
 * The readable form of a linkage name: with parameters, without return type and Rust hash. A name
 * that is not mangled is returned unchanged. NULL: out of memory. Results are cached.
 */
const char *demangle_name(struct demangle *d, const char *name);

#endif
