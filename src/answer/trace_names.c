/* SPDX-License-Identifier: Apache-2.0 */
/* Names of the things of a trace. */
#include "answer/trace_names.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "answer/figures.h"
#include "answer/text_format.h"
#include "ocaml_events/runtime_rings.h"

const char *path_base(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

/* The last two components. */
static const char *path_tail(const char *path)
{
	const char *base = path_base(path);

	if (base - path < 2)
		return path;
	for (const char *s = base - 2; s > path; s--)
		if (*s == '/')
			return s + 1;
	return path;
}

/* ---- frames ---- */

const char *frame_shown_name(char *buffer, size_t size, uint32_t kind, const char *function,
			     const char *module, uint64_t address)
{
	const char *slash = module ? strrchr(module, '/') : NULL;

	if (kind == MAYFLY_FRAME_TRUNCATED)
		return "[stack cut]";
	if (kind == MAYFLY_FRAME_CODE && function && *function)
		return function;
	if (kind == MAYFLY_FRAME_ELIDED)
		return text_format(buffer, size, "[%s%" PRIu64 " frames left out]",
				   address < 16 ? "" : "about ", address);
	if (module && *module)
		return text_format(buffer, size, "%s+0x%" PRIx64, slash ? slash + 1 : module,
				   address);
	return text_format(buffer, size, "0x%" PRIx64, address);
}

/* The same, always in the buffer. */
static char *copy_name(char *buffer, size_t size, uint32_t kind, const char *function,
		       const char *module, uint64_t address)
{
	const char *name = frame_shown_name(buffer, size, kind, function, module, address);

	return name == buffer ? buffer : text_format(buffer, size, "%s", name);
}

const char *place_function(char *buffer, size_t size, const struct mayfly_place *place)
{
	return frame_shown_name(buffer, size, place->kind, place->function, place->module,
				place->address);
}

const char *row_function(char *buffer, size_t size, const struct mayfly_row *row)
{
	return !*row->function && row->stack_length ? place_function(buffer, size, &row->stack[0])
						    : row->function;
}

char *place_name(char *buffer, size_t size, const struct mayfly_place *place)
{
	return copy_name(buffer, size, place->kind, place->function, place->module, place->address);
}

char *row_name(char *buffer, size_t size, const struct mayfly_row *row)
{
	/* A row without a function has its address in its only place. */
	if (!*row->function && row->stack_length > 0)
		return place_name(buffer, size, &row->stack[0]);
	if (!*row->function && *row->module)
		return text_format(buffer, size, "[no symbols in %s]", path_base(row->module));
	return text_format(buffer, size, "%s", *row->function ? row->function : "[unknown]");
}

char *frame_name(char *buffer, size_t size, const struct mayfly_trace *trace,
		 const struct mayfly_frame *frame, const struct mayfly_location *location)
{
	const struct mayfly_module *module = mayfly_trace_module(trace, frame->module);

	return copy_name(buffer, size, frame->kind, location ? location->function : "",
			 module ? module->path : "", frame->address);
}

char *location_text(char *buffer, size_t size, const char *file, uint32_t line, const char *module,
		    bool wide)
{
	if (!file || !*file)
		return text_format(buffer, size, "%s",
				   module ? wide ? module : path_base(module) : "");
	if (line)
		return text_format(buffer, size, "%s:%" PRIu32, wide ? file : path_tail(file),
				   line);
	return text_format(buffer, size, "%s", wide ? file : path_tail(file));
}

/* ---- programs, heaps ---- */

/* Characters that a shell takes as they are. */
static bool is_plain_word(const char *text)
{
	if (!*text)
		return false;
	for (; *text; text++)
		if (!isalnum((unsigned char)*text) && !strchr("_-+=./:,@%", *text))
			return false;
	return true;
}

char *command_line(char *buffer, size_t size, const struct mayfly_info *info)
{
	buffer[0] = 0;
	if (info->command_count == 0)
		text_format(buffer, size, "%s", *info->program ? info->program : "unknown");
	for (size_t i = 0; i < info->command_count; i++) {
		const char *word = i == 0 ? path_base(info->command[0]) : info->command[i];
		const char *quote = is_plain_word(word) ? "" : "'";

		text_append(buffer, size, "%s%s%s%s", i ? " " : "", quote, word, quote);
	}
	return buffer;
}

const char *heap_name(uint32_t heap)
{
	static const char *const name[MAYFLY_HEAPS] = {
	    "malloc", "ocaml-minor", "ocaml-major", "external", "pool", "pool-mapped", "mmap"};

	return name[heap < MAYFLY_HEAPS ? heap : 0];
}

const char *holder_kind_word(enum mayfly_holder_kind kind)
{
	switch (kind) {
	case MAYFLY_HOLDER_LOST:
		return "lost";
	case MAYFLY_HOLDER_LOST_BY:
		return "lost with others";
	case MAYFLY_HOLDER_TOGETHER:
		return "several";
	case MAYFLY_HOLDER_VARIABLE:
		return "variable";
	case MAYFLY_HOLDER_THREAD_LOCAL:
		return "thread-local";
	case MAYFLY_HOLDER_UNNAMED:
		return "variables without names";
	case MAYFLY_HOLDER_STACK:
		return "stack";
	case MAYFLY_HOLDER_REGISTERS:
		return "registers";
	case MAYFLY_HOLDER_THREAD:
		return "thread";
	case MAYFLY_HOLDER_MAPPING:
	case MAYFLY_HOLDER_KINDS:
		break;
	}
	return "mapping";
}

/* ---- track events ---- */

static bool has_own_text(const char *unit)
{
	return strcmp(unit, "bytes") == 0 || strcmp(unit, "ns") == 0;
}

char *track_number(char *buffer, size_t size, const char *unit, double value)
{
	char text[FIGURE_TEXT];
	double positive = fabs(value);

	if (strcmp(unit, "bytes") == 0)
		text_bytes(text, sizeof(text), positive);
	else if (strcmp(unit, "ns") == 0)
		text_duration(text, sizeof(text), positive);
	else if (!(positive >= 999.5 && positive < 1e15)) /* also not a number */
		text_format(text, sizeof(text), "%.3g", positive);
	else
		text_count(text, sizeof(text), positive);
	return text_format(buffer, size, "%s%s", value < 0 ? "-" : "", text);
}

char *track_type_name(char *buffer, size_t size, const struct mayfly_track_type *type)
{
	if (type->kind == MAYFLY_TYPE_COUNTER && *type->unit && !has_own_text(type->unit))
		return text_format(buffer, size, "%s (%s)", type->name, type->unit);
	return text_format(buffer, size, "%s", *type->name ? type->name : "[no name]");
}

/* ---- threads ---- */

char *thread_name(char *buffer, size_t size, const struct mayfly_trace *trace, uint32_t index)
{
	const struct mayfly_thread *thread = mayfly_trace_thread(trace, index);

	if (thread && *thread->name && thread->tid >= RUNTIME_DOMAIN_TID)
		return text_format(buffer, size, "%s", thread->name);
	if (thread && *thread->name)
		return text_format(buffer, size, "%s (%" PRIu32 ")", thread->name, thread->tid);
	if (thread)
		return text_format(buffer, size, "%" PRIu32, thread->tid);
	return text_format(buffer, size, "[unknown thread]");
}
