/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: reads any bytes as a spool. What was read must be fit to be written as a trace, and
 * that trace must open with as many events.
 */
#include <mayfly/trace.h>

#include <stdlib.h>
#include <string.h>

#include "trace/recording.h"
#include "trace/spool_format.h"

#include "fuzz_main.h"

static void check(const struct recording *r)
{
	struct mayfly_trace *t;
	uint8_t *bytes;
	size_t size;

	if (trace_encode(r, 1, &bytes, &size))
		abort();
	if (mayfly_trace_open(bytes, size, &t))
		abort();
	if (mayfly_trace_info(t)->samples != r->samples ||
	    mayfly_trace_info(t)->frees != r->info.frees)
		abort();
	mayfly_trace_close(t);
	free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct recording *r, *child;
	uint8_t *copy = malloc(size ? size : 1);

	if (!copy)
		return 0;
	if (size)
		memcpy(copy, data, size);
	if (spool_read(copy, size, NULL, NULL, &r) == 0) {
		check(r);
		/* Also as a child of itself. */
		if (spool_read(copy, size, NULL, r, &child) == 0) {
			check(child);
			recording_free(child);
		}
		recording_free(r);
	}
	free(copy);
	return 0;
}
