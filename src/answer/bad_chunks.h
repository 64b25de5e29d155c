/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of a trace's file that cannot be read and were left out (mayfly_trace_bad_chunk()). */
#ifndef MAYFLY_BAD_CHUNKS_H
#define MAYFLY_BAD_CHUNKS_H

#include <mayfly/trace.h>

#define BAD_CHUNKS_BYTES 512

/* "damaged: maps at byte 1234 (mappings), trak at byte 99 (events) and 7 more; all else is used"; ""
 * when there is none. Returns the buffer. */
char *bad_chunks_text(char *buffer, size_t size, const struct mayfly_trace *trace);

#endif
