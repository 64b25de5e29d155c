/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text that fits its columns on a terminal. Whatever is cut has a mark, "…" or, where the terminal
 * has only ASCII, "...".
 *
 * Functions with a buffer write into these `size` bytes and return it.
 */
#ifndef MAYFLY_FIT_TEXT_H
#define MAYFLY_FIT_TEXT_H

#include <stdbool.h>
#include <stddef.h>

struct output;

/* Bytes of the character at text[0..size-1]; 0: it is not to be shown as it is, as a control character,
 * a mark that changes the direction of text, invalid UTF-8. */
size_t text_shown(const char *text, size_t size);
/* Texts come from untrusted files: what is not to be shown becomes '?'. */
char *text_clean(char *buffer, size_t size, const char *text);
/* A wide character takes two, a combining one none. */
size_t text_columns(const char *text);

/* Shortens a C++ or Rust name to at most `columns`: first without parameters, then with template
 * arguments collapsed from the inside, then without the scopes it is nested in, then without its
 * middle; only as much of that as needed. */
char *name_fit(char *buffer, size_t size, const struct output *o, const char *name, size_t columns);

/* The same for the names of all rows of a table: names that differ still do when they are short.
 * The caller frees each of fitted[0..count-1]. False: out of memory, and there is none. */
bool names_fit(char **fitted, const struct output *o, char *const *name, size_t count,
	       size_t columns);

/* Cleans a line that is not a name, and shortens it at its end. */
char *line_fit(char *buffer, size_t size, const struct output *o, const char *text, size_t columns);

/* The same for "folder/file.c:12", in its middle. */
char *place_fit(char *buffer, size_t size, const struct output *o, const char *place,
		size_t columns);

#endif
