/* SPDX-License-Identifier: Apache-2.0 */
/* Where pointers are in a type: see debug_layouts.h. */
#include "picture/debug_layouts.h"

#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#include "answer/text_format.h"
#include "base/array.h"
#include "base/hash.h"

#define SLOTS_MOST   4096u
#define MEMBERS_MOST 65536u /* looked at for one layout */
#define POINTER	     8u
#define STRING_BYTES 32u
#define BYTES_MOST   (1ull << 40) /* of a type */

/* Where the library has what in its containers. */
#define TREE_BYTES   48u
#define TREE_HEADER  8u
#define HASH_BUCKETS 0u
#define HASH_FIRST   16u

/* Nodes of the library: links to others, also in the header of a container, and then a value. */
static const struct node_shape {
	uint64_t link[3];
	unsigned int links;
	uint64_t value;
} node_shapes[DEBUG_MAKINGS] = {
    [DEBUG_TREE_NODE] = {{8, 16, 24}, 3, 32}, /* behind a colour: parent, left, right */
    [DEBUG_HASH_NODE] = {{0}, 1, 8},
    [DEBUG_LIST_NODE] = {{0, 8}, 2, 16},
    [DEBUG_FORWARD_NODE] = {{0}, 1, 8},
};

struct building {
	struct debug_types *d;
	struct heap_slot *slot;
	size_t slots, capacity;
	unsigned int members;
	Dwarf_Die container; /* the outermost that the members are in */
	bool in_container, open_end;
	bool out_of_memory;
};

/* ---- types ---- */

/* The entry that defines a type, of one that only says that it exists. */
static void define(const struct debug_types *d, Dwarf_Die *type)
{
	uint32_t at;

	if (!debug_is_declaration(type))
		return;
	at = interner_find(&d->defined, (struct key){{debug_hash_of(type)}});
	if (at != INTERNER_NONE)
		*type = d->definition[at];
}

static uint64_t bytes_of(const struct debug_types *d, Dwarf_Die *type)
{
	Dwarf_Die at = *type;
	const char *alias;
	Dwarf_Word bytes;

	if (!debug_strip(&at, &alias))
		return 0;
	define(d, &at);
	/* Compilers that leave its definition to the library. */
	if (debug_is_declaration(&at))
		return debug_container_of(&at) == DEBUG_STRING ? STRING_BYTES : 0;
	return dwarf_aggregate_size(&at, &bytes) || bytes > BYTES_MOST ? 0 : bytes;
}

static uint32_t add_layout(struct debug_types *d, const struct debug_made *made, uint64_t bytes,
			   int line)
{
	struct heap_layouts *l = &d->layouts;
	struct key key = {
	    {hash_string(made->name), bytes, (uint64_t)(unsigned int)line, made->making}};
	bool is_new;
	uint32_t at;

	if (d->keys.count >= HEAP_LAYOUTS_MOST)
		return interner_find(&d->keys, key);
	at = interner_add(&d->keys, key, &is_new);
	if (at == INTERNER_NONE ||
	    !array_reserve(&l->layout, &l->capacity, at, sizeof(*l->layout)) ||
	    !array_reserve(&d->made, &d->made_capacity, at, sizeof(*d->made)))
		return INTERNER_NONE;
	if (is_new) {
		l->layout[at] = (struct heap_layout){.bytes = bytes};
		d->made[at] = *made;
		l->count++;
	}
	return at;
}

/* stripped: what is behind the type's typedefs. */
static bool make_layout(struct debug_types *d, Dwarf_Die *type, const Dwarf_Die *stripped,
			uint32_t *layout)
{
	struct debug_made made = {.type = *stripped};
	char name[DEBUG_NAME];
	int line = 0;

	define(d, &made.type);
	debug_name(name, sizeof(name), type);
	made.name = demangle_intern(d->names, name, strlen(name));
	if (!made.name)
		return false;
	dwarf_decl_line(&made.type, &line);
	*layout = add_layout(d, &made, bytes_of(d, &made.type), line);
	return *layout != INTERNER_NONE || d->keys.count >= HEAP_LAYOUTS_MOST;
}

bool debug_layouts_find(struct debug_types *d, Dwarf_Die *type, uint32_t *layout)
{
	Dwarf_Die at = *type;
	const char *alias;
	bool is_new;
	uint32_t entry;

	*layout = INTERNER_NONE;
	entry = interner_add(&d->entries, (struct key){{(uintptr_t)type->addr}}, &is_new);
	if (entry == INTERNER_NONE ||
	    !array_reserve(&d->entry_layout, &d->entry_capacity, entry, sizeof(*d->entry_layout)))
		return false;
	if (is_new) {
		if (debug_strip(&at, &alias) && dwarf_tag(&at) != DW_TAG_subroutine_type &&
		    !make_layout(d, type, &at, layout))
			return false;
		d->entry_layout[entry] = *layout;
	}
	*layout = d->entry_layout[entry];
	return true;
}

/* ---- slots ---- */

static void add_slot(struct building *b, struct heap_slot slot)
{
	if (b->slots >= SLOTS_MOST || slot.layout == INTERNER_NONE || slot.offset > BYTES_MOST)
		return;
	if (!ARRAY_ADD(b->slot, b->capacity, b->slots, slot))
		b->out_of_memory = true;
}

static void add_one(struct building *b, uint64_t offset, uint32_t layout, enum heap_slot_to to)
{
	add_slot(b,
		 (struct heap_slot){
		     .offset = offset, .stride = POINTER, .count = 1, .layout = layout, .to = to});
}

static void add_pointer(struct building *b, uint64_t offset, Dwarf_Die *to)
{
	enum heap_slot_to kind = HEAP_TO_SOME;
	Dwarf_Die at = *to;
	const char *alias;
	uint32_t layout;

	if (!debug_strip(&at, &alias) || debug_container_of(&at) == DEBUG_LINK)
		return;
	if (dwarf_tag(&at) == DW_TAG_base_type && bytes_of(b->d, &at) == 1)
		kind = HEAP_TO_BYTES;
	if (!debug_layouts_find(b->d, to, &layout))
		b->out_of_memory = true;
	else
		add_one(b, offset, layout, kind);
}

static void add_type(struct building *b, Dwarf_Die *type, uint64_t offset, unsigned int depth);

/* ---- containers ---- */

static uint64_t rounded_up(uint64_t bytes)
{
	return (bytes + POINTER - 1) / POINTER * POINTER;
}

/* The layout of a node, or of buckets, of the container that is being looked at. */
static uint32_t made_for(struct building *b, Dwarf_Die *container, Dwarf_Die *value,
			 enum debug_making making, uint64_t bytes, uint32_t node)
{
	struct debug_made made = {.type = *value, .making = making, .node = node};
	char name[DEBUG_NAME];
	uint32_t layout;

	debug_name(name, sizeof(name), b->in_container ? &b->container : container);
	text_append(name, sizeof(name), making == DEBUG_BUCKETS ? " buckets" : " node");
	made.name = demangle_intern(b->d->names, name, strlen(name));
	layout = made.name ? add_layout(b->d, &made, bytes, 0) : INTERNER_NONE;
	b->out_of_memory |= layout == INTERNER_NONE && b->d->keys.count < HEAP_LAYOUTS_MOST;
	return layout;
}

/* The layout of a node with a value. */
static uint32_t node_for(struct building *b, Dwarf_Die *container, Dwarf_Die *value,
			 enum debug_making making)
{
	return made_for(b, container, value, making,
			node_shapes[making].value + rounded_up(bytes_of(b->d, value)), 0);
}

static void add_links(struct building *b, uint64_t offset, enum debug_making making, uint32_t node)
{
	for (unsigned int i = 0; i < node_shapes[making].links; i++)
		add_one(b, offset + node_shapes[making].link[i], node, HEAP_TO_ONE);
}

static void add_tree(struct building *b, Dwarf_Die *type, uint64_t offset, Dwarf_Die *value)
{
	uint64_t bytes = bytes_of(b->d, type);

	/* A comparison that has members comes first. */
	offset += TREE_HEADER + (bytes > TREE_BYTES ? bytes - TREE_BYTES : 0);
	add_links(b, offset, DEBUG_TREE_NODE, node_for(b, type, value, DEBUG_TREE_NODE));
}

static void add_hash_table(struct building *b, Dwarf_Die *type, uint64_t offset, Dwarf_Die *value)
{
	uint32_t node = node_for(b, type, value, DEBUG_HASH_NODE);
	uint32_t buckets = made_for(b, type, value, DEBUG_BUCKETS, POINTER, node);

	add_one(b, offset + HASH_BUCKETS, buckets, HEAP_TO_ONE);
	add_one(b, offset + HASH_FIRST, node, HEAP_TO_ONE);
}

static void add_list(struct building *b, Dwarf_Die *type, uint64_t offset, Dwarf_Die *value,
		     enum debug_making making)
{
	add_links(b, offset, making, node_for(b, type, value, making));
}

static void add_vector(struct building *b, uint64_t offset, Dwarf_Die *value)
{
	uint32_t layout;

	if (!debug_layouts_find(b->d, value, &layout))
		b->out_of_memory = true;
	else
		add_one(b, offset, layout, HEAP_TO_ARRAY);
}

/* A string's characters are at its begin. */
static void add_string(struct building *b, Dwarf_Die *type, uint64_t offset)
{
	Dwarf_Die character;
	uint32_t layout;

	if (!debug_argument(type, "_CharT", &character))
		return;
	if (!debug_layouts_find(b->d, &character, &layout))
		b->out_of_memory = true;
	else
		add_one(b, offset, layout, HEAP_TO_ARRAY);
}

/* False: it is none, or its arguments are not known. */
static bool add_container(struct building *b, Dwarf_Die *type, uint64_t offset)
{
	enum debug_container container = debug_container_of(type);
	Dwarf_Die value;

	switch (container) {
	case DEBUG_NO_CONTAINER:
	case DEBUG_NAMED:
	case DEBUG_LINK:
		return false;
	case DEBUG_STRING:
		add_string(b, type, offset);
		return true;
	case DEBUG_TREE:
		if (!debug_argument(type, "_Val", &value))
			return false;
		add_tree(b, type, offset, &value);
		return true;
	case DEBUG_HASH_TABLE:
		if (!debug_argument(type, "_Value", &value))
			return false;
		add_hash_table(b, type, offset, &value);
		return true;
	case DEBUG_LIST:
	case DEBUG_FORWARD_LIST:
	case DEBUG_VECTOR:
		break;
	}
	if (!debug_argument(type, "_Tp", &value))
		return false;
	if (container == DEBUG_LIST)
		add_list(b, type, offset, &value, DEBUG_LIST_NODE);
	else if (container == DEBUG_FORWARD_LIST)
		add_list(b, type, offset, &value, DEBUG_FORWARD_NODE);
	else
		add_vector(b, offset, &value);
	return true;
}

/* ---- members ---- */

/* False: it has no fixed place. */
static bool place_of(Dwarf_Die *member, uint64_t *offset)
{
	Dwarf_Attribute attribute;
	Dwarf_Word at;

	*offset = 0;
	if (!dwarf_attr(member, DW_AT_data_member_location, &attribute))
		return !dwarf_hasattr(member, DW_AT_external) &&
		       !dwarf_hasattr(member, DW_AT_data_bit_offset);
	if (dwarf_formudata(&attribute, &at) || at > BYTES_MOST)
		return false;
	*offset = at;
	return true;
}

static void add_members(struct building *b, Dwarf_Die *type, uint64_t offset, unsigned int depth)
{
	Dwarf_Die member, of;
	uint64_t at;

	if (dwarf_child(type, &member))
		return;
	do {
		int tag = dwarf_tag(&member);

		if (b->members++ >= MEMBERS_MOST)
			return;
		if ((tag == DW_TAG_member || tag == DW_TAG_inheritance) &&
		    !debug_is_declaration(&member) && place_of(&member, &at) &&
		    debug_type_of(&member, &of))
			add_type(b, &of, offset + at, depth + 1);
	} while (debug_next(&member) && !b->out_of_memory);
}

/* Only one member may have pointers. */
static void add_union(struct building *b, Dwarf_Die *type, uint64_t offset, unsigned int depth)
{
	size_t before = b->slots, kept = before;
	Dwarf_Die member, of;

	if (dwarf_child(type, &member))
		return;
	do {
		if (b->members++ >= MEMBERS_MOST)
			return;
		if (dwarf_tag(&member) != DW_TAG_member || !debug_type_of(&member, &of))
			continue;
		add_type(b, &of, offset, depth + 1);
		if (b->slots > kept && kept > before) {
			b->slots = before;
			return;
		}
		kept = b->slots;
	} while (debug_next(&member) && !b->out_of_memory);
}

/* ---- arrays ---- */

/* How many elements it has; HEAP_TO_THE_END: it does not say. */
static uint64_t elements_of(Dwarf_Die *type)
{
	uint64_t all = 1;
	Dwarf_Die range;

	if (dwarf_child(type, &range))
		return HEAP_TO_THE_END;
	do {
		Dwarf_Attribute attribute;
		Dwarf_Word count;

		if (dwarf_tag(&range) != DW_TAG_subrange_type)
			continue;
		if (dwarf_attr(&range, DW_AT_count, &attribute)) {
			if (dwarf_formudata(&attribute, &count))
				return HEAP_TO_THE_END;
		} else if (!dwarf_attr(&range, DW_AT_upper_bound, &attribute) ||
			   dwarf_formudata(&attribute, &count) ||
			   __builtin_add_overflow(count, 1, &count)) {
			return HEAP_TO_THE_END;
		}
		if (__builtin_mul_overflow(all, count, &all))
			return HEAP_TO_THE_END;
	} while (debug_next(&range));
	return all ? all : HEAP_TO_THE_END;
}

/* Repeats what one element has, from slot `first` on. */
static void repeat(struct building *b, size_t first, uint64_t bytes, uint64_t count)
{
	size_t end = b->slots;

	for (size_t i = first; i < end; i++) {
		struct heap_slot slot = b->slot[i];

		if (slot.count == 1) {
			b->slot[i].stride = bytes;
			b->slot[i].count = count;
		} else if (slot.count != HEAP_TO_THE_END && count != HEAP_TO_THE_END &&
			   slot.stride * slot.count == bytes &&
			   !__builtin_mul_overflow(slot.count, count, &slot.count)) {
			b->slot[i].count = slot.count;
		} else {
			for (uint64_t k = 1;
			     k < count && b->slots < SLOTS_MOST && !b->out_of_memory; k++) {
				slot.offset += bytes;
				add_slot(b, slot);
			}
		}
	}
}

static void add_array(struct building *b, Dwarf_Die *type, uint64_t offset, unsigned int depth)
{
	uint64_t count = elements_of(type), bytes;
	size_t first = b->slots;
	Dwarf_Die element;

	if (count == HEAP_TO_THE_END)
		b->open_end = true;
	if (!debug_type_of(type, &element))
		return;
	bytes = bytes_of(b->d, &element);
	add_type(b, &element, offset, depth + 1);
	if (bytes < POINTER)
		b->slots = first;
	else
		repeat(b, first, bytes, count);
}

static void add_record(struct building *b, Dwarf_Die *type, uint64_t offset, unsigned int depth)
{
	bool outermost = !b->in_container && debug_container_of(type) == DEBUG_NAMED;

	if (outermost) {
		b->container = *type;
		b->in_container = true;
	}
	if (!add_container(b, type, offset))
		add_members(b, type, offset, depth);
	if (outermost)
		b->in_container = false;
}

/* A type at an offset. */
static void add_type(struct building *b, Dwarf_Die *type, uint64_t offset, unsigned int depth)
{
	Dwarf_Die at = *type, to;
	const char *alias;

	if (depth > DEBUG_DEPTH_MOST || offset > BYTES_MOST || !debug_strip(&at, &alias))
		return;
	switch (dwarf_tag(&at)) {
	case DW_TAG_pointer_type:
	case DW_TAG_reference_type:
	case DW_TAG_rvalue_reference_type:
		if (debug_type_of(&at, &to))
			add_pointer(b, offset, &to);
		break;
	case DW_TAG_structure_type:
	case DW_TAG_class_type:
		define(b->d, &at);
		add_record(b, &at, offset, depth);
		break;
	case DW_TAG_union_type:
		define(b->d, &at);
		add_union(b, &at, offset, depth);
		break;
	case DW_TAG_array_type:
		add_array(b, &at, offset, depth);
		break;
	default:
		break;
	}
}

bool debug_layouts_complete(struct heap_layouts *l, uint32_t layout)
{
	struct debug_types *d = l->context;
	struct debug_made made = d->made[layout];
	struct building b = {.d = d};
	Dwarf_Die type = made.type;

	l->layout[layout].complete = true;
	switch (made.making) {
	case DEBUG_PLAIN:
		add_type(&b, &type, 0, 0);
		break;
	case DEBUG_TREE_NODE:
	case DEBUG_HASH_NODE:
	case DEBUG_LIST_NODE:
	case DEBUG_FORWARD_NODE:
		add_links(&b, 0, made.making, layout);
		add_type(&b, &type, node_shapes[made.making].value, 0);
		break;
	case DEBUG_BUCKETS:
		add_slot(&b, (struct heap_slot){.stride = POINTER,
						.count = HEAP_TO_THE_END,
						.layout = made.node,
						.to = HEAP_TO_ONE});
		break;
	case DEBUG_MAKINGS:
		break;
	}
	if (b.out_of_memory) {
		free(b.slot);
		return false;
	}
	l->layout[layout].slot = b.slot;
	l->layout[layout].slots = b.slots;
	l->layout[layout].open_end = b.open_end || made.making == DEBUG_BUCKETS;
	return true;
}
