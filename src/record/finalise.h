/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From what an agent left behind to a trace:
 *
 *	spool bytes -> spool_stream -> tables -> finalise_symbols() -> trace_writer -> trace bytes
 *
 * `mayfly record` does this piece by piece while the program runs (recorder.h); every other command
 * does it in memory when it is given a spool.
 */
#ifndef MAYFLY_FINALISE_H
#define MAYFLY_FINALISE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/write/recording.h"
#include "spool/spool_stream.h"

struct finalise_options {
	/* The spool's own path, or NULL. A forked child's spool names that of its parent, which is
	 * looked for in this path's folder first: so a folder of spools can be moved. */
	const char *path;
	const struct spool_ending *ending; /* NULL: it is not known how the program ended */
	bool no_symbols;		   /* leave addresses as they are */
	bool alone; /* reads no other file: what a forked child has from its parent is not known */
	int level;  /* for the trace_writer; 0: its default */
};

struct finalised {
	uint8_t *bytes; /* the trace; the caller frees it */
	size_t size;
};

/* options may be NULL. Returns 0 or a negative enum mayfly_error; *out is zeroed on failure. */
int finalise_spool(const void *data, size_t size, const struct finalise_options *options,
		   struct finalised *out);

struct symbols;

/* Adds functions, files, lines and inlined frames to all code frames of r that have none, from the
 * objects on this machine. A module that cannot be used gets its `problem`. */
int finalise_symbols(struct recording *r, struct symbols *session);

#endif
