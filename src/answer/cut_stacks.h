/* SPDX-License-Identifier: Apache-2.0 */
/* Where the walks ended of stacks that lack their root part, and what to do about it. */
#ifndef MAYFLY_CUT_STACKS_H
#define MAYFLY_CUT_STACKS_H

#include <mayfly/trace.h>

/* "the walk ended in decode (libfoo.so); ..."; "" when no stack is cut, or without memory for the
 * counts. Returns the buffer. */
char *cut_stacks_text(char *buffer, size_t size, const struct mayfly_trace *trace);

#endif
