/* SPDX-License-Identifier: Apache-2.0 */
/* Prints events of Memtrace's files as lines like those of its dump tool. */
#include "convert/import/memtrace_read.h"

#include "convert/out.h"

#include <inttypes.h>

static void put_location(struct out *o, const struct memtrace_location *at)
{
	out_char(o, ' ');
	out_text(o, at->function);
	out_char(o, '@');
	out_text(o, at->file);
	out_char(o, ':');
	out_unsigned(o, at->line);
	out_char(o, ':');
	out_unsigned(o, at->start_char);
	out_char(o, '-');
	out_unsigned(o, at->end_char);
}

static void memtrace_text_put_stack(struct out *o, const struct memtrace_reader *r,
				    const struct memtrace_event *e)
{
	const struct memtrace_location *location;
	size_t count;

	for (size_t i = 0; i < e->depth && !o->error; i++) {
		location = memtrace_locate(r, e->stack[i], &count);
		for (size_t k = 0; k < count; k++)
			put_location(o, &location[k]);
		if (!count)
			out_format(o, " $%" PRId64, e->stack[i]);
	}
}

int memtrace_print(const struct memtrace_reader *r, const struct memtrace_event *e,
		   trace_sink *sink, void *context)
{
	static const char *const names[] = {"alloc", "alloc_major", "alloc_ext"};
	struct out o;

	out_begin(&o, sink, context);
	out_format(&o, "%010" PRId64 " %010" PRId64 " ", e->time_us, e->id);
	if (e->kind == MEMTRACE_ALLOC) {
		out_format(&o, "%s %" PRId64 " len=%" PRId64, names[e->source], e->samples,
			   e->length);
		/* As Memtrace does since it knows domains. */
		if (memtrace_info(r)->version >= 3)
			out_format(&o, " dom=%u", e->domain);
		out_format(&o, " % 4" PRId64 ":", e->common_prefix);
		memtrace_text_put_stack(&o, r, e);
	} else {
		out_text(&o, e->kind == MEMTRACE_PROMOTE ? "promote" : "collect");
	}
	out_char(&o, '\n');
	return out_end(&o);
}
