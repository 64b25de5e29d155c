/* SPDX-License-Identifier: Apache-2.0 */
/* suppressions.c: lists, matching names, and counting what was suppressed. */
#include "answer/suppressions.h"

#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "answer/json_writer.h"
#include "base/array.h"

/*
 * These functions call no code of the program, except for the constructors of shared libraries,
 * and those allocate only once. (Constructors of the executable itself are called by libc.) CPython's call what
 * modules do when they are imported, which is once, too.
 */
const char suppressions_default[] =
    "# What libc, the dynamic loader, the C++ library and CPython keep until a program ends.\n"
    "\n"
    "# buffers of stdio\n"
    "leak:^_IO_file_doallocate$\n"
    "leak:^_IO_doallocbuf$\n"
    "leak:^_IO_wfile_doallocate$\n"
    "leak:^_IO_wdoallocbuf$\n"
    "\n"
    "# locales, message catalogues, character sets\n"
    "leak:^setlocale$\n"
    "leak:^_nl_\n"
    "leak:^bindtextdomain$\n"
    "leak:^textdomain$\n"
    "leak:^__gconv\n"
    "\n"
    "# time zones, environment, name services\n"
    "leak:^tzset$\n"
    "leak:^localtime$\n"
    "leak:^localtime_r$\n"
    "leak:^mktime$\n"
    "leak:^ctime$\n"
    "leak:^strftime$\n"
    "leak:^tzset_internal$\n"
    "leak:^__tz\n"
    "leak:^setenv$\n"
    "leak:^putenv$\n"
    "leak:^__add_to_environ$\n"
    "leak:^getpwnam\n"
    "leak:^getpwuid\n"
    "leak:^getgrnam\n"
    "leak:^getgrgid\n"
    "leak:^__nss_\n"
    "leak:^__res_\n"
    "\n"
    "# functions to call at exit\n"
    "leak:^__new_exitfn$\n"
    "leak:^__cxa_atexit$\n"
    "leak:^on_exit$\n"
    "leak:^__register_atfork$\n"
    "\n"
    "# the dynamic loader: maps of libraries, thread-local storage\n"
    "leak:^_dl_map_object\n"
    "leak:^_dl_new_object$\n"
    "leak:^_dl_check_map_versions$\n"
    "leak:^_dl_add_to_namespace_list$\n"
    "leak:^_dl_allocate_tls\n"
    "leak:^_dl_resize_scope$\n"
    "leak:^add_to_global_\n"
    "leak:^allocate_dtv\n"
    "leak:^tls_get_addr\n"
    "leak:^__tls_get_addr$\n"
    "leak:^update_get_addr$\n"
    "\n"
    "# stacks and keys of threads\n"
    "leak:^pthread_create\n"
    "leak:^__pthread_create\n"
    "leak:^allocate_stack$\n"
    "leak:^pthread_setspecific$\n"
    "leak:^__pthread_setspecific$\n"
    "\n"
    "# constructors of shared libraries, which fill globals once; so does the C++ library with\n"
    "# 71 KiB for exceptions, by a function without a name\n"
    "leak:^_dl_init$\n"
    "leak:^_GLOBAL__sub_I_eh_alloc.cc$\n"
    "leak:eh_alloc.cc$\n"
    "\n"
    "# what CPython keeps of its own start, and modules that are imported, with what they hold "
    "from\n"
    "# then on (--no-default-suppressions shows it)\n"
    "leak:^Py_InitializeFromConfig$\n"
    "leak:^_find_and_load$\n";

/* ---- patterns ---- */

/* Where the first `length` bytes of a piece occur in the text; NULL: nowhere. */
static const char *find_piece(const char *from, const char *piece, size_t length)
{
	return memmem(from, strlen(from), piece, length);
}

/* Matches the pieces between asterisks in order, each at the first place after the one before it; a
 * piece that is tied to the end must stand there. */
static bool pattern_fits(const char *pattern, const char *text)
{
	bool tied = *pattern == '^';
	const char *at = text;

	if (!*text)
		return false;
	for (pattern += tied;; tied = false) {
		size_t length = strcspn(pattern, "*$");
		bool ends = pattern[length] == '$';
		const char *found;

		if (ends && strlen(at) < length)
			return false;
		found = tied   ? at
			: ends ? at + strlen(at) - length
			       : find_piece(at, pattern, length);
		if (!found || strncmp(found, pattern, length) != 0)
			return false;
		at = found + length;
		if (ends)
			return !*at;
		if (!pattern[length])
			return true;
		pattern += length + 1;
	}
}

size_t suppressions_find(const struct suppressions *s, const char *text)
{
	for (size_t i = 0; i < s->count; i++)
		if (pattern_fits(s->item[i].pattern, text))
			return i;
	return SUPPRESSIONS_NONE;
}

static int is_ignored(void *context, const char *text)
{
	const struct suppressions *s = context;

	if (s->also.matches && s->also.matches(s->also.context, text))
		return 1;
	return suppressions_find(s, text) != SUPPRESSIONS_NONE;
}

struct mayfly_match suppressions_match(struct suppressions *s)
{
	if (!s->count)
		return s->also;
	return (struct mayfly_match){is_ignored, s};
}

/* ---- lists ---- */

static bool add_pattern(struct suppressions *s, const char *pattern, size_t length,
			const char *file, size_t line)
{
	struct suppression *item;

	if (!array_reserve(&s->item, &s->room, s->count, sizeof(*item)))
		return false;
	item = &s->item[s->count];
	*item =
	    (struct suppression){.pattern = strndup(pattern, length), .file = file, .line = line};
	if (!item->pattern)
		return false;
	s->count++;
	return true;
}

/* False: `line` is the bad line; without text: out of memory. */
static bool add_line(struct suppressions *s, const char *file, struct suppression_line *line)
{
	static const char type[] = "leak:";
	const char *text = line->text;
	size_t length = line->length;

	while (length && isspace((unsigned char)*text)) {
		text++;
		length--;
	}
	while (length && isspace((unsigned char)text[length - 1]))
		length--;
	if (!length || *text == '#')
		return true;
	*line = (struct suppression_line){text, length, line->number};
	if (length <= strlen(type) || strncmp(text, type, strlen(type)) != 0)
		return false;
	if (add_pattern(s, text + strlen(type), length - strlen(type), file, line->number))
		return true;
	line->text = NULL;
	return false;
}

bool suppressions_add(struct suppressions *s, const char *text, size_t size, const char *file,
		      struct suppression_line *bad)
{
	for (size_t number = 1; size; number++) {
		const char *end = memchr(text, '\n', size);
		size_t length = end ? (size_t)(end - text) : size;

		*bad = (struct suppression_line){text, length, number};
		if (!add_line(s, file, bad))
			return false;
		length += end != NULL;
		text += length;
		size -= length;
	}
	return true;
}

void suppressions_free(struct suppressions *s)
{
	for (size_t i = 0; i < s->count; i++)
		free(s->item[i].pattern);
	free(s->item);
	*s = (struct suppressions){0};
}

/* ---- what was suppressed ---- */

#define UNKNOWN (UINT32_MAX - 1)
#define NOTHING UINT32_MAX

static uint32_t find_in_frame(const struct suppressions *s, const struct mayfly_trace *trace,
			      const struct mayfly_frame *frame)
{
	const struct mayfly_module *module = mayfly_trace_module(trace, frame->module);
	size_t found = SUPPRESSIONS_NONE;

	for (size_t i = 0; i < frame->locations && found == SUPPRESSIONS_NONE; i++) {
		found = suppressions_find(s, frame->location[i].function);
		if (found == SUPPRESSIONS_NONE)
			found = suppressions_find(s, frame->location[i].file);
	}
	if (found == SUPPRESSIONS_NONE && module)
		found = suppressions_find(s, module->path);
	return found == SUPPRESSIONS_NONE ? NOTHING : (uint32_t)found;
}

/* The suppression of each frame, looked up once. */
static uint32_t of_frame(const struct suppressions *s, const struct mayfly_trace *trace,
			 uint32_t *verdict, uint32_t index)
{
	const struct mayfly_frame *frame = mayfly_trace_frame(trace, index);

	if (!frame)
		return NOTHING;
	if (verdict[index] == UNKNOWN)
		verdict[index] = find_in_frame(s, trace, frame);
	return verdict[index];
}

static uint32_t of_stack(const struct suppressions *s, const struct mayfly_trace *trace,
			 uint32_t *verdict, uint32_t node)
{
	uint32_t found = NOTHING;

	while (node && found == NOTHING) {
		struct mayfly_node n = mayfly_trace_node(trace, node);

		found = of_frame(s, trace, verdict, n.frame);
		node = n.parent;
	}
	return found;
}

int suppressions_account(struct suppressions *s, const struct mayfly_trace *trace,
			 const struct mayfly_query *query)
{
	struct mayfly_query everything = *query;
	size_t frames = mayfly_trace_info(trace)->frames;
	uint32_t *verdict = malloc((frames + 1) * sizeof(*verdict));
	struct mayfly_node_sums *sums = NULL;
	int error = verdict ? 0 : MAYFLY_E_MEMORY;

	for (size_t i = 0; verdict && i < frames; i++)
		verdict[i] = UNKNOWN;
	everything.ignore = (struct mayfly_match){0};
	if (!error)
		error = mayfly_node_sums_run(trace, &everything, &sums);
	for (size_t i = 0; !error && i < sums->count; i++) {
		const struct mayfly_estimate *e = &sums->sum[i].self;
		uint32_t found = of_stack(s, trace, verdict, sums->sum[i].node);

		if (found == NOTHING)
			continue;
		s->item[found].stacks++;
		s->item[found].samples += e->samples;
		s->item[found].bytes += e->bytes.estimate;
		s->item[found].blocks += e->blocks.estimate;
	}
	mayfly_node_sums_free(sums);
	free(verdict);
	return error;
}

struct suppressed suppressions_sum(const struct suppressions *s)
{
	struct suppressed sum = {0};

	for (size_t i = 0; i < s->count; i++) {
		sum.stacks += s->item[i].stacks;
		sum.samples += s->item[i].samples;
		sum.bytes += s->item[i].bytes;
		sum.blocks += s->item[i].blocks;
		sum.patterns += s->item[i].stacks > 0;
	}
	return sum;
}

/* ---- JSON ---- */

static void put_suppression(struct json *j, const struct suppression *s)
{
	json_text(j, "pattern", s->pattern);
	json_text_or_null(j, "file", s->file);
	json_unsigned_or_null(j, "line", s->file, s->line);
	json_unsigned(j, "stacks", s->stacks);
	json_unsigned(j, "samples", s->samples);
	json_unsigned(j, "bytes", (uint64_t)s->bytes);
	json_unsigned(j, "blocks", (uint64_t)s->blocks);
}

void json_suppressed(struct json *j, const char *key, const struct suppressions *s)
{
	struct suppressed sum = suppressions_sum(s);

	json_object(j, key);
	json_unsigned(j, "stacks", sum.stacks);
	json_unsigned(j, "samples", sum.samples);
	json_unsigned(j, "bytes", (uint64_t)sum.bytes);
	json_unsigned(j, "blocks", (uint64_t)sum.blocks);
	JSON_ROWS_WHERE(j, "suppressions", i, i < s->count, s->item[i].stacks)
		put_suppression(j, &s->item[i]);
	json_end(j);
}
