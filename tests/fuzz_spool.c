/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: reads any bytes as a spool, in one go, as a child of itself, and in rounds. What was
 * read must be fit to be written as a trace, and that trace must open with as many events.
 */
#include <mayfly/trace.h>

#include <stdlib.h>
#include <string.h>

#include "format/spool_format.h"
#include "spool/spool_convert.h"

#include "fuzz_main.h"

struct input {
	uint8_t *data;
	size_t size;
};

static const void *input_at(void *context, uint64_t offset, size_t bytes)
{
	const struct input *in = context;

	return offset <= in->size && bytes <= in->size - offset ? in->data + offset : NULL;
}

/* A packet that was given back is somebody else's: begun again, with other things in it. */
static void input_done(void *context, uint64_t index)
{
	const struct input *in = context;
	const struct spool_header *h = (const struct spool_header *)in->data;
	uint64_t at = h->header_bytes + index * h->packet_bytes;
	size_t body = at + sizeof(struct spool_packet);

	for (size_t i = body; i < in->size && i < at + h->packet_bytes; i++)
		in->data[i] ^= 0x55;
}

static void check_tracks(const struct mayfly_trace *t)
{
	const struct mayfly_info *info = mayfly_trace_info(t);
	struct mayfly_track_cursor *c;
	struct mayfly_track_event e;
	uint64_t events = 0;

	if (mayfly_track_cursor_open(t, &c))
		abort();
	while (mayfly_track_cursor_next(c, &e) == 1) {
		const struct mayfly_track_type *type = mayfly_trace_track_type(t, e.type);

		if (!type || e.thread >= info->threads || e.node >= info->nodes ||
		    e.events_before > info->samples + info->frees ||
		    e.values != (e.kind == MAYFLY_TRACK_END ? 0 : type->fields))
			abort();
		events++;
	}
	if (info->track_events != events)
		abort();
	mayfly_track_cursor_close(c);
}

static void check(const uint8_t *bytes, size_t size)
{
	struct mayfly_trace *t;
	struct mayfly_cursor *c;
	struct mayfly_event e;
	uint64_t allocs = 0, frees = 0;

	if (mayfly_trace_open(bytes, size, &t) || mayfly_trace_info(t)->bad_chunks)
		abort();
	if (mayfly_cursor_open(t, &c))
		abort();
	while (mayfly_cursor_next(c, &e) == 1) {
		allocs += e.kind == MAYFLY_ALLOC;
		frees += e.kind == MAYFLY_FREE;
		if (e.labels >= mayfly_trace_info(t)->label_sets)
			abort();
	}
	if (mayfly_trace_info(t)->samples != allocs || mayfly_trace_info(t)->frees != frees)
		abort();
	mayfly_cursor_close(c);
	check_tracks(t);
	mayfly_trace_close(t);
}

static void convert(const uint8_t *data, size_t size, const uint8_t *parent, size_t parent_size)
{
	uint8_t *bytes;
	size_t bytes_size;

	if (spool_convert(data, size, parent, parent_size, NULL, 1, NULL, NULL, &bytes,
			  &bytes_size))
		return;
	check(bytes, bytes_size);
	free(bytes);
}

/* As a recorder does; the times of the rounds come from the data. */
static void in_rounds(uint8_t *data, size_t size)
{
	struct input in = {data, size};
	struct spool_source source = {&in, input_at, input_done};
	struct spool_stream_options options = {.online = true, .keep_forks = true};
	struct trace_writer_options writer_options = {.level = 1};
	struct recording *tables = recording_new();
	struct trace_buffer out = {0};
	struct trace_writer *writer;
	struct spool_stream *s = NULL;
	uint64_t ticks;

	if (spool_stream_writer_options(&source, &writer_options)) {
		recording_free(tables);
		return;
	}
	ticks = ((const struct spool_header *)data)->start_ticks;
	options.event_bytes = ticks % 4 * 100; /* 0: all events */
	writer = trace_writer_new(&writer_options, tables, trace_buffer_sink, &out);
	if (writer && spool_stream_open(&source, &options, tables, writer, &s) == 0) {
		for (uint64_t step = 1; step < 1u << 30; step *= 64)
			if (spool_stream_advance(s, ticks + step * 1000, step * 1000, NULL))
				break;
		if (spool_stream_finish(s, NULL) == 0 && trace_writer_finish(writer) == 0)
			check(out.bytes, out.used);
	}
	spool_stream_close(s);
	trace_writer_free_all(writer);
	recording_free(tables);
	free(out.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *copy = NULL;

	/* Aligned like a mapping, and no larger than the spool, so that a read beyond it is seen. */
	if (posix_memalign((void **)&copy, 64, size ? size : 1))
		return 0;
	if (size)
		memcpy(copy, data, size);
	convert(copy, size, NULL, 0);
	convert(copy, size, copy, size);
	in_rounds(copy, size);
	free(copy);
	return 0;
}
