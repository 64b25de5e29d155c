/* SPDX-License-Identifier: Apache-2.0 */
/* Traces that are made of foreign files: see import_tables.h. */
#include "convert/import/import_tables.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "convert/import/packed.h"

#define MEMORY_FREE	((uint64_t)128 << 20)
#define MEMORY_PER_BYTE 64

/* Limit of the unpacked size. */
#define PLAIN_FREE     ((size_t)64 << 20)
#define PLAIN_PER_BYTE 128

/* Programs loaded at a fixed address lie below this, relocated ones above. */
#define FIXED_BELOW ((uint64_t)1 << 32)

/* What a row of a recording's tables takes, which double as they grow. */
#define MODULE_COST 512
#define FRAME_COST  96

void import_begin(struct import *in)
{
	in->report = (struct import_report){.left_out = ""};
	in->budget = MEMORY_FREE + (uint64_t)in->size * MEMORY_PER_BYTE;
	in->writer = NULL;
	in->tables = recording_new();
	in->error = in->tables ? 0 : MAYFLY_E_MEMORY;
}

int import_end(struct import *in)
{
	if (in->tables && in->tables->failed)
		in->error = MAYFLY_E_MEMORY;
	if (!in->error && in->writer)
		in->error = trace_writer_finish(in->writer);
	trace_writer_free_all(in->writer);
	recording_free(in->tables);
	return in->error;
}

int import_run(struct import *in, import_convert *convert)
{
	import_begin(in);
	if (!in->error)
		convert(in);
	return import_end(in);
}

void import_fail(struct import *in, int error)
{
	if (!in->error)
		in->error = error;
}

void import_spend(struct import *in, uint64_t bytes)
{
	if (bytes > in->budget)
		import_fail(in, MAYFLY_E_TOO_LARGE);
	else
		in->budget -= bytes;
}

bool import_grow(struct import *in, void *array, size_t used, size_t *room, size_t item)
{
	size_t want = *room ? *room + *room / 2 : 64;
	void *old, *bigger;

	if (used < *room)
		return true;
	import_spend(in, (want - *room) * item);
	if (in->error)
		return false;
	memcpy(&old, array, sizeof(old));
	bigger = reallocarray(old, want, item);
	if (!bigger) {
		import_fail(in, MAYFLY_E_MEMORY);
		return false;
	}
	memset((char *)bigger + *room * item, 0, (want - *room) * item);
	memcpy(array, &bigger, sizeof(bigger));
	*room = want;
	return true;
}

/* ---- the file ---- */

uint8_t *import_unpack(struct import *in, size_t *size)
{
	const char *problem = "";
	uint8_t *plain = NULL;

	import_fail(in, packed_all(in->data, in->size, PLAIN_FREE + in->size * PLAIN_PER_BYTE,
				   &plain, size, &problem));
	if (!in->error && *problem)
		import_problem(in, "%s", problem);
	return plain;
}

void import_lines(struct import *in, import_take_line *take, void *context)
{
	struct packed_lines lines;
	bool good = true;
	size_t length;
	char *line;

	if (!packed_lines_open(&lines, in->data, in->size))
		import_fail(in, MAYFLY_E_MEMORY);
	while (good && !import_failed(in) && (line = packed_lines_next(&lines, &length)))
		good = take(context, line, length);
	import_fail(in, lines.error);
	if (!good)
		import_problem(in, "line %" PRIu64, lines.number);
	else if (!in->error && *lines.problem)
		import_problem(in, "%s", lines.problem);
	packed_lines_close(&lines);
}

/* ---- rows ---- */

void import_command(struct import *in, char *text)
{
	struct recording *t = in->tables;
	char *save = NULL;

	import_spend(in, 64 * (uint64_t)strlen(text));
	for (char *word = strtok_r(text, " ", &save); word && !in->error;
	     word = strtok_r(NULL, " ", &save)) {
		uint32_t *bigger = reallocarray(t->command, t->command_count + 1, sizeof(*bigger));

		if (!bigger) {
			import_fail(in, MAYFLY_E_MEMORY);
			break;
		}
		t->command = bigger;
		bigger[t->command_count++] = recording_name(t, word);
	}
}

uint32_t import_module(struct import *in, struct recording_module m, uint64_t offset)
{
	import_spend(in, MODULE_COST);
	m.to_ns = INT64_MAX;
	m.bias = m.start < FIXED_BELOW || m.start < offset ? 0 : m.start - offset;
	return recording_module(in->tables, &m);
}

uint32_t import_frame(struct import *in, uint32_t module, uint64_t address)
{
	import_spend(in, FRAME_COST);
	return recording_frame(in->tables, MAYFLY_FRAME_CODE, module, address);
}

void import_begin_events(struct import *in)
{
	const struct trace_writer_options how = {.mode = MAYFLY_EXACT};

	in->writer = trace_writer_new(&how, in->tables, in->sink, in->context);
	if (!in->writer)
		import_fail(in, MAYFLY_E_MEMORY);
}

void import_function(struct recording *t, uint32_t frame, const struct recording_location *place)
{
	struct recording_frame *f = &t->frame[frame];
	uint32_t index = recording_location(t, place);

	if (t->failed)
		return;
	if (f->locations)
		t->location[index - 1].inlined = true;
	else
		f->first_location = index;
	f->locations++;
}

void import_count_named(struct recording *t)
{
	t->info.frames_symbolized = 0;
	for (size_t i = 0; i < t->frames; i++) {
		const struct recording_frame *f = &t->frame[i];

		t->info.frames_symbolized +=
		    f->locations && t->location[f->first_location].function;
	}
}

void import_problem(struct import *in, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	if (!*in->report.problem)
		vsnprintf(in->report.problem, sizeof(in->report.problem), format, arguments);
	va_end(arguments);
}

void import_describe(struct import *in, const char *format, ...)
{
	const char *problem = in->report.problem;
	char note[1024];
	va_list arguments;
	size_t used;

	va_start(arguments, format);
	vsnprintf(note, sizeof(note), format, arguments);
	va_end(arguments);
	used = strlen(note);
	if (*problem)
		snprintf(note + used, sizeof(note) - used, "; it is damaged: %s", problem);
	in->tables->note = recording_name(in->tables, note);
	in->tables->info.complete = !*problem;
}

void import_describe_events(struct import *in, const char *what, uint64_t events,
			    int64_t duration_ns)
{
	const char *left_out = in->report.left_out;
	struct recording *t = in->tables;

	import_describe(in, "converted from %s, %" PRIu64 " events%s%s", what, events,
			*left_out ? "; left out: " : "", left_out);
	if (!t->threads)
		recording_thread(t, 0, 0);
	t->info.interval_bytes = 1;
	t->info.absent = MAYFLY_ABSENT_ALLOCATIONS | MAYFLY_ABSENT_PEAK | MAYFLY_ABSENT_LIVE |
			 MAYFLY_ABSENT_ALLOCATED | MAYFLY_ABSENT_TEMPORARY |
			 MAYFLY_ABSENT_LIFETIMES | MAYFLY_ABSENT_SIZES | MAYFLY_ABSENT_ERRORS |
			 MAYFLY_ABSENT_BLOCKS | MAYFLY_ABSENT_START | MAYFLY_ABSENT_COMMAND |
			 MAYFLY_ABSENT_MODULES;
	t->info.duration_ns = duration_ns;
	t->info.ending = MAYFLY_END_UNKNOWN;
	t->info.complete &= !*left_out;
}
