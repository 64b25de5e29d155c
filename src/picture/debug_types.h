/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What debug information declares of the variables of a process and of the types that they lead to. A module's is
 * opened when one of its variables points to a block, a type is read when a block of it is found.
 *
 *	debug_types	files, and what is known so far
 *	debug_variables	the variables that point to blocks, and where types are defined
 *	debug_layouts	where pointers are in a type
 *	debug_names	what types are called
 */
#ifndef MAYFLY_DEBUG_TYPES_H
#define MAYFLY_DEBUG_TYPES_H

#include "base/interner.h"
#include "heap/heap_layouts.h"
#include "picture/debug_names.h"
#include "picture/holder_list.h"

/* What a layout is made from. */
enum debug_making {
	DEBUG_PLAIN,	 /* the type itself */
	DEBUG_TREE_NODE, /* a node with a value of the type */
	DEBUG_HASH_NODE,
	DEBUG_LIST_NODE,
	DEBUG_FORWARD_NODE,
	DEBUG_BUCKETS, /* pointers to nodes of a hash table */
	DEBUG_MAKINGS
};

struct debug_made {
	Dwarf_Die type;
	const char *name;
	enum debug_making making;
	uint32_t node; /* of buckets: the layout of what they point to */
};

struct debug_module {
	const struct loaded_module *module;
	struct elf_file main, debug, alt;
	Dwarf *dwarf, *alt_dwarf;
};

struct debug_types {
	struct heap_layouts layouts; /* its context leads here */
	const struct loaded_modules *modules;
	const struct holder_list *holders;
	const struct debug_files *files;
	struct demangle *names;
	struct debug_module *module;
	size_t module_count, module_capacity;
	struct debug_made *made; /* of each layout */
	size_t made_capacity;
	struct interner keys;	 /* of layouts: name, size, line, making */
	struct interner entries; /* addresses of entries whose layout is known */
	uint32_t *entry_layout;	 /* of each; INTERNER_NONE: it has none */
	size_t entry_capacity;
	struct interner defined; /* hashes of names of types */
	Dwarf_Die *definition;	 /* of each */
	size_t definition_capacity;
};

/* All must outlive the types. */
void debug_types_begin(struct debug_types *d, const struct loaded_modules *modules,
		       const struct holder_list *holders, const struct debug_files *files,
		       struct demangle *names);
/* Closes the files; layouts and their names stay. */
void debug_types_close(struct debug_types *d);
void debug_types_free(struct debug_types *d);

#endif
