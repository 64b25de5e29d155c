/* SPDX-License-Identifier: Apache-2.0 */
/* The variables that debug information declares: see debug_variables.h. */
#include "picture/debug_variables.h"

#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/bytes.h"
#include "base/search.h"
#include "picture/debug_layouts.h"
#include "symbols/dwarf_alt.h"

#define DEFINITIONS_MOST (1u << 20)
#define ADDRESS_BYTES	 9u  /* an operation, and an address */
#define TLS_BYTES	 10u /* an operation, a number, another operation */

/* A variable that points to blocks. */
struct wanted {
	uint64_t at; /* ELF address; of thread-local ones, from the begin of the block */
	uint32_t holder;
	bool of_thread, found;
};

struct scan {
	struct debug_types *d;
	const struct loaded_module *module;
	struct wanted *wanted; /* in order of `at` */
	size_t count, capacity, left;
	bool deep; /* into functions */
	bool out_of_memory;
};

/* ---- which ones ---- */

static bool is_in(const struct loaded_module *m, uint64_t address)
{
	for (size_t i = 0; i < m->symbols.parts; i++) {
		const struct data_part *p = &m->symbols.part[i];

		if (address - m->bias >= p->start && address - m->bias - p->start < p->bytes)
			return true;
	}
	return false;
}

static int compare_wanted(const void *a, const void *b)
{
	const struct wanted *x = a, *y = b;

	return (x->at > y->at) - (x->at < y->at);
}

static bool list_wanted(struct scan *s, const uint8_t *points, uint32_t holders)
{
	const struct holder_list *l = s->d->holders;

	for (uint32_t i = 0; i < holders && i < l->count; i++) {
		const struct holder *h = &l->holder[i];
		bool of_thread = h->kind == HOLDER_THREAD_LOCAL;

		if (!points[i] ||
		    (of_thread ? strcmp(h->module, s->module->name) != 0
			       : h->kind != HOLDER_VARIABLE || !is_in(s->module, h->address)))
			continue;
		if (!ARRAY_ADD(s->wanted, s->capacity, s->count,
			       (struct wanted){.at = of_thread ? h->in_block
							       : h->address - s->module->bias,
					       .holder = i,
					       .of_thread = of_thread}))
			return false;
	}
	if (s->count)
		qsort(s->wanted, s->count, sizeof(*s->wanted), compare_wanted);
	s->left = s->count;
	return true;
}

/* ---- entries ---- */

static bool is_tls(unsigned int operation)
{
	return operation == DW_OP_GNU_push_tls_address || operation == DW_OP_form_tls_address;
}

/* With an index into a table of addresses. */
static bool place_by_index(Dwarf_Attribute *location, uint64_t *at, bool *of_thread)
{
	Dwarf_Attribute value;
	Dwarf_Op *operation;
	size_t count;

	if (dwarf_getlocation(location, &operation, &count) || !count ||
	    (operation->atom != DW_OP_addrx && operation->atom != DW_OP_GNU_addr_index &&
	     operation->atom != DW_OP_constx && operation->atom != DW_OP_GNU_const_index) ||
	    dwarf_getlocation_attr(location, operation, &value))
		return false;
	*of_thread = count == 2 && is_tls(operation[1].atom);
	if (*of_thread)
		return !dwarf_formudata(&value, at) || !dwarf_formaddr(&value, at);
	return count == 1 && !dwarf_formaddr(&value, at);
}

/* The place that a location says. */
static bool place_of(Dwarf_Die *die, uint64_t *at, bool *of_thread)
{
	Dwarf_Attribute location;
	Dwarf_Block block;

	if (!dwarf_attr(die, DW_AT_location, &location) || dwarf_formblock(&location, &block))
		return false;
	*of_thread = block.length == TLS_BYTES && block.data[0] == DW_OP_const8u &&
		     is_tls(block.data[TLS_BYTES - 1]);
	if (!*of_thread && (block.length != ADDRESS_BYTES || block.data[0] != DW_OP_addr))
		return place_by_index(&location, at, of_thread);
	*at = bytes_load(block.data + 1);
	return true;
}

static void take_variable(struct scan *s, Dwarf_Die *die)
{
	struct heap_layouts *l = &s->d->layouts;
	bool of_thread;
	uint32_t layout;
	Dwarf_Die type;
	uint64_t at;

	if (!s->left || !place_of(die, &at, &of_thread) || !debug_type_of(die, &type))
		return;
	for (size_t i = FIRST_THAT(k, 0, s->count, s->wanted[k].at >= at);
	     i < s->count && s->wanted[i].at == at; i++) {
		struct wanted *w = &s->wanted[i];

		if (w->found || w->of_thread != of_thread)
			continue;
		w->found = true;
		s->left--;
		if (!debug_layouts_find(s->d, &type, &layout) ||
		    (layout != INTERNER_NONE &&
		     !ARRAY_ADD(
			 l->variable, l->variable_capacity, l->variables,
			 (struct heap_variable){s->d->holders->holder[w->holder].address, layout})))
			s->out_of_memory = true;
	}
}

/* hash: of what it is in. */
static void take_definition(struct scan *s, Dwarf_Die *die, uint64_t hash)
{
	struct debug_types *d = s->d;
	const char *name = dwarf_diename(die);
	bool is_new;
	uint32_t at;

	if (!name || !dwarf_haschildren(die) || debug_is_declaration(die) ||
	    d->defined.count >= DEFINITIONS_MOST)
		return;
	/* What was declared in a class may be defined outside of it. */
	hash = dwarf_hasattr(die, DW_AT_specification) ? debug_hash_of(die)
						       : debug_name_hash(hash, name);
	at = interner_add(&d->defined, (struct key){{hash}}, &is_new);
	if (at == INTERNER_NONE ||
	    !array_reserve(&d->definition, &d->definition_capacity, at, sizeof(*d->definition)))
		s->out_of_memory = true;
	else if (is_new)
		d->definition[at] = *die;
}

/* hash: of what all of this is in. */
static void take_children(struct scan *s, Dwarf_Die *parent, uint64_t hash, unsigned int depth)
{
	Dwarf_Die child;

	if (depth > DEBUG_DEPTH_MOST || dwarf_child(parent, &child))
		return;
	do {
		switch (dwarf_tag(&child)) {
		case DW_TAG_variable:
			take_variable(s, &child);
			break;
		case DW_TAG_namespace:
			take_children(s, &child, debug_name_hash(hash, dwarf_diename(&child)),
				      depth + 1);
			break;
		case DW_TAG_structure_type:
		case DW_TAG_class_type:
		case DW_TAG_union_type:
			if (!s->deep)
				take_definition(s, &child, hash);
			break;
		case DW_TAG_subprogram:
		case DW_TAG_lexical_block:
		case DW_TAG_inlined_subroutine:
			if (s->deep)
				take_children(s, &child, hash, depth + 1);
			break;
		default:
			break;
		}
	} while (debug_next(&child) && !s->out_of_memory && (s->left || !s->deep));
}

static void scan_units(struct scan *s, Dwarf *dwarf)
{
	Dwarf_CU *unit = NULL;
	Dwarf_Die top, split;
	uint8_t kind;

	while (!s->out_of_memory && (s->left || !s->deep) &&
	       !dwarf_get_units(dwarf, unit, &unit, NULL, &kind, &top, &split)) {
		if (kind == DW_UT_skeleton && dwarf_tag(&split) != DW_TAG_invalid)
			top = split;
		if (kind != DW_UT_type && kind != DW_UT_split_type)
			take_children(s, &top, 0, 0);
	}
}

/* Compilers name variables of functions so in symbol tables: "cache.2", "main.cache", "_ZZ4mainE5cache". */
static bool is_in_function(const struct scan *s, const struct wanted *w)
{
	const struct data_symbol *v =
	    w->of_thread ? NULL : data_symbols_at(&s->module->symbols, w->at);

	return !w->found && (!v || strchr(v->name, '.') || !strncmp(v->name, "_ZZ", 3));
}

/* ---- files ---- */

static Dwarf *open_dwarf(struct debug_module *m, const struct debug_files *files)
{
	const struct data_symbols *s = &m->module->symbols;
	const struct elf_file *file = &m->main;

	if (elf_file_open(&m->main, m->module->file) != ELF_FILE_OPEN)
		return NULL;
	if (s->build_id_length && !elf_file_has_build_id(&m->main, s->build_id, s->build_id_length))
		return NULL;
	if (!elf_file_has_dwarf(&m->main)) {
		if (!debug_files_open(files, &m->debug, &m->main, m->module->path))
			return NULL;
		file = &m->debug;
	}
	return elf_file_has_dwarf(file) ? dwarf_begin_elf(file->elf, DWARF_C_READ, NULL) : NULL;
}

static bool open_module(struct debug_types *d, const struct loaded_module *module, Dwarf **dwarf)
{
	struct debug_module m = {.module = module};

	*dwarf = NULL;
	if (!array_reserve(&d->module, &d->module_capacity, d->module_count, sizeof(*d->module)))
		return false;
	m.dwarf = open_dwarf(&m, d->files);
	if (!m.dwarf) {
		elf_file_close(&m.debug);
		elf_file_close(&m.main);
		return true;
	}
	m.alt_dwarf = dwarf_alt_open(m.dwarf, &m.alt, module->path, d->files);
	if (m.alt_dwarf)
		dwarf_setalt(m.dwarf, m.alt_dwarf);
	*dwarf = m.dwarf;
	d->module[d->module_count++] = m;
	return true;
}

static bool scan_module(struct scan *s)
{
	bool deep = false;
	Dwarf *dwarf;

	if (!open_module(s->d, s->module, &dwarf))
		return false;
	if (!dwarf)
		return true;
	scan_units(s, dwarf);
	for (size_t i = 0; i < s->count; i++)
		deep |= is_in_function(s, &s->wanted[i]);
	s->deep = true;
	if (deep)
		scan_units(s, dwarf);
	/* Little is needed again of what was passed over. */
	elf_file_release_pages(&s->d->module[s->d->module_count - 1].main);
	elf_file_release_pages(&s->d->module[s->d->module_count - 1].debug);
	return !s->out_of_memory;
}

bool debug_variables_find(struct heap_layouts *l, const uint8_t *points, uint32_t holders)
{
	struct debug_types *d = l->context;
	bool good = true;

	for (size_t i = 0; i < d->modules->count && good; i++) {
		struct scan s = {.d = d, .module = &d->modules->module[i]};

		good = list_wanted(&s, points, holders) && (!s.count || scan_module(&s));
		free(s.wanted);
	}
	return good;
}
