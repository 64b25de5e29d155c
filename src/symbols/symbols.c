/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Symbols of one object, from its files (the object itself, its separate debug file): first symbol
 * tables, then DWARF; where both have an answer, DWARF's is preferred.
 *
 *   addresses, any order, with repeats --> entry[] sorted --> address[] sorted, distinct
 *                                                              |            |
 *                                       elf_file_match: match[]    dwarf_index_resolve
 *                                                              v            v
 *                                       found(), once for each entry of that address
 *
 * Processes that run one after the other have the same objects and mostly the same addresses. So
 * answers are kept (symbol_cache.h), and some objects stay open, as opening one again inflates its
 * compressed sections again. For later sessions, answers from DWARF are in files (names_file.h).
 */
#include "symbols/symbols.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "symbols/debug_server.h"
#include "symbols/demangle.h"
#include "symbols/dwarf_index.h"
#include "symbols/elf_file.h"
#include "symbols/names_file.h"
#include "symbols/symbol_cache.h"

#define LONGEST_WHY 1024
#define LONGEST_KEY 8192
#define MOST_ID	    64 /* bytes of a build-id */
/* Objects that stay open, and the bytes of inflated sections that they may have together. */
#define MOST_OBJECTS  16
#define MOST_INFLATED ((size_t)32 << 20)

struct object {
	struct elf_file main;  /* as loaded; not open if it is gone or was replaced */
	struct elf_file debug; /* separate debug file */
	struct elf_file alt;   /* dwz: what several debug files share */
	struct elf_file inner; /* small symbol table inside main */
	const char *path;      /* of main */
	const char *key;       /* of its content: path and build-id; NULL: not open */
	struct stat seen;      /* main, when it was opened */
	uint64_t used;	       /* a number that grows with each use */
	/* Its answers are kept in a file for this content; NULL: they are not. */
	char *content;
	uint8_t id[MOST_ID];
	size_t id_length;
	bool unsaved; /* there are answers that the file does not have */
};

struct symbols {
	struct demangle *names;
	struct debug_files files;
	char **debug_dir;
	char *cache_folder; /* NULL: nothing is kept for later sessions */
	struct symbol_cache cache;
	struct object object[MOST_OBJECTS];
	uint64_t uses;
};

struct entry {
	uint64_t address;
	size_t index;
};

/* The state of one symbols_resolve(). */
struct request {
	struct symbols *s;
	const char *key; /* of the object, for the cache; NULL: no memory */
	struct entry *entry;
	size_t count;
	uint64_t *address; /* distinct */
	size_t *first;	   /* for each address its first entry[]; one more at the end */
	size_t distinct;
	struct elf_match *match;
	bool *answered;
	size_t named;
	symbols_found *found;
	void *context;
};

static bool take_options(struct symbols *s, const struct symbols_options *options)
{
	struct debug_dirs *dirs = &s->files.dirs;

	s->files.server = options->server;
	if (options->cache_folder) {
		s->cache_folder = strdup(options->cache_folder);
		if (!s->cache_folder)
			return false;
	}
	s->debug_dir = calloc(options->debug_dirs + 1, sizeof(*s->debug_dir));
	if (!s->debug_dir)
		return false;
	dirs->dir = (const char *const *)s->debug_dir;
	for (; dirs->count < options->debug_dirs; dirs->count++) {
		s->debug_dir[dirs->count] = strdup(options->debug_dir[dirs->count]);
		if (!s->debug_dir[dirs->count])
			return false;
	}
	return true;
}

struct symbols *symbols_new(const struct symbols_options *options)
{
	struct symbols *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->names = demangle_new();
	if (!s->names || (options && !take_options(s, options))) {
		symbols_free(s);
		return NULL;
	}
	return s;
}

static struct names_file names_file_of(const struct symbols *s, const struct object *o)
{
	return (struct names_file){s->cache_folder, o->id, o->id_length, o->content};
}

static void object_close(struct symbols *s, struct object *o)
{
	struct names_file file = names_file_of(s, o);

	if (o->unsaved && o->key)
		names_file_write(&file, &s->cache, o->key);
	free(o->content);
	elf_file_close(&o->inner);
	elf_file_close(&o->alt);
	elf_file_close(&o->debug);
	elf_file_close(&o->main);
	*o = (struct object){0};
}

void symbols_free(struct symbols *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < MOST_OBJECTS; i++)
		object_close(s, &s->object[i]);
	symbol_cache_free(&s->cache);
	demangle_free(s->names);
	free(s->cache_folder);
	for (size_t i = 0; s->debug_dir && s->debug_dir[i]; i++)
		free(s->debug_dir[i]);
	free(s->debug_dir);
	free(s);
}

/* ---- files ---- */

static bool is_vdso(const char *path)
{
	return !strcmp(path, "[vdso]") || !strcmp(path, "linux-vdso.so.1");
}

static const char *reason(struct symbols *s, const char *path, const char *what)
{
	char text[LONGEST_WHY];

	snprintf(text, sizeof(text), "%s %s", path, what);
	return demangle_intern(s->names, text, strlen(text));
}

static const char *open_as_loaded(struct symbols *s, struct object *o, const uint8_t *id,
				  size_t length)
{
	enum elf_file_status status =
	    is_vdso(o->path) ? elf_file_open_vdso(&o->main) : elf_file_open(&o->main, o->path);

	switch (status) {
	case ELF_FILE_OPEN:
		break;
	case ELF_FILE_MISSING:
		return reason(s, o->path, "is gone");
	case ELF_FILE_UNREADABLE:
		return reason(s, o->path, "cannot be read");
	case ELF_FILE_NOT_ELF:
		return reason(s, o->path, "is not an ELF file");
	}
	if (length && !elf_file_has_build_id(&o->main, id, length)) {
		elf_file_close(&o->main);
		return reason(s, o->path, "has changed since the run");
	}
	return NULL;
}

static const char *open_main(struct symbols *s, struct object *o, const uint8_t *id, size_t length)
{
	const char *why = open_as_loaded(s, o, id, length);
	char found[PATH_MAX];

	if (!why || !length || is_vdso(o->path) ||
	    !elf_file_open_elsewhere(&o->main, &s->files.dirs, o->path, id, length, found))
		return why;
	o->path = demangle_intern(s->names, found, strlen(found));
	if (o->path)
		return NULL;
	elf_file_close(&o->main);
	return "out of memory";
}

/* Opens the files that exist. Returns NULL, or the reason why there are none. */
static const char *open_object(struct symbols *s, struct object *o, const uint8_t *id,
			       size_t length)
{
	const char *path = o->path, *why = open_main(s, o, id, length);
	const struct debug_files *files = &s->files;

	if (!why && elf_file_has_dwarf(&o->main))
		return NULL;
	if (!length) {
		id = o->main.build_id;
		length = o->main.build_id_length;
	}
	if (length && elf_file_open_by_build_id(&o->debug, &files->dirs, id, length))
		return NULL;
	if (!is_vdso(path) &&
	    ((!why && elf_file_open_debuglink(&o->debug, &o->main, o->path, &files->dirs)) ||
	     debug_server_open(files->server, &o->debug, path, id, length)))
		return NULL;
	return why;
}

/* ---- objects that stay open ---- */

/* Names one content of one file. Without a build-id the file's time has to do. NULL: no memory. */
static const char *content_key(struct symbols *s, const char *path, const struct stat *st,
			       const uint8_t *id, size_t length)
{
	char text[LONGEST_KEY];
	int used = snprintf(text, sizeof(text), "%s\n", path);

	if (used < 0 || (size_t)used + 2 * length + 128 > sizeof(text))
		return NULL;
	for (size_t i = 0; i < length; i++)
		used += sprintf(text + used, "%02x", id[i]);
	if (!length)
		used +=
		    sprintf(text + used, "%llx %llx %llx %llx.%lx", (unsigned long long)st->st_dev,
			    (unsigned long long)st->st_ino, (unsigned long long)st->st_size,
			    (unsigned long long)st->st_mtim.tv_sec, st->st_mtim.tv_nsec);
	return demangle_intern(s->names, text, (size_t)used);
}

static size_t inflated_bytes(const struct object *o)
{
	return o->main.inflated_bytes + o->debug.inflated_bytes + o->alt.inflated_bytes;
}

static bool is_same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* The place of this object if it is still open, otherwise an empty place. A mapped file must not be
 * read after it was changed: pages beyond its new end would be SIGBUS. */
static struct object *object_place(struct symbols *s, const char *key, const struct stat *st)
{
	struct object *oldest = &s->object[0];

	for (size_t i = 0; i < MOST_OBJECTS; i++) {
		struct object *o = &s->object[i];

		if (o->key && o->key == key && is_same_file(&o->seen, st))
			return o;
		if (o->key == key)
			object_close(s, o);
		if (o->used < oldest->used)
			oldest = o;
	}
	object_close(s, oldest);
	return oldest;
}

/* Closes those that were used least recently until the others are small together. */
static void close_large_objects(struct symbols *s)
{
	for (;;) {
		struct object *oldest = NULL;
		size_t bytes = 0;

		for (size_t i = 0; i < MOST_OBJECTS; i++) {
			struct object *o = &s->object[i];

			bytes += inflated_bytes(o);
			if (inflated_bytes(o) && (!oldest || o->used < oldest->used))
				oldest = o;
		}
		if (bytes <= MOST_INFLATED)
			return;
		object_close(s, oldest);
	}
}

/* ---- addresses ---- */

static int compare_entries(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	return x->index < y->index ? -1 : x->index > y->index;
}

static void request_free(struct request *r)
{
	free(r->entry);
	free(r->address);
	free(r->first);
	free(r->match);
	free(r->answered);
}

/* Answers what is known; the others become entries. */
static bool request_new(struct request *r, const uint64_t *addresses, size_t count)
{
	r->entry = calloc(count, sizeof(*r->entry));
	r->address = calloc(count, sizeof(*r->address));
	r->first = calloc(count + 1, sizeof(*r->first));
	r->match = calloc(count, sizeof(*r->match));
	r->answered = calloc(count, sizeof(*r->answered));
	if (!r->entry || !r->address || !r->first || !r->match || !r->answered)
		return false;
	for (size_t i = 0; i < count; i++) {
		const struct symbol_slot *known =
		    r->key ? symbol_cache_find(&r->s->cache, r->key, addresses[i]) : NULL;

		if (known) {
			r->named += known->list[0].function != NULL;
			r->found(r->context, i, known->list, known->count);
		} else {
			r->entry[r->count++] = (struct entry){.address = addresses[i], .index = i};
		}
	}
	qsort(r->entry, r->count, sizeof(*r->entry), compare_entries);
	for (size_t i = 0; i < r->count; i++) {
		if (i && r->entry[i].address == r->entry[i - 1].address)
			continue;
		r->address[r->distinct] = r->entry[i].address;
		r->first[r->distinct++] = i;
	}
	r->first[r->distinct] = r->count;
	return true;
}

/* ---- answers ---- */

/* The name from the symbol table, without its version. */
static const char *match_name(struct symbols *s, const struct elf_match *m)
{
	size_t length;
	const char *name;

	if (!m->name)
		return NULL;
	length = strcspn(m->name, "@");
	if (!m->name[length] || !length)
		return demangle_name(s->names, m->name);
	name = demangle_intern(s->names, m->name, length);
	return name ? demangle_name(s->names, name) : NULL;
}

/*
 * In C, a library's source often names a function __libc_x or __GI_x that it exports as x: then the
 * symbol table has the better name. This does not hold for f.cold instead of f.
 */
static bool prefer_match(const char *name, const struct elf_match *m)
{
	if (!m->name)
		return false;
	if (!name)
		return true;
	return name[0] == '_' && strncmp(m->name, "_Z", 2) && strncmp(m->name, "_R", 2) &&
	       strncmp(m->name, name, strlen(name));
}

static void symbols_give(struct request *r, size_t i, const struct symbol *list, size_t count)
{
	r->answered[i] = true;
	if (r->key)
		symbol_cache_put(&r->s->cache, r->key, r->address[i], list, count);
	for (size_t e = r->first[i]; e < r->first[i + 1]; e++) {
		r->named += list[0].function != NULL;
		r->found(r->context, r->entry[e].index, list, count);
	}
}

static void dwarf_found(void *context, size_t i, const struct symbol *list, size_t count)
{
	struct request *r = context;
	const struct elf_match *m = &r->match[i];
	const char *name = list[count - 1].function;
	struct symbol *copy;

	if (r->answered[i])
		return;
	if (!prefer_match(name, m)) {
		symbols_give(r, i, list, count);
		return;
	}
	copy = malloc(count * sizeof(*copy));
	if (!copy) {
		symbols_give(r, i, list, count);
		return;
	}
	memcpy(copy, list, count * sizeof(*copy));
	name = match_name(r->s, m);
	if (name)
		copy[count - 1].function = name;
	symbols_give(r, i, copy, count);
	free(copy);
}

static void match_symbols(struct request *r, struct object *o)
{
	bool table = false;

	if (o->main.elf)
		table = elf_file_match(&o->main, SHT_SYMTAB, r->address, r->distinct, r->match);
	if (o->debug.elf && !table)
		table = elf_file_match(&o->debug, SHT_SYMTAB, r->address, r->distinct, r->match);
	if (o->main.elf && !table && (o->inner.elf || elf_file_open_inner(&o->inner, &o->main)))
		elf_file_match(&o->inner, SHT_SYMTAB, r->address, r->distinct, r->match);
	if (o->main.elf)
		elf_file_match(&o->main, SHT_DYNSYM, r->address, r->distinct, r->match);
	elf_file_match_end(r->address, r->distinct, r->match);
}

/* Blocks of a signal handler are not those of the code that it interrupts. The caller has subtracted 1. */
static void answer_signals(struct request *r, const struct object *o)
{
	const struct symbol symbol = {.function = "[signal handler]"};

	for (size_t i = 0; i < r->distinct; i++)
		if (elf_file_returns_from_signal(&o->main, r->address[i] + 1))
			symbols_give(r, i, &symbol, 1);
}

static void answer_rest(struct request *r)
{
	for (size_t i = 0; i < r->distinct; i++) {
		struct symbol symbol = {0};

		if (r->answered[i])
			continue;
		symbol.function = match_name(r->s, &r->match[i]);
		symbols_give(r, i, &symbol, 1);
	}
}

/* Takes off the addresses that are known by now. */
static void answer_known(struct request *r)
{
	size_t distinct = 0, count = 0;

	for (size_t i = 0; i < r->distinct; i++) {
		const struct symbol_slot *known =
		    symbol_cache_find(&r->s->cache, r->key, r->address[i]);
		size_t e = r->first[i], end = r->first[i + 1];

		if (known) {
			for (; e < end; e++) {
				r->named += known->list[0].function != NULL;
				r->found(r->context, r->entry[e].index, known->list, known->count);
			}
			continue;
		}
		r->address[distinct] = r->address[i];
		r->first[distinct++] = count;
		while (e < end)
			r->entry[count++] = r->entry[e++];
	}
	r->first[distinct] = count;
	r->distinct = distinct;
	r->count = count;
}

/* Takes the answers of earlier sessions, if they were from the same files. Where there are others
 * beside them, that cannot be told. */
static void read_names_file(struct request *r, struct object *o, const struct elf_file *dwarf,
			    const uint8_t *id, size_t length)
{
	struct symbols *s = r->s;
	struct names_file file;
	char text[64];

	if (!length) {
		id = o->main.build_id;
		length = o->main.build_id_length;
	}
	if (!s->cache_folder || !r->key || !dwarf->elf || !length || length > MOST_ID ||
	    elf_file_is_split(dwarf))
		return;
	snprintf(text, sizeof(text), "%zu %zu", o->main.size, o->debug.size);
	o->content = strdup(text);
	if (!o->content)
		return;
	memcpy(o->id, id, length);
	o->id_length = length;
	file = names_file_of(s, o);
	names_file_read(&file, s->names, &s->cache, r->key);
	answer_known(r);
}

static void release_pages(struct object *o)
{
	elf_file_release_pages(&o->main);
	elf_file_release_pages(&o->debug);
	elf_file_release_pages(&o->alt);
}

/* Reads the object's files for the entries. Returns NULL, or why there are none. */
static const char *answer_entries(struct request *r, const char *path, const struct stat *st,
				  const uint8_t *id, size_t id_length)
{
	struct symbols *s = r->s;
	struct object *o = object_place(s, r->key, st);
	const char *why = NULL;
	struct elf_file *dwarf;

	if (!o->key) {
		o->path = path;
		why = open_object(s, o, id, id_length);
	}
	dwarf = o->main.elf && elf_file_has_dwarf(&o->main) ? &o->main : &o->debug;
	if (!why && !o->key)
		read_names_file(r, o, dwarf, id, id_length);
	if (!why && r->count) {
		match_symbols(r, o);
		o->unsaved = o->content != NULL;
		answer_signals(r, o);
		if (dwarf->elf)
			dwarf_index_resolve(dwarf, &o->alt, o->path, &s->files, s->names,
					    r->address, r->distinct, dwarf_found, r);
		answer_rest(r);
	}
	if (why || !r->key) {
		object_close(s, o);
		return why;
	}
	if (!o->key) {
		if (o->path == path)
			o->path = demangle_intern(s->names, path, strlen(path));
		o->key = o->path ? r->key : NULL;
		o->seen = *st;
	}
	o->used = ++s->uses;
	release_pages(o);
	if (!o->key)
		object_close(s, o);
	close_large_objects(s);
	return NULL;
}

size_t symbols_resolve(struct symbols *s, const char *path, const uint8_t *build_id,
		       size_t build_id_length, const uint64_t *addresses, size_t count,
		       symbols_found *found, void *context, const char **why)
{
	struct request r = {.s = s, .found = found, .context = context};
	const struct symbol unknown = {0};
	const char *problem = NULL;
	struct stat st = {0};

	*why = NULL;
	if (!count)
		return 0;
	if (!build_id)
		build_id_length = 0;
	if (stat(path, &st))
		st = (struct stat){0};
	r.key = content_key(s, path, &st, build_id, build_id_length);
	if (!request_new(&r, addresses, count)) {
		for (size_t i = 0; i < count; i++)
			found(context, i, &unknown, 1);
		*why = "out of memory";
	} else if (r.count) {
		problem = answer_entries(&r, path, &st, build_id, build_id_length);
		for (size_t i = 0; problem && i < r.count; i++)
			found(context, r.entry[i].index, &unknown, 1);
		*why = problem;
	}
	request_free(&r);
	return r.named;
}
