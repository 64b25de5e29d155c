/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DWARF read with libdw, in one walk for each compilation unit (CU) that is needed.
 *
 * The wanted addresses are known and sorted, so only what they need is read. First the ranges of
 * each CU claim addresses. Then each CU that claimed some is walked once, top down; a function or
 * inlined function whose ranges contain wanted addresses becomes a scope, and those addresses point
 * to it. Subtrees without wanted addresses are skipped. In the end each address points to its
 * innermost scope:
 *
 *   wanted  0x1010 --------------> scope 0  f()
 *           0x1034 --> scope 2  h()    ^
 *                         |parent      |
 *                         +-> scope 1 g(), called from line 7 of its parent
 *           0x1050 ------------^
 *
 * Lines come from one run of the CU's line program (dwarf_lines.c). From time to time the DWARF is
 * opened again, to drop libdw's caches of all CUs and the pages of the file.
 */
#include "symbols/dwarf_index.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/interner.h"
#include "symbols/dwarf_alt.h"
#include "symbols/dwarf_language.h"
#include "symbols/dwarf_lines.h"

#define NONE		   UINT32_MAX
#define DEEPEST_TREE	   200			/* levels of a DIE tree */
#define LONGEST_REFERENCES 16			/* chain of abstract_origin and specification */
#define DEEPEST_NAME	   32			/* enclosing namespaces, classes and functions */
#define LONGEST_NAME	   8192			/* of a qualified name composed here */
#define MOST_INLINED	   256			/* functions inlined at one address */
#define REOPEN_AFTER_BYTES ((uint64_t)16 << 20) /* of .debug_info walked */

struct scope {
	Dwarf_Die die;
	uint32_t parent; /* the scope it is inlined into, NONE for a function */
	uint32_t call_file, call_line, call_column;
	const char *name;
	bool named; /* the name has been looked up */
};

struct unit {
	uint64_t die_offset, size;
	bool no_ranges; /* its functions may be anywhere */
};

/* A cache: address in memory of something in the DWARF -> interned string. */
struct memo {
	struct interner keys;
	const char **value; /* by number of its key */
	size_t room;
};

struct dwarf {
	struct elf_file *file;
	Dwarf *dbg;
	struct elf_file *alt_file; /* dwz: the part that several files share */
	Dwarf *alt;
	struct demangle *names;
	struct memo memo;
	struct dwarf_line_sections line_sections;
	uint64_t bytes_walked;
	dwarf_index_found *found;
	void *context;
};

struct walk {
	struct dwarf *d;
	const uint64_t *address; /* wanted, of this CU */
	uint32_t *innermost;	 /* scope of each, or NONE */
	size_t count, missing;	 /* missing: still NONE */
	struct scope *scope;
	size_t scopes, scopes_size;
	uint64_t visits_left; /* a DIE takes at least a byte; more visits mean a loop */
	bool deep;	      /* look for functions inside all DIEs */
	bool in_classes;      /* this language defines functions inside classes */
	bool failed;
};

/* ---- memo ---- */

static void memo_clear(struct memo *m)
{
	interner_free(&m->keys);
	free(m->value);
	memset(m, 0, sizeof(*m));
}

static struct key memo_key(const void *key)
{
	return (struct key){{(uintptr_t)key}};
}

static const char *memo_get(const struct memo *m, const void *key)
{
	uint32_t number = interner_find(&m->keys, memo_key(key));

	return number == INTERNER_NONE ? NULL : m->value[number];
}

/* Out of memory, entries are forgotten; that only costs time. */
static void memo_put(struct memo *m, const void *key, const char *value)
{
	bool is_new;
	uint32_t number = interner_add(&m->keys, memo_key(key), &is_new);

	if (number == INTERNER_NONE || !array_reserve(&m->value, &m->room, number, sizeof(value)))
		memo_clear(m);
	else
		m->value[number] = value;
}

/* ---- attributes ---- */

static uint32_t attribute_u32(Dwarf_Die *die, unsigned name)
{
	Dwarf_Attribute attribute;
	Dwarf_Word value;

	if (!dwarf_attr(die, name, &attribute) || dwarf_formudata(&attribute, &value) ||
	    value > UINT32_MAX)
		return 0;
	return (uint32_t)value;
}

static const char *attribute_string(Dwarf_Die *die, unsigned name)
{
	Dwarf_Attribute attribute;

	return dwarf_attr(die, name, &attribute) ? dwarf_formstring(&attribute) : NULL;
}

static bool follow(Dwarf_Die *die, unsigned name, Dwarf_Die *to)
{
	Dwarf_Attribute attribute;

	return dwarf_attr(die, name, &attribute) && dwarf_formref_die(&attribute, to);
}

/* Refuses a sibling at a lower offset, which would be a loop. */
static bool next_sibling(Dwarf_Die *die)
{
	const char *here = die->addr;

	return !dwarf_siblingof(die, die) && (const char *)die->addr > here;
}

/* ---- names ---- */

static bool is_container(int tag)
{
	switch (tag) {
	case DW_TAG_namespace:
	case DW_TAG_class_type:
	case DW_TAG_structure_type:
	case DW_TAG_union_type:
	case DW_TAG_interface_type:
	case DW_TAG_enumeration_type:
	case DW_TAG_module:
	case DW_TAG_subprogram:
		return true;
	default:
		return false;
	}
}

/* The DIEs around `die` whose names qualify its name, outermost first. libdw cannot return parents,
 * so this descends from the CU: at each level into the last DIE that begins before the wanted one.
 */
static size_t find_containers(Dwarf_Die *die, Dwarf_Die container[DEEPEST_NAME])
{
	Dwarf_Die cu, at, last;
	size_t count = 0;

	if (!dwarf_diecu(die, &cu, NULL, NULL) || !dwarf_has_qualified_names(&cu))
		return 0;
	last = cu;
	for (int level = 0; level < DEEPEST_TREE; level++) {
		if (dwarf_child(&last, &at) || at.addr > die->addr)
			return 0;
		do {
			last = at;
		} while (next_sibling(&at) && at.addr <= die->addr);
		if (last.addr == die->addr)
			return count;
		if (is_container(dwarf_tag(&last))) {
			if (count == DEEPEST_NAME)
				return 0;
			container[count++] = last;
		}
	}
	return 0;
}

/* A substitute for the missing name of a DIE around the function `member`. */
static void anonymous_name(Dwarf_Die *die, const char *member, char *name, size_t size)
{
	int line;

	switch (dwarf_tag(die)) {
	case DW_TAG_namespace:
		snprintf(name, size, "(anonymous namespace)");
		return;
	case DW_TAG_union_type:
		snprintf(name, size, "(anonymous union)");
		return;
	case DW_TAG_enumeration_type:
		snprintf(name, size, "(anonymous enum)");
		return;
	default:
		break;
	}
	/* GCC does not name the classes of lambda expressions; the line tells them apart. */
	if (!strcmp(member, "operator()") && !dwarf_decl_line(die, &line))
		snprintf(name, size, "{lambda:%d}", line);
	else
		snprintf(name, size, "(anonymous class)");
}

static const char *linkage_name(Dwarf_Die *die)
{
	const char *name = attribute_string(die, DW_AT_linkage_name);

	return name ? name : attribute_string(die, DW_AT_MIPS_linkage_name);
}

static const char *function_name(struct dwarf *d, Dwarf_Die *die, int level);

static void dwarf_index_append(char *text, size_t *used, const char *more)
{
	size_t length = strlen(more);

	if (length > LONGEST_NAME - 1 - *used)
		length = LONGEST_NAME - 1 - *used;
	memcpy(text + *used, more, length);
	*used += length;
	text[*used] = 0;
}

static const char *qualified_name(struct dwarf *d, Dwarf_Die *die, const char *name, int level)
{
	Dwarf_Die container[DEEPEST_NAME];
	size_t count = find_containers(die, container), used = 0;
	char text[LONGEST_NAME], unnamed[64];

	for (size_t i = 0; i < count; i++) {
		const char *part;

		if (dwarf_tag(&container[i]) == DW_TAG_subprogram) {
			/* A function's name is already qualified. */
			part = level < 4 ? function_name(d, &container[i], level + 1) : NULL;
			if (!part)
				continue;
			used = 0;
		} else {
			part = attribute_string(&container[i], DW_AT_name);
			if (!part) {
				anonymous_name(&container[i], name, unnamed, sizeof(unnamed));
				part = unnamed;
			}
		}
		dwarf_index_append(text, &used, part);
		dwarf_index_append(text, &used, "::");
	}
	dwarf_index_append(text, &used, name);
	return demangle_intern(d->names, text, used);
}

/* The readable name of a subprogram, its own or that of a DIE it refers to; NULL: it has none. */
static const char *function_name(struct dwarf *d, Dwarf_Die *die, int level)
{
	const char *name = NULL, *linkage, *result;
	Dwarf_Die at = *die, next;

	for (int i = 0; i < LONGEST_REFERENCES; i++) {
		result = memo_get(&d->memo, at.addr);
		if (result)
			break;
		linkage = linkage_name(&at);
		if (linkage && *linkage) {
			result = demangle_name(d->names, linkage);
			break;
		}
		if (!name)
			name = attribute_string(&at, DW_AT_name);
		if (!follow(&at, DW_AT_abstract_origin, &next) &&
		    !follow(&at, DW_AT_specification, &next))
			break;
		at = next;
	}
	if (!result && name && *name) {
		/* DWARF made by the assembler has symbols as names: here OCaml's mangled ones. */
		if (!strncmp(name, "caml", 4))
			result = demangle_name(d->names, name);
		else
			result = qualified_name(d, &at, name, level);
	}
	if (result) {
		memo_put(&d->memo, die->addr, result);
		memo_put(&d->memo, at.addr, result);
	}
	return result;
}

/* ---- file names ---- */

/* Removes "//", "/./" and "name/../", in place. A relative path keeps its leading "..". */
static void normalise(char *path)
{
	bool absolute = *path == '/';
	char *to = path + absolute, *from = path;
	char *keep = to; /* ".." never removes anything before this */

	while (*from) {
		size_t length;

		while (*from == '/')
			from++;
		length = strcspn(from, "/");
		if (!length || (length == 1 && *from == '.')) {
			from += length;
			continue;
		}
		if (length == 2 && from[0] == '.' && from[1] == '.' && (absolute || to > keep)) {
			while (to > keep && *--to != '/')
				;
			from += length;
			continue;
		}
		if (to > path + absolute)
			*to++ = '/';
		memmove(to, from, length);
		if (length == 2 && from[0] == '.' && from[1] == '.')
			keep = to + length;
		to += length;
		from += length;
	}
	if (to == path)
		*to++ = '.';
	*to = 0;
}

/* The files of a CU: from its line table, or from libdw if its code is in another file. */
struct files {
	struct dwarf_lines lines;
	Dwarf_Files *split;
	const char *compilation; /* directory, or NULL */
};

static const char *dwarf_index_join(struct dwarf *d, const char *a, const char *b, const char *c)
{
	char path[PATH_MAX];

	/* An absolute part replaces all parts before it. */
	if (*c == '/')
		a = b = NULL;
	else if (b && *b == '/')
		a = NULL;
	snprintf(path, sizeof(path), "%s%s%s%s%s", a ? a : "", a ? "/" : "", b ? b : "",
		 b ? "/" : "", c);
	normalise(path);
	return demangle_intern(d->names, path, strlen(path));
}

static const char *file_name(struct dwarf *d, struct files *f, uint32_t number)
{
	struct dwarf_line_file *file = dwarf_lines_file(&f->lines, number);
	const char *directory;

	if (!file || !*file->name)
		return NULL;
	if (!file->path) {
		directory = dwarf_lines_directory(&f->lines, file);
		file->path = dwarf_index_join(
		    d, f->lines.version >= 5 && !file->directory ? NULL : f->compilation, directory,
		    file->name);
	}
	return file->path;
}

static const char *call_file_name(struct dwarf *d, struct files *f, uint32_t number)
{
	const char *name;

	if (!f->split)
		return file_name(d, f, number);
	name = dwarf_filesrc(f->split, number, NULL, NULL);
	return name && *name ? dwarf_index_join(d, f->compilation, NULL, name) : NULL;
}

/* ---- the walk of a CU ---- */

static uint32_t new_scope(struct walk *w, const Dwarf_Die *die, uint32_t parent)
{
	if (w->scopes >= NONE - 1 || !ARRAY_ADD(w->scope, w->scopes_size, w->scopes,
						(struct scope){.die = *die, .parent = parent})) {
		w->failed = true;
		return NONE;
	}
	return (uint32_t)w->scopes - 1;
}

/* Makes a new scope for the wanted addresses in the ranges of a DIE that so far belong to `parent`;
 * returns it, or NONE if there are no such addresses. If siblings overlap, the first one wins. */
static uint32_t dwarf_index_take(struct walk *w, Dwarf_Die *die, uint32_t parent)
{
	uint32_t scope = NONE;
	Dwarf_Addr base, low, high;
	ptrdiff_t at = 0;

	while ((at = dwarf_ranges(die, at, &base, &low, &high)) > 0) {
		/* Functions dropped by the linker are at 0. */
		if (!low || low >= high)
			continue;
		for (size_t i = elf_file_lower_bound(w->address, w->count, low);
		     i < w->count && w->address[i] < high; i++) {
			if (w->innermost[i] != parent)
				continue;
			if (scope == NONE)
				scope = new_scope(w, die, parent);
			if (scope == NONE)
				return NONE;
			w->innermost[i] = scope;
			w->missing -= parent == NONE;
		}
	}
	return scope;
}

/* Whether a block may contain addresses of `scope`; one without ranges may. */
static bool block_is_wanted(const struct walk *w, Dwarf_Die *die, uint32_t scope)
{
	Dwarf_Addr base, low, high;
	ptrdiff_t at = 0;
	bool any = false;

	while ((at = dwarf_ranges(die, at, &base, &low, &high)) > 0) {
		any = true;
		for (size_t i = elf_file_lower_bound(w->address, w->count, low);
		     i < w->count && w->address[i] < high; i++) {
			if (w->innermost[i] == scope)
				return true;
		}
	}
	return !any;
}

static void walk_children(struct walk *w, Dwarf_Die *parent, uint32_t scope, int level);

static void walk_die(struct walk *w, Dwarf_Die *die, uint32_t scope, int level)
{
	uint32_t taken;

	switch (dwarf_tag(die)) {
	case DW_TAG_subprogram:
		taken = dwarf_index_take(w, die, NONE);
		if (taken != NONE || w->deep)
			walk_children(w, die, taken, level);
		break;
	case DW_TAG_inlined_subroutine:
		taken = scope == NONE ? NONE : dwarf_index_take(w, die, scope);
		if (taken != NONE) {
			struct scope *s = &w->scope[taken];

			s->call_file = attribute_u32(die, DW_AT_call_file);
			s->call_line = attribute_u32(die, DW_AT_call_line);
			s->call_column = attribute_u32(die, DW_AT_call_column);
			walk_children(w, die, taken, level);
		}
		break;
	case DW_TAG_lexical_block:
	case DW_TAG_try_block:
	case DW_TAG_catch_block:
	case DW_TAG_with_stmt:
		if (scope == NONE ? w->deep : block_is_wanted(w, die, scope))
			walk_children(w, die, scope, level);
		break;
	case DW_TAG_class_type:
	case DW_TAG_structure_type:
	case DW_TAG_union_type:
	case DW_TAG_interface_type:
	case DW_TAG_enumeration_type:
		if (scope == NONE ? w->in_classes : w->deep)
			walk_children(w, die, scope, level);
		break;
	case DW_TAG_namespace:
	case DW_TAG_module:
		walk_children(w, die, NONE, level);
		break;
	default:
		break;
	}
}

static void walk_children(struct walk *w, Dwarf_Die *parent, uint32_t scope, int level)
{
	Dwarf_Die die;

	if (level >= DEEPEST_TREE || dwarf_child(parent, &die))
		return;
	do {
		if (w->failed || !w->visits_left || (scope == NONE && !w->missing))
			return;
		w->visits_left--;
		walk_die(w, &die, scope, level + 1);
	} while (next_sibling(&die));
}

/* GCC and Clang put C++ functions with code outside of classes. Only if an address is not found
 * there, everything is searched. */
static void walk_unit(struct walk *w, Dwarf_Die *cu, uint64_t size)
{
	int language = dwarf_srclang(cu);

	w->in_classes = language != DW_LANG_C_plus_plus && language != DW_LANG_C_plus_plus_11 &&
			language != DW_LANG_C_plus_plus_14;
	w->visits_left = size;
	walk_children(w, cu, NONE, 0);
	if (!w->missing || !dwarf_has_qualified_names(cu))
		return;
	w->in_classes = w->deep = true;
	w->visits_left = size;
	walk_children(w, cu, NONE, 0);
}

/* ---- answers ---- */

static void answer(struct walk *w, size_t i, size_t index, struct files *files,
		   const struct dwarf_line_row *row)
{
	struct symbol list[MOST_INLINED];
	uint32_t scope = w->innermost[i];
	struct dwarf *d = w->d;
	size_t count = 0;

	if (scope == NONE && !row->found)
		return;
	list[0] = (struct symbol){.line = row->line, .column = row->column};
	if (row->found)
		list[0].file = file_name(d, files, row->file);
	while (scope != NONE) {
		struct scope *s = &w->scope[scope];

		if (!s->named) {
			s->name = function_name(d, &s->die, 0);
			s->named = true;
		}
		list[count].function = s->name;
		list[count].inlined = s->parent != NONE;
		scope = s->parent;
		if (++count == MOST_INLINED || scope == NONE)
			break;
		list[count] = (struct symbol){.line = s->call_line, .column = s->call_column};
		list[count].file = call_file_name(d, files, s->call_file);
	}
	list[count ? count - 1 : 0].inlined = false;
	d->found(d->context, index, list, count ? count : 1);
}

/* A unit whose code is described in another file (-gsplit-dwarf) has only ranges and lines here. */
static Dwarf_Die code_die(Dwarf_Die *cu)
{
	Dwarf_Die split;
	uint8_t type;

	if (!dwarf_cu_info(cu->cu, NULL, &type, NULL, &split, NULL, NULL, NULL) &&
	    type == DW_UT_skeleton && split.addr)
		return split;
	return *cu;
}

static void read_lines(struct walk *w, Dwarf_Die *cu, Dwarf_Die *code, struct files *files,
		       struct dwarf_line_row *row)
{
	Dwarf_Attribute attribute;
	Dwarf_Word offset;

	files->compilation = attribute_string(cu, DW_AT_comp_dir);
	if (code->addr != cu->addr && dwarf_getsrcfiles(code, &files->split, NULL))
		files->split = NULL;
	if (!dwarf_attr(cu, DW_AT_stmt_list, &attribute) || dwarf_formudata(&attribute, &offset))
		return;
	dwarf_lines_read(&files->lines, &w->d->line_sections, offset, w->address, w->count, row);
}

/* address[]: the addresses claimed by the CU; index[]: their places in the caller's list. Sets
 * left[i] if no function was found for address[i]. */
static bool resolve_unit(struct dwarf *d, const struct unit *u, const uint64_t *address,
			 const size_t *index, size_t count, bool *left)
{
	struct walk w = {.d = d, .address = address, .count = count, .missing = count};
	struct dwarf_line_row *row = calloc(count, sizeof(*row));
	struct files files = {0};
	bool done = false;
	Dwarf_Die cu, code;

	w.innermost = malloc(count * sizeof(*w.innermost));
	if (!row || !w.innermost || !dwarf_offdie(d->dbg, u->die_offset, &cu))
		goto out;
	memset(w.innermost, 0xff, count * sizeof(*w.innermost));
	code = code_die(&cu);
	walk_unit(&w, &code, code.addr == cu.addr ? u->size : UINT32_MAX);
	if (!u->no_ranges || w.missing < count)
		read_lines(&w, &cu, &code, &files, row);
	for (size_t i = 0; i < count; i++) {
		left[i] = w.innermost[i] == NONE;
		if (!left[i] || !u->no_ranges)
			answer(&w, i, index[i], &files, &row[i]);
	}
	d->bytes_walked += u->size;
	done = true;
out:
	dwarf_lines_free(&files.lines);
	free(row);
	free(w.innermost);
	free(w.scope);
	return done;
}

/* ---- the object ---- */

static void set_alt(struct dwarf *d)
{
	if (d->dbg && d->alt)
		dwarf_setalt(d->dbg, d->alt);
}

/* Opens the DWARF again once libdw has cached a lot. */
static void reopen_if_large(struct dwarf *d)
{
	if (d->bytes_walked < REOPEN_AFTER_BYTES)
		return;
	memo_clear(&d->memo);
	dwarf_end(d->dbg);
	elf_file_release_pages(d->file);
	d->dbg = dwarf_begin_elf(d->file->elf, DWARF_C_READ, NULL);
	d->bytes_walked = 0;
	set_alt(d);
}

/* Makes the CU the owner of all addresses in its ranges that have no owner. */
static bool claim(Dwarf_Die *cu, uint32_t number, const uint64_t *address, size_t count,
		  uint32_t *owner)
{
	Dwarf_Addr base, low, high;
	bool any = false;
	ptrdiff_t at = 0;

	while ((at = dwarf_ranges(cu, at, &base, &low, &high)) > 0) {
		any = true;
		if (!low || low >= high)
			continue;
		for (size_t i = elf_file_lower_bound(address, count, low);
		     i < count && address[i] < high; i++) {
			if (owner[i] == NONE)
				owner[i] = number;
		}
	}
	return any;
}

struct units {
	struct unit *unit; /* the CUs that own addresses or have no ranges */
	size_t count, size;
};

static bool keep_unit(struct units *units, const struct unit *u)
{
	return units->count < NONE - 1 && ARRAY_ADD(units->unit, units->size, units->count, *u);
}

static bool list_units(struct dwarf *d, const uint64_t *address, size_t count, uint32_t *owner,
		       struct units *units)
{
	Dwarf_Off offset = 0, next;
	size_t header;

	while (!dwarf_nextcu(d->dbg, offset, &next, &header, NULL, NULL, NULL)) {
		struct unit u = {.die_offset = offset + header, .size = next - offset};
		Dwarf_Die cu;

		if (next <= offset)
			break;
		offset = next;
		if (!dwarf_offdie(d->dbg, u.die_offset, &cu) ||
		    (dwarf_tag(&cu) != DW_TAG_compile_unit &&
		     dwarf_tag(&cu) != DW_TAG_skeleton_unit))
			continue;
		u.no_ranges = !claim(&cu, (uint32_t)units->count, address, count, owner);
		if (!keep_unit(units, &u))
			return false;
	}
	return true;
}

/* Selects the addresses with this owner; keeps their order. */
static size_t gather(uint32_t wanted, const uint32_t *owner, const uint64_t *address, size_t count,
		     uint64_t *to, size_t *index)
{
	size_t used = 0;

	for (size_t i = 0; i < count; i++) {
		if (owner[i] != wanted)
			continue;
		to[used] = address[i];
		index[used++] = i;
	}
	return used;
}

/* Addresses grouped by owner: those of unit u are order[first[u]] up to order[first[u + 1]]. */
static bool group(const uint32_t *owner, size_t count, size_t units, size_t **first, size_t *order)
{
	size_t *start = calloc(units + 2, sizeof(*start));

	if (!start)
		return false;
	for (size_t i = 0; i < count; i++) {
		if (owner[i] != NONE)
			start[owner[i] + 2]++;
	}
	for (size_t u = 2; u < units + 2; u++)
		start[u] += start[u - 1];
	for (size_t i = 0; i < count; i++) {
		if (owner[i] != NONE)
			order[start[owner[i] + 1]++] = i;
	}
	*first = start;
	return true;
}

struct scratch {
	uint32_t *owner;
	size_t *order, *first;
	uint64_t *address;
	size_t *index;
	bool *left;
};

static void scratch_free(struct scratch *s)
{
	free(s->owner);
	free(s->order);
	free(s->first);
	free(s->address);
	free(s->index);
	free(s->left);
}

static bool scratch_new(struct scratch *s, size_t count)
{
	*s = (struct scratch){
	    .owner = malloc(count * sizeof(*s->owner)),
	    .order = malloc(count * sizeof(*s->order)),
	    .address = malloc(count * sizeof(*s->address)),
	    .index = malloc(count * sizeof(*s->index)),
	    .left = malloc(count * sizeof(*s->left)),
	};
	if (!s->owner || !s->order || !s->address || !s->index || !s->left)
		return false;
	memset(s->owner, 0xff, count * sizeof(*s->owner));
	return true;
}

static void resolve_all(struct dwarf *d, const uint64_t *address, size_t count, struct scratch *s)
{
	struct units units = {0};

	if (!list_units(d, address, count, s->owner, &units) || !units.count ||
	    !group(s->owner, count, units.count, &s->first, s->order))
		goto out;
	for (size_t u = 0; u < units.count && d->dbg; u++) {
		const size_t *order = s->order + s->first[u];
		size_t owned = s->first[u + 1] - s->first[u];

		for (size_t i = 0; i < owned; i++)
			s->address[i] = address[order[i]];
		if (owned)
			resolve_unit(d, &units.unit[u], s->address, order, owned, s->left);
		reopen_if_large(d);
	}
	/* Units without ranges get the addresses that no unit has claimed. */
	for (size_t u = 0; u < units.count && d->dbg; u++) {
		size_t owned;

		if (!units.unit[u].no_ranges)
			continue;
		owned = gather(NONE, s->owner, address, count, s->address, s->index);
		if (!owned)
			break;
		if (!resolve_unit(d, &units.unit[u], s->address, s->index, owned, s->left))
			continue;
		for (size_t i = 0; i < owned; i++) {
			if (!s->left[i])
				s->owner[s->index[i]] = (uint32_t)u;
		}
		reopen_if_large(d);
	}
out:
	free(units.unit);
}

void dwarf_index_resolve(struct elf_file *file, struct elf_file *alt, const char *path,
			 const struct debug_files *files, struct demangle *names,
			 const uint64_t *address, size_t count, dwarf_index_found *found,
			 void *context)
{
	struct dwarf d = {
	    .file = file, .alt_file = alt, .names = names, .found = found, .context = context};
	struct scratch s = {0};

	if (!count)
		return;
	d.dbg = dwarf_begin_elf(file->elf, DWARF_C_READ, NULL);
	if (!d.dbg)
		return;
	d.alt = dwarf_alt_open(d.dbg, alt, path, files);
	set_alt(&d);
	dwarf_lines_sections(&d.line_sections, file->elf);
	if (scratch_new(&s, count))
		resolve_all(&d, address, count, &s);
	scratch_free(&s);
	memo_clear(&d.memo);
	if (d.dbg)
		dwarf_end(d.dbg);
	if (d.alt)
		dwarf_end(d.alt);
}
