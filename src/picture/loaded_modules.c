/* SPDX-License-Identifier: Apache-2.0 */
/* The program and its libraries: see loaded_modules.h. */
#include "picture/loaded_modules.h"

#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"

#define MODULES_MOST 65536u
#define PAGE	     4096ull
#define LINKS_MOST   65536u
#define ENTRIES_MOST 1024u /* of a dynamic section */

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static void open_path(const struct memory_source *s, const char *path, char *to, size_t size)
{
	snprintf(to, size, "%s%s", s->root, path);
}

/* From the part of the file that this map shows. */
static bool find_bias(struct loaded_module *m, const struct process_map *map)
{
	for (size_t i = 0; i < m->symbols.parts; i++) {
		const struct data_part *p = &m->symbols.part[i];
		uint64_t offset = p->offset & ~(PAGE - 1);

		/* Two parts may have one page of the file. */
		if (map->writable && !p->writable)
			continue;
		if (map->offset < offset || map->offset >= p->offset + p->file_bytes)
			continue;
		m->bias = map->start - ((p->start & ~(PAGE - 1)) + (map->offset - offset));
		return true;
	}
	return false;
}

static bool is_known(const struct loaded_modules *l, const char *path)
{
	for (size_t i = 0; i < l->count; i++)
		if (!strcmp(l->module[i].path, path))
			return true;
	return false;
}

/* Files whose code is mapped; others are data. */
static bool has_code(const struct process_maps *maps, size_t from)
{
	for (size_t i = from; i < maps->count; i++)
		if (maps->map[i].executable && !strcmp(maps->map[i].path, maps->map[from].path))
			return true;
	return false;
}

static bool add_module(struct loaded_modules *l, struct memory_source *s, size_t map,
		       const struct debug_files *files, struct demangle *names)
{
	const char *path = s->maps.map[map].path;
	char there[PATH_MAX + 64];
	struct loaded_module m = {0};

	m.path = demangle_intern(names, path, strlen(path));
	if (!m.path || !array_reserve(&l->module, &l->capacity, l->count, sizeof(*l->module)))
		return false;
	m.name = base_name(m.path);
	m.is_libc = !strcmp(m.name, "libc.so.6") || !strncmp(m.name, "libc-2.", 7);
	open_path(s, path, there, sizeof(there));
	m.file = demangle_intern(names, there, strlen(there));
	if (!m.file)
		return false;
	if (s->maps.map[map].deleted || !data_symbols_read(&m.symbols, there, path, files, names))
		return true;
	if (!find_bias(&m, &s->maps.map[map])) {
		data_symbols_free(&m.symbols);
		return true;
	}
	l->module[l->count++] = m;
	return true;
}

/* ---- which C library, which allocator ---- */

/* "stable release version 2.36" or "release version 2.41" in a file. */
static unsigned int version_in(const char *path)
{
	static const char words[] = "release version 2.";
	struct elf_file f;
	unsigned int version = 0;
	const char *at;

	if (elf_file_open(&f, path) != ELF_FILE_OPEN)
		return 0;
	at = memmem(f.image, f.size, words, strlen(words));
	if (at && at + strlen(words) + 2 < (const char *)f.image + f.size &&
	    memmem(f.image, f.size, "GNU C Library", 13)) {
		at += strlen(words);
		for (; *at >= '0' && *at <= '9' && version < 100; at++)
			version = version * 10 + (unsigned int)(*at - '0');
		version += 200;
	}
	elf_file_close(&f);
	return version;
}

static void note_library(struct loaded_modules *l, const struct memory_source *s, const char *path)
{
	static const char *const known[] = {"libjemalloc", "libtcmalloc", "libmimalloc",
					    "libhoard",	   "libsnmalloc", "librpmalloc"};
	const char *name = base_name(path);
	char there[PATH_MAX + 64];

	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
		if (!strncmp(name, known[i], strlen(known[i])))
			l->other_malloc = known[i] + 3;
	l->musl |= !strncmp(name, "ld-musl-", 8);
	if (strcmp(name, "libc.so.6") != 0 && strncmp(name, "libc-2.", 7) != 0)
		return;
	open_path(s, path, there, sizeof(there));
	if (!l->libc_version)
		l->libc_version = version_in(there);
}

/* ---- the loader's numbers ---- */

/* The list of loaded objects begins where the program's dynamic section says. */
static uint64_t first_link(struct loaded_modules *l, struct memory_source *s)
{
	uint64_t at = l->count ? l->module[0].symbols.dynamic : 0;

	if (!at)
		return 0;
	at += l->module[0].bias;
	for (unsigned int i = 0; i < ENTRIES_MOST; i++, at += 16) {
		uint64_t tag = memory_source_word(s, at), debug;

		if (tag == DT_NULL)
			return 0;
		if (tag != DT_DEBUG)
			continue;
		debug = memory_source_word(s, at + 8);
		return debug ? memory_source_word(s, debug + 8) : 0;
	}
	return 0;
}

/* struct link_map: l_addr, l_name, l_ld, l_next. Objects get their numbers in this order. */
static void number_tls(struct loaded_modules *l, struct memory_source *s)
{
	uint64_t link = first_link(l, s), number = 0;

	if (!link && l->count && l->module[0].symbols.tls_bytes)
		l->module[0].tls_number = 1;
	for (unsigned int i = 0; link && i < LINKS_MOST; i++) {
		uint64_t bias = memory_source_word(s, link);

		for (size_t k = 0; k < l->count; k++)
			if (l->module[k].bias == bias && l->module[k].symbols.tls_bytes)
				l->module[k].tls_number = ++number;
		link = memory_source_word(s, link + 24);
	}
}

bool loaded_modules_find(struct loaded_modules *l, struct memory_source *s,
			 const struct debug_files *files, struct demangle *names)
{
	*l = (struct loaded_modules){0};
	for (size_t i = 0; i < s->maps.count && l->count < MODULES_MOST; i++) {
		const char *path = s->maps.map[i].path;

		if (*path != '/' || is_known(l, path) ||
		    (i && !strcmp(path, s->maps.map[i - 1].path)))
			continue;
		/* A core file leaves code out. */
		if (s->pid && !has_code(&s->maps, i))
			continue;
		note_library(l, s, path);
		if (!add_module(l, s, i, files, names))
			return false;
	}
	number_tls(l, s);
	if (!l->libc_version && l->count) {
		char there[PATH_MAX + 64];

		open_path(s, l->module[0].path, there, sizeof(there));
		l->libc_version = version_in(there);
	}
	return true;
}

/* ---- what a core file leaves out ---- */

static bool read_path(const struct memory_source *s, const char *path, uint64_t offset, void *to,
		      size_t bytes)
{
	char there[PATH_MAX + 64];
	ssize_t n;
	int fd;

	open_path(s, path, there, sizeof(there));
	fd = open(there, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = pread(fd, to, bytes, (off_t)offset);
	close(fd);
	return n == (ssize_t)bytes;
}

bool loaded_modules_read(const struct loaded_modules *l, struct memory_source *s, uint64_t address,
			 void *to, size_t bytes)
{
	if (memory_source_read(s, address, to, bytes))
		return true;
	for (size_t i = 0; !s->pid && i < l->count; i++) {
		const struct loaded_module *m = &l->module[i];

		for (size_t k = 0; k < m->symbols.parts; k++) {
			const struct data_part *p = &m->symbols.part[k];
			uint64_t at = address - m->bias - p->start;

			if (!p->writable && at < p->file_bytes && bytes <= p->file_bytes - at)
				return read_path(s, m->path, p->offset + at, to, bytes);
		}
	}
	return false;
}

void loaded_modules_free(struct loaded_modules *l)
{
	for (size_t i = 0; i < l->count; i++)
		data_symbols_free(&l->module[i].symbols);
	free(l->module);
	*l = (struct loaded_modules){0};
}
