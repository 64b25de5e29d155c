/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: opens any bytes as a trace and exports it to each format that is one file; a
 * database is one in memory. */
#include "convert/export/exporter.h"
#include "convert/out.h"

#include <stdlib.h>
#include <string.h>

#include "fuzz_main.h"
#include "fuzz_repair.h"

/* Whatever names a trace holds, JSON, XML and tables are UTF-8. */
static void check_text(const struct trace_buffer *buffer)
{
	size_t length;

	for (size_t at = 0; at < buffer->used; at += length) {
		char text[5] = "";
		size_t left = buffer->used - at;

		memcpy(text, buffer->bytes + at, left < 4 ? left : 4);
		length = utf8_length(text);
		if (length == 0)
			abort();
	}
}

static int hides_some(void *context, const char *text)
{
	(void)context;
	return text[0] & 1;
}

static void export_to(const struct mayfly_trace *t, const struct export_format *format,
		      unsigned int choice)
{
	struct mayfly_query query;
	const struct mayfly_label label = {"process.pid", "\xff"};
	struct export_options options = {"fuzzing <&>", &query, choice & 8,
					 .process = {"a service", NULL, &label, 1}};
	struct trace_buffer buffer = {0};

	mayfly_query_defaults(&query);
	query.metric = (enum mayfly_metric)(choice % 5);
	if (choice & 16)
		query.hide.matches = hides_some;
	if (choice & 64) {
		query.from_ns = 1000000;
		query.to_ns = query.at_ns = 5000000;
		options.window = query.metric == MAYFLY_LIVE;
	}
	if (format->metrics && !(format->metrics & EXPORT_METRIC(query.metric)))
		return;
	if (format->shape == EXPORT_FILE) {
		if (choice & 32) /* it takes longer than all others */
			format->convert_at(t, &options, ":memory:");
	} else if (export_run(format->convert, t, &options, trace_buffer_sink, &buffer) == 0 &&
		   format->text && strcmp(format->name, "heap_v2") != 0) {
		check_text(&buffer);
	}
	free(buffer.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct mayfly_trace *t;
	uint8_t *copy = malloc(size ? size : 1);

	if (!copy)
		return 0;
	if (size)
		memcpy(copy, data, size);
	repair(copy, size);
	if (mayfly_trace_open(copy, size, &t) == 0) {
		const struct mayfly_info *info = mayfly_trace_info(t);
		unsigned int choice = size ? data[size / 2] : 0;

		/* Stacks as text grow with the square of their depth. */
		for (const struct export_format *f = export_formats(); f->name; f++)
			if (f->shape != EXPORT_FOLDER && info->samples < 5000 &&
			    info->nodes < 2000 && info->track_events < 5000)
				export_to(t, f, choice);
		mayfly_trace_close(t);
	}
	free(copy);
	return 0;
}
