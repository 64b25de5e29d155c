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
 */
#include "symbols/symbols.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "symbols/demangle.h"
#include "symbols/dwarf_index.h"
#include "symbols/elf_file.h"

#define LONGEST_WHY 1024

struct symbols {
	struct demangle *names;
	char *debug_dir;
};

struct object {
	struct elf_file main;  /* as loaded; not open if it is gone or was replaced */
	struct elf_file debug; /* separate debug file */
	struct elf_file
	    inner;	  /* small symbol table inside main; its names are used while it is open */
	const char *path; /* of main */
};

struct entry {
	uint64_t address;
	size_t index;
};

/* The state of one symbols_resolve(). */
struct request {
	struct symbols *s;
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

struct symbols *symbols_new(const struct symbols_options *options)
{
	struct symbols *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->names = demangle_new();
	if (options && options->debug_dir) {
		s->debug_dir = strdup(options->debug_dir);
		if (!s->debug_dir) {
			symbols_free(s);
			return NULL;
		}
	}
	if (!s->names) {
		symbols_free(s);
		return NULL;
	}
	return s;
}

void symbols_free(struct symbols *s)
{
	if (!s)
		return;
	demangle_free(s->names);
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

static const char *open_main(struct symbols *s, struct object *o, const uint8_t *id, size_t length)
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

/* Opens the files that exist. Returns NULL, or the reason why there are none. */
static const char *open_object(struct symbols *s, struct object *o, const uint8_t *id,
			       size_t length)
{
	const char *why = open_main(s, o, id, length);

	if (why) {
		if (length && elf_file_open_by_build_id(&o->debug, s->debug_dir, id, length))
			return NULL;
		return why;
	}
	if (elf_file_has_dwarf(&o->main))
		return NULL;
	if (o->main.build_id && elf_file_open_by_build_id(&o->debug, s->debug_dir, o->main.build_id,
							  o->main.build_id_length))
		return NULL;
	if (!is_vdso(o->path))
		elf_file_open_debuglink(&o->debug, &o->main, o->path, s->debug_dir);
	return NULL;
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

static bool request_new(struct request *r, const uint64_t *addresses)
{
	r->entry = calloc(r->count, sizeof(*r->entry));
	r->address = calloc(r->count, sizeof(*r->address));
	r->first = calloc(r->count + 1, sizeof(*r->first));
	r->match = calloc(r->count, sizeof(*r->match));
	r->answered = calloc(r->count, sizeof(*r->answered));
	if (!r->entry || !r->address || !r->first || !r->match || !r->answered)
		return false;
	for (size_t i = 0; i < r->count; i++)
		r->entry[i] = (struct entry){.address = addresses[i], .index = i};
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
	if (o->main.elf && !table && elf_file_open_inner(&o->inner, &o->main))
		elf_file_match(&o->inner, SHT_SYMTAB, r->address, r->distinct, r->match);
	if (o->main.elf)
		elf_file_match(&o->main, SHT_DYNSYM, r->address, r->distinct, r->match);
	elf_file_match_end(r->address, r->distinct, r->match);
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

size_t symbols_resolve(struct symbols *s, const char *path, const uint8_t *build_id,
		       size_t build_id_length, const uint64_t *addresses, size_t count,
		       symbols_found *found, void *context, const char **why)
{
	struct request r = {.s = s, .count = count, .found = found, .context = context};
	struct object o = {.path = path};
	const struct symbol unknown = {0};
	const char *problem;
	struct elf_file *dwarf;

	*why = NULL;
	if (!count)
		return 0;
	problem = open_object(s, &o, build_id, build_id ? build_id_length : 0);
	if (!problem && !request_new(&r, addresses))
		problem = "out of memory";
	if (problem) {
		for (size_t i = 0; i < count; i++)
			found(context, i, &unknown, 1);
		*why = problem;
	} else {
		match_symbols(&r, &o);
		dwarf = o.main.elf && elf_file_has_dwarf(&o.main) ? &o.main : &o.debug;
		if (dwarf->elf)
			dwarf_index_resolve(dwarf, path, s->debug_dir, s->names, r.address,
					    r.distinct, dwarf_found, &r);
		answer_rest(&r);
	}
	request_free(&r);
	elf_file_close(&o.inner);
	elf_file_close(&o.debug);
	elf_file_close(&o.main);
	return r.named;
}
