/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file that a command makes: whole or not at all. It has no name, or a temporary one, until it
 * is complete. Pipes, devices and standard output ("-") are written to directly.
 */
#ifndef MAYFLY_TARGET_H
#define MAYFLY_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct target {
	const char *path; /* as the user named it */
	FILE *file;
	char *real;	 /* the name that it will have; NULL: written to directly */
	char *temporary; /* NULL: the file has no name */
	bool replace;
};

/* A file that is there and not empty is left alone without `force`. False after a line on stderr.
 * The path must stay. */
bool target_open(struct target *t, const char *path, bool force);

/* A trace_sink: 0 or an errno. */
int target_sink(void *target, const void *bytes, size_t size);

/* The file is complete and takes its name. False after a line on stderr. */
bool target_finish(struct target *t);
/* The file is not wanted. error: of the sink, to be told on stderr; 0: nothing to tell. */
void target_drop(struct target *t, int error);

#endif
