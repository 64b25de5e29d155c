/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that decode a trace's events ahead of who asks: struct mayfly_helper of mayfly/trace.h.
 */
#ifndef MAYFLY_HELPERS_H
#define MAYFLY_HELPERS_H

#include <mayfly/trace.h>

struct helpers;

/* Lends the trace as many threads as there are other processors, up to three, when it is large
 * enough for that to matter. They are started when there is work. NULL: it gets none. */
struct helpers *helpers_lend(struct mayfly_trace *trace);
/* After mayfly_trace_close(). */
void helpers_free(struct helpers *helpers);

#endif
