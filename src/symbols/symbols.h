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

struct symbols; /* a session: keeps open files, strings, indices */

struct debug_server;

struct symbols_options {
	const char *const *debug_dir; /* further folders: struct debug_dirs */
	size_t debug_dirs;
	struct debug_server *server; /* that is asked for debug files, or NULL; must stay */
	const char *cache_folder;    /* where answers are kept for later sessions, or NULL */
};

struct symbol {
	const char *function; /* demangled; NULL when unknown */
	const char *file;     /* full path if DWARF has it; NULL when unknown */
	uint32_t line;	      /* 0 when unknown */
	uint32_t column;      /* 0 when unknown */
	bool inlined;	      /* this function was inlined into the next symbol of the list */
};

struct symbols *symbols_new(const struct symbols_options *options); /* NULL: out of memory */
void symbols_free(struct symbols *s);

/* The result for addresses[index]: symbols, innermost inlined function first; count is at least 1
 * (with function NULL if nothing is known). */
typedef void symbols_found(void *context, size_t index, const struct symbol *list, size_t count);

/*
 * Looks up addresses of one object. path: as loaded ("linux-vdso.so.1" or "[vdso]" for the vdso).
 * build_id may be NULL/0: then the file at path is used without a check; otherwise a file with
 * another build-id is refused, the file is looked for in debug_dir, and separate debug files are
 * searched by build-id and .gnu_debuglink. addresses: ELF virtual addresses in any order; the caller has subtracted 1 from
 * return addresses. Calls found() once for each address. Returns the number of addresses with a
 * function name. *why is a one-line reason if the object could not be used at all ("file has
 * changed since the run"), otherwise NULL.
 */
size_t symbols_resolve(struct symbols *s, const char *path, const uint8_t *build_id,
		       size_t build_id_length, const uint64_t *addresses, size_t count,
		       symbols_found *found, void *context, const char **why);

#endif
