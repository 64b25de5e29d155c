/* SPDX-License-Identifier: Apache-2.0 */
/* Prints events of Memtrace's files as lines like those of its dump tool. */
#include "convert/import/memtrace_read.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Collects pieces of a line before they go to the sink. */
struct line {
	trace_sink *sink;
	void *context;
	int error;
	size_t used;
	char text[4096];
};

static void memtrace_text_flush(struct line *l)
{
	if (!l->error && l->used)
		l->error = l->sink(l->context, l->text, l->used);
	l->used = 0;
}

static void memtrace_text_put(struct line *l, const char *text, size_t length)
{
	if (length > sizeof(l->text) - l->used)
		memtrace_text_flush(l);
	if (length > sizeof(l->text)) {
		if (!l->error)
			l->error = l->sink(l->context, text, length);
		return;
	}
	memcpy(l->text + l->used, text, length);
	l->used += length;
}

static void memtrace_text_put_number(struct line *l, uint32_t number)
{
	char digits[10];
	size_t at = sizeof(digits);

	do {
		digits[--at] = (char)('0' + number % 10);
		number /= 10;
	} while (number);
	memtrace_text_put(l, digits + at, sizeof(digits) - at);
}

static void memtrace_text_put_location(struct line *l, const struct memtrace_location *at)
{
	memtrace_text_put(l, " ", 1);
	memtrace_text_put(l, at->function, strlen(at->function));
	memtrace_text_put(l, "@", 1);
	memtrace_text_put(l, at->file, strlen(at->file));
	memtrace_text_put(l, ":", 1);
	memtrace_text_put_number(l, at->line);
	memtrace_text_put(l, ":", 1);
	memtrace_text_put_number(l, at->start_char);
	memtrace_text_put(l, "-", 1);
	memtrace_text_put_number(l, at->end_char);
}

static void memtrace_text_put_stack(struct line *l, const struct memtrace_reader *r,
				    const struct memtrace_event *e)
{
	const struct memtrace_location *location;
	char text[32];
	size_t count;

	for (size_t i = 0; i < e->depth && !l->error; i++) {
		location = memtrace_locate(r, e->stack[i], &count);
		for (size_t k = 0; k < count; k++)
			memtrace_text_put_location(l, &location[k]);
		if (!count)
			memtrace_text_put(
			    l, text,
			    (size_t)snprintf(text, sizeof(text), " $%" PRId64, e->stack[i]));
	}
}

int memtrace_print(const struct memtrace_reader *r, const struct memtrace_event *e,
		   trace_sink *sink, void *context)
{
	static const char *const names[] = {"alloc", "alloc_major", "alloc_ext"};
	struct line l = {.sink = sink, .context = context};
	char text[160];
	int length;

	length = snprintf(text, sizeof(text), "%010" PRId64 " %010" PRId64 " ", e->time_us, e->id);
	memtrace_text_put(&l, text, (size_t)length);
	if (e->kind == MEMTRACE_ALLOC) {
		length =
		    snprintf(text, sizeof(text), "%s %" PRId64 " len=%" PRId64 " % 4" PRId64 ":",
			     names[e->source], e->samples, e->length, e->common_prefix);
		memtrace_text_put(&l, text, (size_t)length);
		memtrace_text_put_stack(&l, r, e);
	} else {
		memtrace_text_put(&l, e->kind == MEMTRACE_PROMOTE ? "promote" : "collect", 7);
	}
	memtrace_text_put(&l, "\n", 1);
	memtrace_text_flush(&l);
	return l.error;
}
