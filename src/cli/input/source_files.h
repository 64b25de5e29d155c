/* SPDX-License-Identifier: Apache-2.0 */
/* Source files of a program, for the page that shows its lines: struct view's `source`. */
#ifndef MAYFLY_SOURCE_FILES_H
#define MAYFLY_SOURCE_FILES_H

#include <mayfly/trace.h>
#include <stdbool.h>

#include <limits.h>

#include "base/bytes.h"

/*
 * Reads a file that a location of the trace names: at that path, or, with leading folders left out,
 * below the current directory. False: the trace does not name it, or it is not there, is not a
 * regular file of text, or is too large. Threads: any. `trace` is a const struct mayfly_trace *.
 */
bool view_read_source(void *trace, const char *path, struct bytes *text);

/*
 * The same with a folder in place of the current directory, when it is not NULL: then nothing outside
 * of it is read, wherever links lead. folder: as realpath() has it. found: what was read.
 */
bool source_file_read(const struct mayfly_trace *trace, const char *folder, const char *path,
		      struct bytes *text, char found[PATH_MAX]);

#endif
