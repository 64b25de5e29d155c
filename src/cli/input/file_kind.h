/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are no traces but given in place of one: what they are, and what to do instead. */
#ifndef MAYFLY_FILE_KIND_H
#define MAYFLY_FILE_KIND_H

#include <stdbool.h>
#include <stddef.h>

/* "is a program; 'mayfly record -- ./prog' records it", of the file's beginning; "": nothing is known.
 * Returns the buffer. */
char *file_kind_text(char *buffer, size_t size, const void *data, size_t bytes, const char *path);

/* A file that can be executed: a binary, or a script. */
bool file_is_program(const char *path);
/* A command without a slash is found in PATH. */
bool file_in_path(const char *command);

#endif
