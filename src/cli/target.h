/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file or a folder that a command makes: whole or not at all. It has no name, or a temporary one
 * beside its own, until it is complete. Pipes, devices and standard output ("-") are written to
 * directly.
 */
#ifndef MAYFLY_TARGET_H
#define MAYFLY_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct target {
	const char *path; /* as the user named it */
	FILE *file;	  /* NULL: somebody else writes to `temporary` */
	char *real;	  /* the name that it will have; NULL: written to directly */
	char *temporary;  /* NULL: the file has no name */
	bool replace;
	bool folder;
};

/* A file that is there and not empty is left alone without `force`. False after a line on stderr.
 * The path must stay. */
bool target_open(struct target *t, const char *path, bool force);

/* The same for a caller that writes by name: an empty file that t->temporary names. Not for
 * standard output, pipes or devices. */
bool target_open_named(struct target *t, const char *path, bool force);
/* The same for a new, empty folder. `landmark`: a file that all folders of this kind hold; with
 * `force`, only a folder that has it and no folders in it is replaced. */
bool target_open_folder(struct target *t, const char *path, const char *landmark, bool force);

/* A trace_sink: 0 or an errno. */
int target_sink(void *target, const void *bytes, size_t size);

/* It is complete and takes its name. False after a line on stderr. */
bool target_finish(struct target *t);
/* Gives the target up. error: the sink's, to be reported on stderr; 0: nothing to report. */
void target_drop(struct target *t, int error);

#endif
