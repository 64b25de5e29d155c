/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From what an agent left behind to a trace:
 *
 *	spool bytes -> spool_read() -> recording -> symbols_resolve() -> trace_encode() -> trace
 *bytes
 *
 * `mayfly record` does this once the program has ended; every other command does it in memory when
 * it is given a spool.
 */
#ifndef MAYFLY_FINALISE_H
#define MAYFLY_FINALISE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/recording.h"

struct finalise_options {
	/* The spool's own path, or NULL. A forked child's spool names that of its parent, which is
	 * looked for in this path's folder first: so a folder of spools can be moved. */
	const char *path;
	const struct spool_ending *ending; /* NULL: nobody saw how the program ended */
	const char *debug_dir;		   /* for symbols_new(), or NULL */
	bool no_symbols;		   /* leave addresses as they are */
	int level;			   /* for trace_encode(); 0: its default */
};

struct finalised {
	uint8_t *bytes; /* the trace; the caller frees it */
	size_t size;
	uint64_t samples, dropped; /* for the one line that record prints */
	size_t modules, modules_without_symbols;
};

/* options may be NULL. Returns 0 or a negative enum mayfly_error; *out is zeroed on failure. */
int finalise_spool(const void *data, size_t size, const struct finalise_options *options,
		   struct finalised *out);

/* Adds functions, files, lines and inlined frames to all code frames of r that have none, from the
 * objects on this machine. A module that is of no use gets its `problem`. */
int finalise_symbols(struct recording *r, const char *debug_dir);

/*
 * Writes a whole file: into a temporary one in the same folder, which then takes the name, so that
 * nobody ever sees half a file. Follows symbolic links; something that is no regular file (a pipe,
 * /dev/stdout) is written to directly. Returns 0, or -1 after one line on stderr that names it.
 */
int finalise_write(const char *path, const void *bytes, size_t size);

/* The same without the line: 0 or an errno. */
int finalise_try_write(const char *path, const void *bytes, size_t size);

/* For a full disk: the spool becomes the trace that was made from it, in the space that it has. It
 * must not be mapped by anybody who still reads it. 0 or an errno. */
int finalise_reuse_spool(const char *spool, const char *path, const void *bytes, size_t size);

/* Removes the temporary file of a finalise_write() that is under way. Async-signal-safe. */
void finalise_abandon(void);

#endif
