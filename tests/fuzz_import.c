/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: any bytes as a file of another tool. The first byte says which reader gets the rest,
 * or that they are to find out; 'e' is followed by the length, in two bytes, of what is beside the
 * file, and by that. What is made of it opens, and answers. */
#include <stdlib.h>
#include <string.h>

#include "ocaml_events/eventlog.h"
#include "convert/import/importer.h"
#include "convert/import/imports.h"

#include "fuzz_main.h"

/* With what is beside it. */
static int convert_eventlog(struct import *in)
{
	const uint8_t *data = in->data;
	size_t beside = in->size < 2 ? 0 : data[0] | (size_t)data[1] << 8;

	if (in->size < 2 || beside > in->size - 2)
		return MAYFLY_E_NOT_A_TRACE;
	in->options = (struct import_options){.beside = data + 2, .beside_size = beside};
	in->data = data + 2 + beside;
	in->size -= 2 + beside;
	return import_run(in, eventlog_import);
}

static int convert(const uint8_t *data, size_t size, struct import *in)
{
	const struct import_format *format;

	in->data = data + 1;
	in->size = size - 1;
	switch (*data) {
	case 'e':
		return convert_eventlog(in);
	case 'h':
		return import_run(in, heaptrack_import);
	case 't':
		return import_run(in, heap_text_import);
	case 'p':
		return import_run(in, pprof_import);
	case 'r':
		return import_run(in, runtime_events_import);
	case 'd':
		return import_run(in, dhat_import);
	case 'm':
		return import_run(in, massif_import);
	case '8':
		return import_run(in, v8_import);
	case 'q':
		return import_run(in, perfetto_import);
	case 'f':
		return import_run(in, folded_import);
	}
	format = import_recognise(data, size);
	if (!format)
		return MAYFLY_E_NOT_A_TRACE;
	in->data = data;
	in->size = size;
	return import_file(in, format);
}

static void ask(const struct mayfly_trace *t, enum mayfly_metric metric, enum mayfly_by by)
{
	struct mayfly_result *result;
	struct mayfly_query q;
	uint32_t absent;
	int error;

	mayfly_query_defaults(&q);
	q.metric = metric;
	q.by = by;
	absent = mayfly_query_absent(t, &q);
	error = mayfly_query_run(t, &q, &result);
	if (absent ? error != MAYFLY_E_ABSENT : error && error != MAYFLY_E_TOO_LARGE)
		abort();
	if (!error)
		mayfly_result_free(result);
}

/* Every event, and what is summed of them. */
static void read_tracks(const struct mayfly_trace *t)
{
	struct mayfly_track_cursor *cursor;
	struct mayfly_track_event e;
	struct mayfly_track_sums *sums;
	struct mayfly_spans *spans;
	struct mayfly_query q;
	int64_t last = INT64_MIN;

	if (mayfly_track_cursor_open(t, &cursor))
		abort();
	while (mayfly_track_cursor_next(cursor, &e) == 1) {
		if (e.time_ns < last || !mayfly_trace_track_type(t, e.type) ||
		    !mayfly_trace_thread(t, e.thread))
			abort();
		last = e.time_ns;
	}
	mayfly_track_cursor_close(cursor);
	mayfly_query_defaults(&q);
	if (mayfly_track_sums_run(t, &q, &sums))
		abort();
	mayfly_track_sums_free(sums);
	q.metric = MAYFLY_ALLOCATED;
	if (mayfly_trace_info(t)->track_events && !mayfly_spans_run(t, &q, &spans))
		mayfly_spans_free(spans);
}

static void read_it(const struct trace_buffer *out)
{
	struct mayfly_summary s;
	struct mayfly_trace *t;

	if (mayfly_trace_open(out->bytes, out->used, &t) || mayfly_trace_info(t)->bad_chunks)
		abort();
	if (mayfly_trace_summary(t, &s))
		abort();
	ask(t, MAYFLY_LIVE, MAYFLY_BY_STACK);
	ask(t, MAYFLY_PEAK, MAYFLY_BY_FUNCTION);
	ask(t, MAYFLY_ALLOCATED, MAYFLY_BY_LINE);
	ask(t, MAYFLY_TEMPORARY, MAYFLY_BY_MODULE);
	read_tracks(t);
	mayfly_trace_close(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct trace_buffer out = {0};
	struct import in = {.sink = trace_buffer_sink, .context = &out};
	uint8_t *exact;

	if (!size)
		return 0;
	exact = malloc(size);
	if (!exact)
		return 0;
	memcpy(exact, data, size);
	if (convert(exact, size, &in) == 0)
		read_it(&out);
	free(out.bytes);
	free(exact);
	return 0;
}
