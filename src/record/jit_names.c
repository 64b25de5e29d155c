/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of compiled code: see jit_names.h. A line of the map is
 *
 *	3ef414c0 398 JS:*build /srv/app/server.js:12:16
 *	start    size name
 *
 * in hexadecimal digits. Code may be moved and its place used again: a later line replaces what an
 * earlier one said. The map is another program's, so nothing in it is trusted.
 */
#include "record/jit_names.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define LARGEST_MAP  ((off_t)1 << 30)
#define LONGEST_NAME 4096u

struct jit_frame {
	uint64_t address;
	uint32_t frame;
	uint32_t length;
	const char *name; /* in the map; NULL: none */
};

struct jit_map {
	const char *text;
	size_t size;
};

static int compare_addresses(const void *a, const void *b)
{
	const struct jit_frame *x = a, *y = b;

	return x->address < y->address ? -1 : x->address > y->address;
}

/* The code frames without name and module, by address. NULL: out of memory. */
static struct jit_frame *frames_outside(const struct recording *r, size_t *count)
{
	struct jit_frame *list = malloc((r->frames + 1) * sizeof(*list));

	*count = 0;
	if (!list)
		return NULL;
	for (size_t i = 0; i < r->frames; i++) {
		const struct recording_frame *f = &r->frame[i];

		if (f->kind == MAYFLY_FRAME_CODE && f->module == RECORDING_NONE && !f->locations)
			list[(*count)++] = (struct jit_frame){f->address, (uint32_t)i, 0, NULL};
	}
	qsort(list, *count, sizeof(*list), compare_addresses);
	return list;
}

/* A process that had the same number before may have left a file, and anybody may write to /tmp. */
static bool map_is_ours(const struct stat *st, int64_t start_real_ns)
{
	return S_ISREG(st->st_mode) && st->st_size > 0 && st->st_size <= LARGEST_MAP &&
	       (st->st_uid == geteuid() || st->st_uid == 0 || geteuid() == 0) &&
	       !(st->st_mode & S_IWOTH) && st->st_mtim.tv_sec >= start_real_ns / 1000000000;
}

static bool open_jit_map(struct jit_map *map, const struct recording *r, const char *folder)
{
	char path[256];
	struct stat st;
	void *text;
	int fd;

	if ((size_t)snprintf(path, sizeof(path), "%s/perf-%u.map", folder, r->info.pid) >=
	    sizeof(path))
		return false;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW);
	if (fd < 0)
		return false;
	text = MAP_FAILED;
	if (!fstat(fd, &st) && map_is_ours(&st, r->info.start_real_ns)) {
		/* Read, not mapped: its owner may cut it meanwhile. */
		map->size = (size_t)st.st_size;
		text = mmap(NULL, map->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			    -1, 0);
	}
	if (text != MAP_FAILED) {
		size_t used = 0;
		ssize_t n = 1;

		for (; used < map->size && n > 0; used += n > 0 ? (size_t)n : 0)
			n = read(fd, (char *)text + used, map->size - used);
	}
	close(fd);
	map->text = text;
	return text != MAP_FAILED;
}

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

static void take_map_line(struct jit_frame *list, size_t count, const char *line, const char *end)
{
	uint64_t start, size;
	size_t low = 0, high = count;

	if (!take_hex(&line, end, &start) || !take_hex(&line, end, &size) || line == end)
		return;
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (list[middle].address < start)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < count && list[low].address - start < size; low++) {
		list[low].name = line;
		list[low].length =
		    (uint32_t)(end - line < LONGEST_NAME ? end - line : LONGEST_NAME);
	}
}

static void read_map_lines(struct jit_frame *list, size_t count, const struct jit_map *map)
{
	const char *line = map->text, *end = map->text + map->size;

	while (line < end) {
		const char *stop = memchr(line, '\n', (size_t)(end - line));

		if (!stop)
			stop = end;
		take_map_line(list, count, line, stop);
		line = stop + 1;
	}
}

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

/* What V8 writes: "JS:*name file:line:column" (the sign is how well it is compiled). */
static bool take_v8_name(struct recording *r, const char *name, size_t length,
			 struct recording_location *l)
{
	static const char *const kinds[] = {"JS:", "LazyCompile:", "Function:", "Eval:", "Script:"};
	size_t skip = 0, end, space;
	uint32_t column, line;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds) && !skip; i++) {
		if (length > strlen(kinds[i]) && !strncmp(name, kinds[i], strlen(kinds[i])))
			skip = strlen(kinds[i]);
	}
	if (!skip)
		return false;
	skip += strchr("*~^+'", name[skip]) != NULL;
	end = before_number(name, length, &column);
	end = end ? before_number(name, end, &line) : 0;
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

static bool name_jit_frame(struct recording *r, const struct jit_frame *f)
{
	struct recording_location l = {0};
	uint32_t at;

	if (!take_v8_name(r, f->name, f->length, &l))
		l.function = recording_string(r, f->name, f->length);
	if (l.function == RECORDING_NONE || l.file == RECORDING_NONE)
		return false;
	at = recording_location(r, &l);
	if (at == RECORDING_NONE)
		return false;
	r->frame[f->frame].first_location = at;
	r->frame[f->frame].locations = 1;
	return true;
}

int jit_names_add(struct recording *r, const char *folder)
{
	struct jit_frame *list;
	struct jit_map map;
	size_t count;
	int error = 0;

	if (!r->info.pid || !open_jit_map(&map, r, folder))
		return 0;
	list = frames_outside(r, &count);
	if (list)
		read_map_lines(list, count, &map);
	else
		error = MAYFLY_E_MEMORY;
	for (size_t i = 0; list && !error && i < count; i++) {
		if (list[i].name && !name_jit_frame(r, &list[i]))
			error = MAYFLY_E_MEMORY;
	}
	free(list);
	munmap((void *)(uintptr_t)map.text, map.size);
	return error;
}
