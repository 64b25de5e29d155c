/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries of DWARF and what they are called. DWARF is not to be trusted: every walk is bounded, and goes forward
 * only.
 */
#ifndef MAYFLY_DEBUG_NAMES_H
#define MAYFLY_DEBUG_NAMES_H

#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DEBUG_DEPTH_MOST 32u /* of entries in each other, and of types of types */
#define DEBUG_NAME	 400u

/* The next entry beside this one. */
bool debug_next(Dwarf_Die *die);
/* The type that an attribute of the entry leads to. */
bool debug_type_of(Dwarf_Die *die, Dwarf_Die *type);
bool debug_is_declaration(Dwarf_Die *die);
/* Goes through typedefs and qualifiers. alias: the first typedef's name, or NULL. False: there is
 * no type there: void. */
bool debug_strip(Dwarf_Die *type, const char **alias);
/* The argument of a template with this name. */
bool debug_argument(Dwarf_Die *type, const char *name, Dwarf_Die *argument);

/* A readable name without what the library's templates have by default: "std::map<int, std::string>". Returns the
 * buffer. */
char *debug_name(char *buffer, size_t size, Dwarf_Die *type);

/* A hash of a name and what it is in, for entries of all units: of `name` in what has the hash `outer`. */
uint64_t debug_name_hash(uint64_t outer, const char *name);
/* That of an entry, from the unit on. */
uint64_t debug_hash_of(Dwarf_Die *die);

/* The library's own types with pointers that lose their types. */
enum debug_container {
	DEBUG_NO_CONTAINER,
	DEBUG_NAMED, /* a map, set or list: what has one of the following inside */
	DEBUG_TREE,
	DEBUG_HASH_TABLE,
	DEBUG_LIST,
	DEBUG_FORWARD_LIST,
	DEBUG_VECTOR,
	DEBUG_STRING,
	DEBUG_LINK, /* what their nodes begin with */
};
enum debug_container debug_container_of(Dwarf_Die *type);

#endif
