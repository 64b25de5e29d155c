/* SPDX-License-Identifier: Apache-2.0 */
/* The picture of a process's heap: see picture.h. */
#include "picture/picture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/array.h"
#include "base/system/clock.h"
#include "picture/debug_types.h"
#include "picture/own_memory.h"
#include "picture/thread_roots.h"

#define TRIES_MOST	    5u
#define TRY_PAUSE_NS	    20000000l
#define WASTE_CONTENTS_MOST (1u << 20) /* 40 bytes each, while blocks are read */
#define VTABLE_NAME	    "_ZTV"
#define VTABLE_FOR	    "vtable for "

struct making {
	struct picture *p;
	const struct picture_wishes *wishes;
	struct memory_source source;
	struct loaded_modules modules;
	struct debug_types declared;
	char *why;
	size_t size;
};

static bool says(struct making *k, const char *text)
{
	snprintf(k->why, k->size, "%s", text);
	return false;
}

static bool progress(void *context, double share)
{
	struct making *k = context;

	freeze_tend(&k->source.freeze);
	return !k->wishes->progress ||
	       k->wishes->progress(k->wishes->context, "reading blocks", share);
}

static void note_stop(struct making *k)
{
	const struct freeze *f = &k->source.freeze;

	k->p->stopped_ns = f->stopped_ns;
	if (f->how == FROZEN_HELD)
		k->p->stopped_ns = now_ns() - f->frozen_ns;
}

/* The copy costs the program memory for every page that it writes. */
static void read_all(void *context)
{
	struct making *k = context;

	if (k->wishes->all_read)
		k->wishes->all_read(k->wishes->context);
	note_stop(k);
	memory_source_close(&k->source);
}

/* ---- types ---- */

static bool add_types(struct picture *p, const struct loaded_module *m, size_t *capacity,
		      size_t *name_capacity)
{
	for (size_t i = 0; i < m->symbols.thread_local_from; i++) {
		const struct data_symbol *v = &m->symbols.symbol[i];
		const char *name;

		if (strncmp(v->name, VTABLE_NAME, strlen(VTABLE_NAME)) != 0)
			continue;
		name = demangle_name(p->names, v->name);
		if (name && !strncmp(name, VTABLE_FOR, strlen(VTABLE_FOR)))
			name += strlen(VTABLE_FOR);
		if (!name || !array_reserve(&p->type, capacity, p->types, sizeof(*p->type)) ||
		    !array_reserve(&p->type_name, name_capacity, p->types, sizeof(*p->type_name)))
			return false;
		p->type_name[p->types] = name;
		p->type[p->types++] =
		    (struct heap_type){m->bias + v->start, m->bias + v->start + v->size};
	}
	return true;
}

struct named_type {
	struct heap_type type;
	const char *name;
};

static int compare_types(const void *a, const void *b)
{
	const struct named_type *x = a, *y = b;

	return (x->type.start > y->type.start) - (x->type.start < y->type.start);
}

/* In order of addresses, without those that overlap the one before. */
static bool find_types(struct picture *p, const struct loaded_modules *m)
{
	size_t capacity = 0, name_capacity = 0, count = 0;
	struct named_type *all;

	for (size_t i = 0; i < m->count; i++)
		if (!add_types(p, &m->module[i], &capacity, &name_capacity))
			return false;
	all = malloc((p->types + 1) * sizeof(*all));
	if (!all)
		return false;
	for (size_t i = 0; i < p->types; i++)
		all[i] = (struct named_type){p->type[i], p->type_name[i]};
	qsort(all, p->types, sizeof(*all), compare_types);
	for (size_t i = 0; i < p->types; i++) {
		if (count && all[i].type.start < p->type[count - 1].end)
			continue;
		p->type[count] = all[i].type;
		p->type_name[count++] = all[i].name;
	}
	p->types = count;
	free(all);
	return true;
}

/* ---- what went wrong ---- */

static bool explain(struct making *k, const struct heap_problem *problem)
{
	const struct loaded_modules *m = &k->modules;
	unsigned long long where = problem->where;

	switch (problem->trouble) {
	case HEAP_FINE:
	case HEAP_NO_MEMORY:
		return says(k, "out of memory");
	case HEAP_INTERRUPTED:
		return says(k, "it was interrupted");
	case HEAP_NO_MALLOC:
		if (m->other_malloc)
			snprintf(k->why, k->size,
				 "its allocator is %s, whose blocks are not known from outside; "
				 "those of glibc's malloc are",
				 m->other_malloc);
		else if (m->musl)
			says(k, "it uses musl, whose blocks are not known from outside; those of "
				"glibc's malloc are");
		else
			says(k, "glibc's malloc was not found in it: it has not been called, or "
				"the program has an allocator of its own");
		return false;
	case HEAP_OLD_LIBC:
	case HEAP_NEW_LIBC:
		snprintf(k->why, k->size,
			 "it uses glibc 2.%u, whose heap is not known here; 2.31 to 2.41 are",
			 m->libc_version % 100);
		return false;
	case HEAP_DAMAGED:
		snprintf(k->why, k->size,
			 "its heap is damaged at %#llx: a block ends where none "
			 "begins, or a list leads elsewhere",
			 where);
		return false;
	case HEAP_UNREADABLE:
		snprintf(k->why, k->size, "its heap cannot be read at %#llx%s", where,
			 k->p->pid ? "" : "; the core file has not all of its memory");
		return false;
	case HEAP_FOREIGN_BREAK:
		snprintf(k->why, k->size,
			 "its heap goes on behind memory that others took with brk() at %#llx, and "
			 "was not found again",
			 where);
		return false;
	case HEAP_TOO_LARGE:
		return says(k, "it has more than 2 billion blocks, or 4 billion pointers to them");
	}
	return false;
}

/* ---- all of it ---- */

static void note_anonymous(struct picture *p, const struct holder_list *l)
{
	for (size_t i = 0; i < l->maps; i++)
		if (l->map[i].kind == HEAP_MAP_ANONYMOUS || l->map[i].kind == HEAP_MAP_BREAK)
			p->anonymous_bytes += l->map[i].end - l->map[i].start;
}

static bool find_holders(struct making *k)
{
	struct symbols_options options = {.debug_dir = k->wishes->files.dirs.dir,
					  .debug_dirs = k->wishes->files.dirs.count,
					  .server = k->wishes->files.server,
					  .cache_folder = k->wishes->symbol_cache};
	struct symbols *functions = symbols_new(&options);
	struct picture *p = k->p;
	bool good = functions &&
		    loaded_modules_find(&k->modules, &k->source, &k->wishes->files, p->names) &&
		    thread_roots_find(&p->holders, &k->source, &k->modules, p->names, functions) &&
		    holder_list_variables(&p->holders, &k->modules, p->names) &&
		    own_memory_claim(&p->holders, &k->source, &k->modules) &&
		    holder_list_finish(&p->holders, &k->source, &k->modules, p->names) &&
		    find_types(p, &k->modules);

	symbols_free(functions);
	return good;
}

static bool read_memory(void *context, uint64_t address, void *to, size_t bytes)
{
	struct making *k = context;

	return loaded_modules_read(&k->modules, &k->source, address, to, bytes);
}

static uint64_t skip_zeros(void *context, uint64_t address, uint64_t end)
{
	struct making *k = context;

	return memory_source_skip_zeros(&k->source, address, end);
}

static bool make_graph(struct making *k, struct heap_problem *problem)
{
	struct picture *p = k->p;
	struct heap_image image = {.read = read_memory,
				   .skip_zeros = skip_zeros,
				   .context = k,
				   .map = p->holders.map,
				   .maps = p->holders.maps};
	uint8_t *rank = calloc(p->holders.count + 1, sizeof(*rank));
	struct heap_question q = {.root = p->holders.root,
				  .roots = p->holders.roots,
				  .value = p->holders.value,
				  .values = p->holders.values,
				  .rank = rank,
				  .holders = (uint32_t)p->holders.count,
				  .type = p->type,
				  .types = p->types,
				  .layouts = &k->declared.layouts,
				  .python = p->has_python == PYTHON_KNOWN ? &p->python : NULL,
				  .waste_contents = k->wishes->waste ? WASTE_CONTENTS_MOST : 0,
				  .waste_texts = k->wishes->strings,
				  .progress = progress,
				  .read_all = read_all,
				  .context = k};
	bool good = rank != NULL;

	*problem = (struct heap_problem){.trouble = HEAP_NO_MEMORY};
	for (size_t i = 0; good && i < p->holders.count; i++)
		rank[i] = p->holders.holder[i].rank;
	debug_types_begin(&k->declared, &k->modules, &p->holders, &k->wishes->files, p->names);
	good = good && heap_graph_make(&image, p->libc_version, &q, &p->graph, problem);
	debug_types_close(&k->declared);
	free(rank);
	return good;
}

/* The types and the holders that the graph has found itself. */
static bool add_python(struct picture *p)
{
	const struct python_objects *o = &p->graph.objects;
	const char **names =
	    realloc(p->type_name, (p->types + o->types.count + 1) * sizeof(*names));

	if (!names)
		return false;
	p->type_name = names;
	for (size_t i = 0; i < o->types.count; i++)
		names[p->types + i] = o->types.name[o->types.type[i].name];
	for (size_t i = 0; i < o->holders; i++)
		if (holder_list_add(&p->holders,
				    (struct holder){.kind = HOLDER_VARIABLE,
						    .name = o->types.name[o->holder[i].name],
						    .module = "Python",
						    .thread = ""}) == HEAP_NONE)
			return false;
	return true;
}

/* Behind Python's types: each that was declared, and an array of it. */
static bool add_declared(struct picture *p, const struct debug_types *d)
{
	size_t before = p->types + p->graph.objects.types.count, count = d->layouts.count;
	const char **names = realloc(p->type_name, (before + 2 * count + 1) * sizeof(*names));

	if (!names)
		return false;
	p->type_name = names;
	for (size_t i = 0; i < count; i++) {
		char array[DEBUG_NAME + 2];

		snprintf(array, sizeof(array), "%s[]", d->made[i].name);
		names[before + 2 * i] = d->made[i].name;
		names[before + 2 * i + 1] = demangle_intern(p->names, array, strlen(array));
		if (!names[before + 2 * i + 1])
			return false;
	}
	return true;
}

/* k->source is open; it is closed. *again: a later look may succeed. */
static bool make(struct making *k, bool *again)
{
	struct memory_source *s = &k->source;
	struct picture *p = k->p;
	struct heap_problem problem;
	bool good;

	memcpy(p->program, s->program, sizeof(p->program));
	p->how = s->freeze.how;
	p->frozen_ns = s->freeze.frozen_ns;
	p->threads = s->threads;
	p->unstopped = s->freeze.unstopped;
	memcpy(p->why_no_copy, s->freeze.why_no_copy, sizeof(p->why_no_copy));
	p->names = demangle_new();
	good = p->names && (!k->wishes->look || k->wishes->look(k->wishes->context, s)) &&
	       find_holders(k);
	if (good) {
		p->libc_version = k->modules.libc_version;
		note_anonymous(p, &p->holders);
		p->has_python = find_python(&p->python, &k->modules, s);
		good = make_graph(k, &problem);
		*again = problem.trouble == HEAP_DAMAGED || problem.trouble == HEAP_UNREADABLE ||
			 problem.trouble == HEAP_FOREIGN_BREAK;
		if (!good)
			explain(k, &problem);
	} else {
		says(k, "out of memory");
	}
	memory_source_close(s);
	loaded_modules_free(&k->modules);
	if (good && (!add_python(p) || !add_declared(p, &k->declared)))
		good = says(k, "out of memory");
	debug_types_free(&k->declared);
	if (good && !heap_shared_find(&p->graph, &p->shared))
		good = says(k, "out of memory");
	if (!good)
		picture_free(p);
	return good;
}

bool picture_of_process(struct picture *p, pid_t pid, const struct picture_wishes *wishes,
			char *why, size_t size)
{
	struct making k = {.p = p, .wishes = wishes, .why = why, .size = size};
	bool good = false, again = true;

	/* A thread may have been stopped while it changed the heap. */
	for (unsigned int try = 0; !good && again && try < TRIES_MOST; try++) {
		again = false;
		*p = (struct picture){.pid = pid};
		if (try)
			nanosleep(&(struct timespec){0, TRY_PAUSE_NS}, NULL);
		if (!memory_source_open_process(&k.source, pid, &wishes->source, why, size))
			return false;
		good = make(&k, &again);
	}
	return good;
}

bool picture_of_core(struct picture *p, const char *path, const struct picture_wishes *wishes,
		     char *why, size_t size)
{
	struct making k = {.p = p, .wishes = wishes, .why = why, .size = size};
	bool again;

	*p = (struct picture){0};
	return memory_source_open_core(&k.source, path, why, size) && make(&k, &again);
}

void picture_tend(void)
{
	injection_tend_late();
}

void picture_free(struct picture *p)
{
	holder_list_free(&p->holders);
	heap_graph_free(&p->graph);
	heap_shared_free(&p->shared);
	free(p->type);
	free(p->type_name);
	p->type = NULL;
	p->type_name = NULL;
	if (p->names)
		demangle_free(p->names);
	p->names = NULL;
}
