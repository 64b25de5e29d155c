/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: any bytes as a file of Memtrace: read, printed, written again, converted to a trace
 * and back. */
#include <stdlib.h>
#include <string.h>

#include "convert/export/memtrace_write.h"
#include "convert/import/import_tables.h"
#include "convert/import/memtrace_read.h"

#include "fuzz_main.h"

#define OUTPUT_MAX (64u << 20)

/* Counts, and ends what would print the same deep stack again and again. */
static int to_count(void *context, const void *bytes, size_t size)
{
	size_t *sum = context;

	(void)bytes;
	*sum += size;
	return *sum > OUTPUT_MAX;
}

static const struct memtrace_location *locate(void *reader, int64_t code, size_t *count)
{
	return memtrace_locate(reader, code, count);
}

static int copy_event(struct memtrace_writer *w, const struct memtrace_event *e)
{
	int64_t id;

	if (e->kind == MEMTRACE_ALLOC)
		return memtrace_writer_alloc(w, e->time_us, e->length, e->samples, e->source,
					     e->stack, e->depth, &id);
	if (e->kind == MEMTRACE_PROMOTE)
		return memtrace_writer_promote(w, e->time_us, e->id);
	return memtrace_writer_collect(w, e->time_us, e->id);
}

/* What was read can be written, and then read again without an error. */
static void copy(struct memtrace_reader *r)
{
	struct trace_buffer out = {0};
	struct memtrace_writer *w = NULL;
	struct memtrace_reader *again;
	struct memtrace_event e;
	size_t printed = 0, frames = 0;

	if (memtrace_writer_new(memtrace_info(r), locate, r, trace_buffer_sink, &out, &w))
		abort();
	while (memtrace_next(r, &e) == 1) {
		if (e.kind == MEMTRACE_ALLOC && (e.shared > e.depth || (e.depth && !e.stack)))
			abort();
		if (printed <= OUTPUT_MAX)
			memtrace_print(r, &e, to_count, &printed);
		if (e.kind == MEMTRACE_ALLOC)
			frames += e.depth;
		if (frames < OUTPUT_MAX / 8)
			copy_event(w, &e);
	}
	if (memtrace_writer_finish(w))
		abort();
	memtrace_writer_free(w);
	if (memtrace_open(out.bytes, out.used, &again))
		abort();
	while (memtrace_next(again, &e) == 1)
		;
	if (*memtrace_problem(again))
		abort();
	memtrace_close(again);
	free(out.bytes);
}

/* Makes a trace of what is left of a file. */
static int to_trace(struct memtrace_reader *r, struct trace_buffer *bytes,
		    struct memtrace_converted *counts)
{
	struct import in = {.sink = trace_buffer_sink, .context = bytes};

	import_begin(&in);
	if (!in.error)
		memtrace_convert(r, &in, counts);
	return import_end(&in);
}

static void convert(struct memtrace_reader *r)
{
	struct trace_buffer out = {0};
	struct memtrace_converted counts;
	struct mayfly_trace *t;
	size_t written = 0;

	if (to_trace(r, &out, &counts) == 0) {
		if (mayfly_trace_open(out.bytes, out.used, &t) || mayfly_trace_info(t)->bad_chunks)
			abort();
		if (mayfly_trace_info(t)->samples != counts.blocks ||
		    mayfly_trace_info(t)->frees != counts.frees)
			abort();
		memtrace_from_trace(t, "fuzz", 0, to_count, &written);
		mayfly_trace_close(t);
	}
	free(out.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *exact = malloc(size ? size : 1);
	struct memtrace_reader *r;

	if (!exact)
		return 0;
	if (size)
		memcpy(exact, data, size);
	if (memtrace_open(exact, size, &r) == 0) {
		copy(r);
		memtrace_close(r);
	}
	if (memtrace_open(exact, size, &r) == 0) {
		convert(r);
		memtrace_close(r);
	}
	free(exact);
	return 0;
}
