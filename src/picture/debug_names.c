/* SPDX-License-Identifier: Apache-2.0 */
/* Entries of DWARF and what they are called: see debug_names.h. */
#include "picture/debug_names.h"

#include <dwarf.h>
#include <string.h>

#include "answer/text_format.h"
#include "base/hash.h"
#include "symbols/dwarf_language.h"

#define STD	  "std"
#define ANONYMOUS "(anonymous namespace)"
#define UNNAMED	  "(unnamed)"

bool debug_next(Dwarf_Die *die)
{
	Dwarf_Off before = dwarf_dieoffset(die);

	return !dwarf_siblingof(die, die) && dwarf_dieoffset(die) > before;
}

bool debug_type_of(Dwarf_Die *die, Dwarf_Die *type)
{
	Dwarf_Attribute attribute;

	return dwarf_attr_integrate(die, DW_AT_type, &attribute) &&
	       dwarf_formref_die(&attribute, type);
}

bool debug_is_declaration(Dwarf_Die *die)
{
	return dwarf_hasattr(die, DW_AT_declaration);
}

/* A type in a unit of its own, which only its signature leads to. */
static void follow_signature(Dwarf_Die *type)
{
	Dwarf_Attribute signature;
	Dwarf_Die defined;

	if (dwarf_attr(type, DW_AT_signature, &signature) &&
	    dwarf_formref_die(&signature, &defined))
		*type = defined;
}

bool debug_strip(Dwarf_Die *type, const char **alias)
{
	*alias = NULL;
	for (unsigned int i = 0; i < DEBUG_DEPTH_MOST; i++) {
		Dwarf_Die at = *type;

		switch (dwarf_tag(type)) {
		case DW_TAG_typedef:
			*alias = *alias ? *alias : dwarf_diename(type);
			break;
		case DW_TAG_const_type:
		case DW_TAG_volatile_type:
		case DW_TAG_restrict_type:
		case DW_TAG_atomic_type:
			break;
		default:
			follow_signature(type);
			return true;
		}
		if (!debug_type_of(&at, type))
			return false;
	}
	return false;
}

/* ---- what an entry is in ---- */

/* One step from an entry towards one that is in it. */
static bool step_in(Dwarf_Die *at, Dwarf_Off wanted)
{
	Dwarf_Die last, next;

	if (dwarf_child(at, &last))
		return false;
	for (next = last; debug_next(&next) && dwarf_dieoffset(&next) <= wanted;)
		last = next;
	*at = last;
	return true;
}

struct scopes {
	Dwarf_Die scope[DEBUG_DEPTH_MOST];
	unsigned int count;
};

/* The namespaces and classes that an entry is in, the outermost first. */
static void find_scopes(Dwarf_Die *die, struct scopes *s)
{
	Dwarf_Attribute specification;
	Dwarf_Die declared = *die, at;
	Dwarf_Off wanted;

	/* What is defined elsewhere is in what its declaration is in. */
	if (dwarf_attr(die, DW_AT_specification, &specification) &&
	    !dwarf_formref_die(&specification, &declared))
		declared = *die;
	wanted = dwarf_dieoffset(&declared);
	s->count = 0;
	if (!dwarf_diecu(&declared, &at, NULL, NULL) || !dwarf_has_qualified_names(&at))
		return;
	while (s->count < DEBUG_DEPTH_MOST && step_in(&at, wanted) && dwarf_dieoffset(&at) < wanted)
		switch (dwarf_tag(&at)) {
		case DW_TAG_namespace:
		case DW_TAG_structure_type:
		case DW_TAG_class_type:
		case DW_TAG_union_type:
			s->scope[s->count++] = at;
			break;
		default:
			break;
		}
}

static bool is_inline(Dwarf_Die *scope, const char *name)
{
	return dwarf_hasattr(scope, DW_AT_export_symbols) ||
	       (name && (!strcmp(name, "__cxx11") || !strcmp(name, "_V2")));
}

static bool is_in_std(Dwarf_Die *type)
{
	struct scopes s;
	const char *name;

	find_scopes(type, &s);
	name = s.count ? dwarf_diename(&s.scope[0]) : NULL;
	return name && !strcmp(name, STD);
}

uint64_t debug_name_hash(uint64_t outer, const char *name)
{
	return hash_mix(outer * 31 + hash_string(name ? name : ""));
}

uint64_t debug_hash_of(Dwarf_Die *die)
{
	struct scopes s;
	uint64_t hash = 0;

	find_scopes(die, &s);
	for (unsigned int i = 0; i < s.count; i++)
		hash = debug_name_hash(hash, dwarf_diename(&s.scope[i]));
	return debug_name_hash(hash, dwarf_diename(die));
}

/* ---- templates of the library ---- */

/* How long a name is without the arguments of its template. */
static size_t bare_length(const char *name)
{
	return strcspn(name, "<");
}

static bool is_named(const char *name, const char *wanted)
{
	size_t length = strlen(wanted);

	return bare_length(name) == length && !strncmp(name, wanted, length);
}

enum debug_container debug_container_of(Dwarf_Die *type)
{
	static const struct {
		const char *name;
		enum debug_container container;
	} known[] = {
	    {"_Rb_tree", DEBUG_TREE},
	    {"_Hashtable", DEBUG_HASH_TABLE},
	    {"_List_base", DEBUG_LIST},
	    {"_Fwd_list_base", DEBUG_FORWARD_LIST},
	    {"_Vector_base", DEBUG_VECTOR},
	    {"basic_string", DEBUG_STRING},
	    {"_Rb_tree_node_base", DEBUG_LINK},
	    {"_Hash_node_base", DEBUG_LINK},
	    {"_List_node_base", DEBUG_LINK},
	    {"_Fwd_list_node_base", DEBUG_LINK},
	    {"map", DEBUG_NAMED},
	    {"multimap", DEBUG_NAMED},
	    {"set", DEBUG_NAMED},
	    {"multiset", DEBUG_NAMED},
	    {"unordered_map", DEBUG_NAMED},
	    {"unordered_multimap", DEBUG_NAMED},
	    {"unordered_set", DEBUG_NAMED},
	    {"unordered_multiset", DEBUG_NAMED},
	    {"list", DEBUG_NAMED},
	    {"forward_list", DEBUG_NAMED},
	};
	const char *name = dwarf_diename(type);

	for (size_t i = 0; name && i < sizeof(known) / sizeof(*known); i++)
		if (is_named(name, known[i].name))
			return is_in_std(type) ? known[i].container : DEBUG_NO_CONTAINER;
	return DEBUG_NO_CONTAINER;
}

/* How many arguments of a template of the library say what it is; 0: all. */
static unsigned int telling_arguments(const char *name)
{
	static const char *const two[] = {"map", "multimap", "unordered_map", "unordered_multimap"};
	static const char *const one[] = {
	    "vector", "list",	       "forward_list",	     "deque",	   "set",   "multiset",
	    "queue",  "unordered_set", "unordered_multiset", "unique_ptr", "stack", "basic_string"};

	for (size_t i = 0; i < sizeof(two) / sizeof(*two); i++)
		if (is_named(name, two[i]))
			return 2;
	for (size_t i = 0; i < sizeof(one) / sizeof(*one); i++)
		if (is_named(name, one[i]))
			return 1;
	return 0;
}

bool debug_argument(Dwarf_Die *type, const char *name, Dwarf_Die *argument)
{
	Dwarf_Die child;

	if (dwarf_child(type, &child))
		return false;
	do {
		const char *has = dwarf_tag(&child) == DW_TAG_template_type_parameter
				      ? dwarf_diename(&child)
				      : NULL;

		if (has && !strcmp(has, name))
			return debug_type_of(&child, argument);
	} while (debug_next(&child));
	return false;
}

/* ---- names ---- */

static void append_type(char *buffer, size_t size, Dwarf_Die *type, unsigned int depth);

static void append_arguments(char *buffer, size_t size, Dwarf_Die *type, unsigned int most,
			     unsigned int depth)
{
	unsigned int count = 0;
	Dwarf_Die child, argument;

	text_append(buffer, size, "<");
	if (!dwarf_child(type, &child))
		do {
			if (dwarf_tag(&child) != DW_TAG_template_type_parameter)
				continue;
			if (count++ == most)
				break;
			text_append(buffer, size, "%s", count > 1 ? ", " : "");
			if (debug_type_of(&child, &argument))
				append_type(buffer, size, &argument, depth + 1);
			else
				text_append(buffer, size, "void");
		} while (debug_next(&child));
	text_append(buffer, size, ">");
}

static void append_scopes(char *buffer, size_t size, Dwarf_Die *type)
{
	struct scopes s;

	find_scopes(type, &s);
	for (unsigned int i = 0; i < s.count; i++) {
		const char *name = dwarf_diename(&s.scope[i]);

		if (!is_inline(&s.scope[i], name))
			text_append(buffer, size, "%s::", name ? name : ANONYMOUS);
	}
}

static void append_record(char *buffer, size_t size, Dwarf_Die *type, const char *name,
			  unsigned int depth)
{
	unsigned int telling;
	Dwarf_Die of;
	const char *alias;

	append_scopes(buffer, size, type);
	telling = strchr(name, '<') ? telling_arguments(name) : 0;
	if (!telling || !is_in_std(type)) {
		text_append(buffer, size, "%s", name);
		return;
	}
	if (is_named(name, "basic_string") && debug_argument(type, "_CharT", &of) &&
	    debug_strip(&of, &alias) && dwarf_diename(&of) && !strcmp(dwarf_diename(&of), "char")) {
		text_append(buffer, size, "string");
		return;
	}
	text_append(buffer, size, "%.*s", (int)bare_length(name), name);
	append_arguments(buffer, size, type, telling, depth);
}

/* "unsigned long" for "long unsigned int", as C++ names have it. */
static void append_base(char *buffer, size_t size, const char *name)
{
	const char *sign = strstr(name, "unsigned "), *rest = strstr(name, " int");
	size_t length = strlen(name);

	if (strncmp(name, "long ", 5) != 0 && strncmp(name, "short ", 6) != 0) {
		text_append(buffer, size, "%s", name);
		return;
	}
	if (rest && !rest[4])
		length -= 4;
	if (!sign) {
		text_append(buffer, size, "%.*s", (int)length, name);
		return;
	}
	/* "long unsigned" has no " int" in front of its sign. */
	text_append(buffer, size, "unsigned %.*s", (int)(sign - name - 1), name);
}

static bool ends_with_star(const char *text)
{
	size_t length = strlen(text);

	return length && text[length - 1] == '*';
}

static void append_type(char *buffer, size_t size, Dwarf_Die *type, unsigned int depth)
{
	Dwarf_Die at = *type, to;
	const char *alias, *name;

	/* Names of types in each other end where the buffer does. */
	if (strlen(buffer) + 1 == size)
		return;
	if (depth > DEBUG_DEPTH_MOST || !debug_strip(&at, &alias)) {
		text_append(buffer, size, "void");
		return;
	}
	switch (dwarf_tag(&at)) {
	case DW_TAG_pointer_type:
	case DW_TAG_reference_type:
	case DW_TAG_rvalue_reference_type:
	case DW_TAG_array_type:
		if (debug_type_of(&at, &to))
			append_type(buffer, size, &to, depth + 1);
		else
			text_append(buffer, size, "void");
		if (dwarf_tag(&at) == DW_TAG_array_type)
			text_append(buffer, size, "[]");
		else
			text_append(buffer, size, "%s", ends_with_star(buffer) ? "*" : " *");
		return;
	case DW_TAG_subroutine_type:
		text_append(buffer, size, "function");
		return;
	default:
		break;
	}
	name = dwarf_diename(&at);
	name = name ? name : alias;
	name = name && *name ? name : UNNAMED;
	if (dwarf_tag(&at) == DW_TAG_base_type)
		append_base(buffer, size, name);
	else
		append_record(buffer, size, &at, name, depth);
}

char *debug_name(char *buffer, size_t size, Dwarf_Die *type)
{
	*buffer = '\0';
	append_type(buffer, size, type, 0);
	return buffer;
}
