/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of compiled code: see jit_names.h. A line of the map is
 *
 *	3ef414c0 398 JS:*build /srv/app/server.js:12:16
 *	start    size name
 *
 * in hexadecimal digits. Code may be moved and its place used again: a later line replaces what an
 * earlier one said, and so it is in jit-PID.dump (jit_dump.h). The files are another program's, so
 * nothing in them is trusted. They are read from their ends, so that each frame is named once: were
 * every line about all frames, a large file would take hours otherwise.
 */
#include "record/jit_names.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/search.h"
#include "record/jit_dump.h"

#define LONGEST_NAME 4096

struct jit_frame {
	uint64_t address;
	uint32_t frame;
	struct jit_code code; /* in a file; name NULL: none */
};

struct jit_list {
	struct jit_frame *frame; /* by address */
	size_t *next; /* itself; or, of a named one, one nearer to the next without a name */
	size_t count;
	struct jit_code *code; /* of jit-PID.dump */
	size_t codes, room;
	bool memory; /* there was enough */
};

static int compare_addresses(const void *a, const void *b)
{
	const struct jit_frame *x = a, *y = b;

	return x->address < y->address ? -1 : x->address > y->address;
}

/* The code frames without name and module. False: out of memory. */
static bool frames_outside(const struct recording *r, struct jit_list *list)
{
	list->frame = malloc((r->frames + 1) * sizeof(*list->frame));
	list->next = malloc((r->frames + 1) * sizeof(*list->next));
	if (!list->frame || !list->next)
		return false;
	for (size_t i = 0; i < r->frames; i++) {
		const struct recording_frame *f = &r->frame[i];

		if (f->kind == MAYFLY_FRAME_CODE && f->module == RECORDING_NONE && !f->locations)
			list->frame[list->count++] =
			    (struct jit_frame){.address = f->address, .frame = (uint32_t)i};
	}
	qsort(list->frame, list->count, sizeof(*list->frame), compare_addresses);
	for (size_t i = 0; i <= list->count; i++)
		list->next[i] = i;
	return true;
}

/* The first frame at or after this address. */
static size_t first_frame(const struct jit_list *list, uint64_t start)
{
	return FIRST_THAT(i, 0, list->count, list->frame[i].address >= start);
}

/* The first frame from this one on that has no name yet. */
static size_t first_unnamed(struct jit_list *list, size_t i)
{
	while (list->next[i] != i)
		i = list->next[i] = list->next[list->next[i]];
	return i;
}

/* Names the frames in it that no later code has named. */
static void name_by(struct jit_list *list, const struct jit_code *code)
{
	size_t i = first_unnamed(list, first_frame(list, code->start));

	while (i < list->count && list->frame[i].address - code->start < code->size) {
		list->frame[i].code = *code;
		list->next[i] = i + 1;
		i = first_unnamed(list, i);
	}
}

/* ---- perf-PID.map ---- */

static bool take_hex(const char **at, const char *end, uint64_t *number)
{
	const char *begin = *at;

	*number = 0;
	if (end - *at > 2 && (*at)[0] == '0' && ((*at)[1] == 'x' || (*at)[1] == 'X'))
		*at += 2;
	for (; *at < end && isxdigit((unsigned char)**at); ++*at) {
		int c = tolower((unsigned char)**at);

		if (*number >> 60)
			return false;
		*number = *number << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
	}
	if (*at == begin || *at == end || **at != ' ')
		return false;
	while (*at < end && **at == ' ')
		++*at;
	return true;
}

static void take_map_line(struct jit_list *list, const char *line, const char *end)
{
	struct jit_code code = {0};

	if (!take_hex(&line, end, &code.start) || !take_hex(&line, end, &code.size) || line == end)
		return;
	code.name = line;
	code.name_length = (size_t)(end - line < LONGEST_NAME ? end - line : LONGEST_NAME);
	name_by(list, &code);
}

static void read_map(struct jit_list *list, const char *map, size_t size)
{
	const char *end = map + size, *line;

	for (; end > map; end = line - 1) {
		const char *before = memrchr(map, '\n', (size_t)(end - map));

		line = before ? before + 1 : map;
		take_map_line(list, line, end);
		if (!before)
			break;
	}
}

/* ---- jit-PID.dump ---- */

static void take_code(void *context, const struct jit_code *code)
{
	struct jit_list *list = context;

	list->memory = list->memory &&
		       array_reserve(&list->code, &list->room, list->codes, sizeof(*list->code));
	if (list->memory)
		list->code[list->codes++] = *code;
}

/* False: no memory. */
static bool read_dump(struct jit_list *list, const uint8_t *dump, size_t size)
{
	list->memory = true;
	if (!jit_dump_read(dump, size, take_code, list) || !list->memory)
		return false;
	while (list->codes)
		name_by(list, &list->code[--list->codes]);
	return true;
}

/* ---- names ---- */

/* The end of the digits before `end`, and of the ':' before them: of ":12" in "file:12". 0: none. */
static size_t before_number(const char *text, size_t end, uint32_t *number)
{
	size_t digits = end;

	while (digits > 0 && isdigit((unsigned char)text[digits - 1]))
		digits--;
	if (digits == end || digits < 2 || end - digits > 9 || text[digits - 1] != ':')
		return 0;
	*number = 0;
	for (size_t i = digits; i < end; i++)
		*number = *number * 10 + (uint32_t)(text[i] - '0');
	return digits - 1;
}

/* What V8 writes: "JS:*name file:line:column" (the sign is how well it is compiled); before node 20
 * "LazyCompile:*name file:line". */
static bool take_v8_name(struct recording *r, const char *name, size_t length,
			 struct recording_location *l)
{
	static const char *const kinds[] = {"JS:", "LazyCompile:", "Function:", "Eval:", "Script:"};
	size_t skip = 0, end, before_line, space;
	uint32_t line;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds) && !skip; i++) {
		if (length > strlen(kinds[i]) && !strncmp(name, kinds[i], strlen(kinds[i])))
			skip = strlen(kinds[i]);
	}
	if (!skip)
		return false;
	skip += strchr("*~^+'", name[skip]) != NULL;
	end = before_number(name, length, &line);
	before_line = end ? before_number(name, end, &line) : 0;
	if (before_line)
		end = before_line;
	for (space = skip; space < end && name[space] != ' ';)
		space++;
	if (space >= end)
		return false;
	l->function = space > skip ? recording_string(r, name + skip, space - skip)
				   : recording_string(r, "(anonymous)", 11);
	l->file = recording_string(r, name + space + 1, end - space - 1);
	l->line = line;
	return true;
}

static void name_jit_frame(struct recording *r, const struct jit_frame *f)
{
	struct recording_location l = {0};
	struct jit_line line;

	/* Lines of V8 are not used: many are of its bytecode, and file names are of freed memory. */
	if (!take_v8_name(r, f->code.name, f->code.name_length, &l)) {
		l.function = recording_string(r, f->code.name, f->code.name_length);
		if (jit_code_line(&f->code, f->address, &line)) {
			l.file = recording_string(r, line.file, line.file_length);
			l.line = line.line;
		}
	}
	r->frame[f->frame].first_location = recording_location(r, &l);
	r->frame[f->frame].locations = !r->failed;
}

/* A reader puts the named frames outside of all modules into one: the frames have been written. */
static bool name_frames(struct recording *r, const struct jit_list *list)
{
	struct recording_module module = {.to_ns = INT64_MAX};

	for (size_t i = 0; i < list->count; i++) {
		if (!list->frame[i].code.name)
			continue;
		name_jit_frame(r, &list->frame[i]);
		module.path = recording_name(r, TRACE_JIT_MODULE);
	}
	if (module.path)
		recording_module(r, &module);
	return !r->failed;
}

int jit_names_add(struct recording *r, const struct jit_files *files)
{
	size_t map_size = 0, dump_size = 0;
	char *map = jit_files_read(files, JIT_MAP, r->info.start_real_ns, &map_size);
	char *dump = jit_files_read(files, JIT_DUMP, r->info.start_real_ns, &dump_size);
	struct jit_list list = {0};
	bool memory = true;

	if (map || dump)
		memory = frames_outside(r, &list);
	/* First the one that has lines, too. */
	if (memory && dump)
		memory = read_dump(&list, (const uint8_t *)dump, dump_size);
	if (memory && map)
		read_map(&list, map, map_size);
	if (memory)
		memory = name_frames(r, &list);
	free(list.frame);
	free(list.next);
	free(list.code);
	free(map);
	free(dump);
	return memory ? 0 : MAYFLY_E_MEMORY;
}
