/* SPDX-License-Identifier: Apache-2.0 */
/* What a trace does not show because of how the program works, and what to do about it. */
#ifndef MAYFLY_HINTS_H
#define MAYFLY_HINTS_H

#include <mayfly/trace.h>

#define HINT_BYTES 512

/* Writes hint number `which`, from 0, in one sentence; "" when it does not apply to the trace.
 * Returns the buffer. */
#define HINTS 5
char *hint_text(char *buffer, size_t size, const struct mayfly_trace *trace, unsigned which);

#endif
