/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text into a caller's buffer. The only file below the commands that includes <stdio.h>: formatting
 * is no input or output, and works in the page as well.
 */
#ifndef MAYFLY_TEXT_FORMAT_H
#define MAYFLY_TEXT_FORMAT_H

#include <stddef.h>

/* As snprintf(), but returns the buffer. */
char *text_format(char *buffer, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Appends to the text that is in the buffer. */
char *text_append(char *buffer, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
