/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that decode a trace's events ahead of the reader: struct mayfly_helper of mayfly/trace.h.
 */
#ifndef MAYFLY_DECODE_THREADS_H
#define MAYFLY_DECODE_THREADS_H

#include <mayfly/trace.h>

struct decode_threads;

/* Lends the trace as many threads as there are other processors, up to three, when it is large
 * enough for that to matter. They are started when there is work. NULL: it gets none. */
struct decode_threads *decode_threads_lend(struct mayfly_trace *trace);
/* After mayfly_trace_close(). */
void decode_threads_free(struct decode_threads *threads);

#endif
