/* SPDX-License-Identifier: Apache-2.0 */
/* Events of Memtrace's files as the lines that its dump tool prints. */
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

static void flush(struct line *l)
{
	if (!l->error && l->used)
		l->error = l->sink(l->context, l->text, l->used);
	l->used = 0;
}

static void put(struct line *l, const char *text, size_t length)
{
	if (length > sizeof(l->text) - l->used)
		flush(l);
	if (length > sizeof(l->text)) {
		if (!l->error)
			l->error = l->sink(l->context, text, length);
		return;
	}
	memcpy(l->text + l->used, text, length);
	l->used += length;
}

static void put_number(struct line *l, uint32_t number)
{
	char digits[10];
	size_t at = sizeof(digits);

	do {
		digits[--at] = (char)('0' + number % 10);
		number /= 10;
	} while (number);
	put(l, digits + at, sizeof(digits) - at);
}

static void put_location(struct line *l, const struct memtrace_location *at)
{
	put(l, " ", 1);
	put(l, at->function, strlen(at->function));
	put(l, "@", 1);
	put(l, at->file, strlen(at->file));
	put(l, ":", 1);
	put_number(l, at->line);
	put(l, ":", 1);
	put_number(l, at->start_char);
	put(l, "-", 1);
	put_number(l, at->end_char);
}

static void put_stack(struct line *l, const struct memtrace_reader *r,
		      const struct memtrace_event *e)
{
	const struct memtrace_location *location;
	char text[32];
	size_t count;

	for (size_t i = 0; i < e->depth && !l->error; i++) {
		location = memtrace_locate(r, e->stack[i], &count);
		for (size_t k = 0; k < count; k++)
			put_location(l, &location[k]);
		if (!count)
			put(l, text,
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
	put(&l, text, (size_t)length);
	if (e->kind == MEMTRACE_ALLOC) {
		length =
		    snprintf(text, sizeof(text), "%s %" PRId64 " len=%" PRId64 " % 4" PRId64 ":",
			     names[e->source], e->samples, e->length, e->common_prefix);
		put(&l, text, (size_t)length);
		put_stack(&l, r, e);
	} else {
		put(&l, e->kind == MEMTRACE_PROMOTE ? "promote" : "collect", 7);
	}
	put(&l, "\n", 1);
	flush(&l);
	return l.error;
}
