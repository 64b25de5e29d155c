/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Address -> function, file, line, inlined frames; outside the profiled process.
 *
 * Not thread safe: one session per thread. All strings handed out live until symbols_free().
 */
#ifndef MAYFLY_SYMBOLS_H
#define MAYFLY_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct symbols; /* a session: remembers open files, strings, indices */

struct symbols_options {
	const char *debug_dir; /* extra directory with .build-id/ below it, or NULL */
};

struct symbol {
	const char *function; /* demangled; NULL when unknown */
	const char *file;     /* full path where DWARF knows it; NULL when unknown */
	uint32_t line;	      /* 0 when unknown */
	uint32_t column;      /* 0 when unknown */
	bool inlined;	      /* this function was inlined into the next symbol of the list */
};

struct symbols *symbols_new(const struct symbols_options *options); /* NULL: no memory */
void symbols_free(struct symbols *s);

/* One answer: the symbols at `index` of the addresses, innermost inlined function first; count is
 * at least 1 (function NULL when nothing is known). */
typedef void symbols_found(void *context, size_t index, const struct symbol *list, size_t count);

/*
 * Looks up addresses of one object. path: as loaded ("linux-vdso.so.1" or "[vdso]" for the vdso).
 * build_id may be NULL/0: then the file at path is taken as it is; otherwise a file with another
 * build-id is refused and separate debug files are searched by build-id and .gnu_debuglink.
 * addresses: ELF virtual addresses to look up (the caller has subtracted 1 from return addresses),
 * any order. Calls found() once for each. Returns how many have a function name; *why is set to a
 * one-line reason when the object could not be used at all ("file has changed since the run"),
 * else NULL.
 */
size_t symbols_resolve(struct symbols *s, const char *path, const uint8_t *build_id,
		       size_t build_id_length, const uint64_t *addresses, size_t count,
		       symbols_found *found, void *context, const char **why);

#endif
