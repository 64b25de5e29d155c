/* SPDX-License-Identifier: Apache-2.0 */
/* suppressions.c: reading lists, matching names, and counting what was suppressed. */
#include "cli/suppressions.h"

#include "cli/message.h"
#include "cli/open_trace.h"

#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Functions that call nothing of the program's, but for the constructors of shared libraries: what
 * they keep they keep once. (Those of the executable itself are called by libc.)
 */
const char suppressions_default[] =
    "# What libc, the dynamic loader and the C++ library keep until a program ends.\n"
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
    "# 71 KB for exceptions, by a function without a name\n"
    "leak:^_dl_init$\n"
    "leak:^_GLOBAL__sub_I_eh_alloc.cc$\n"
    "leak:eh_alloc.cc$\n";

/* ---- patterns ---- */

/* Where `length` bytes of a piece are found in the text from `from` on; NULL. */
static const char *find_piece(const char *from, const char *piece, size_t length)
{
	return memmem(from, strlen(from), piece, length);
}

/* The pieces between asterisks, each at the first place that is left to it; one that is tied to
 * the end stands there. */
static bool fits(const char *pattern, const char *text)
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
		if (fits(s->item[i].pattern, text))
			return i;
	return SUPPRESSIONS_NONE;
}

static int matches(void *context, const char *text)
{
	return suppressions_find(context, text) != SUPPRESSIONS_NONE;
}

struct mayfly_match suppressions_match(struct suppressions *s)
{
	if (!s->count)
		return (struct mayfly_match){0};
	return (struct mayfly_match){matches, s};
}

/* ---- lists ---- */

static bool add(struct suppressions *s, const char *pattern, size_t length, const char *file,
		size_t line)
{
	size_t room = s->room ? 2 * s->room : 32;
	struct suppression *item;

	if (s->count == s->room) {
		item = realloc(s->item, room * sizeof(*item));
		if (!item)
			return false;
		s->item = item;
		s->room = room;
	}
	item = &s->item[s->count];
	*item =
	    (struct suppression){.pattern = strndup(pattern, length), .file = file, .line = line};
	if (!item->pattern)
		return false;
	s->count++;
	return true;
}

static bool add_line(struct suppressions *s, const char *text, size_t length, const char *file,
		     size_t line)
{
	static const char type[] = "leak:";

	while (length && isspace((unsigned char)*text)) {
		text++;
		length--;
	}
	while (length && isspace((unsigned char)text[length - 1]))
		length--;
	if (!length || *text == '#')
		return true;
	if (length <= strlen(type) || strncmp(text, type, strlen(type)) != 0) {
		cli_error("%s:%zu: '%.*s' is no suppression of a leak; a line is leak:PATTERN or "
			  "# a comment",
			  file, line, (int)(length < 60 ? length : 60), text);
		return false;
	}
	if (add(s, text + strlen(type), length - strlen(type), file, line))
		return true;
	cli_error("out of memory");
	return false;
}

static bool add_text(struct suppressions *s, const char *text, size_t size, const char *file)
{
	size_t line = 0;

	while (size) {
		const char *end = memchr(text, '\n', size);
		size_t length = end ? (size_t)(end - text) : size;

		if (!add_line(s, text, length, file, ++line))
			return false;
		length += end != NULL;
		text += length;
		size -= length;
	}
	return true;
}

bool suppressions_add_default(struct suppressions *s)
{
	return add_text(s, suppressions_default, strlen(suppressions_default), NULL);
}

#define MOST_BYTES ((size_t)16 << 20)

bool suppressions_add_file(struct suppressions *s, const char *path)
{
	FILE *file = fopen(path, "re");
	char *text = NULL;
	size_t size = 0, room = 0;
	bool done;

	if (!file) {
		cli_error("%s: %s", path, strerror(errno));
		return false;
	}
	for (;;) {
		if (size == room) {
			char *bigger = room < MOST_BYTES ? realloc(text, room + 65536) : NULL;

			if (!bigger) {
				cli_error("%s: too large for a list of suppressions", path);
				break;
			}
			text = bigger;
			room += 65536;
		}
		size_t got = fread(text + size, 1, room - size, file);

		if (!got)
			break;
		size += got;
	}
	done = feof(file) && !ferror(file);
	if (ferror(file))
		cli_error("%s: %s", path, strerror(errno));
	done = done && add_text(s, text, size, path);
	fclose(file);
	free(text);
	return done;
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
