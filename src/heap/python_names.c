/* SPDX-License-Identifier: Apache-2.0 */
/* Names that hold Python's objects: see python_names.h. */
#include "heap/python_names.h"

#include <string.h>

#include "heap/python_frames.h"
#include "heap/python_holders.h"

/* PyModuleObject (Include/internal/pycore_moduleobject.h) and PyTypeObject, from 3.11 to 3.13. */
#define MODULE_DICT 16u
#define MODULE_NAME 48u
#define CLASS_DICT  264u
#define FULL_NAME   (4 * PYTHON_NAME)

/* ---- modules and classes ---- */

struct namespace
{
	uint64_t object, dict;
	enum python_what what;
	char name[2 * PYTHON_NAME + 2];
};

static uint32_t block_of(const struct python_objects *o, uint64_t address)
{
	uint64_t offset;

	return heap_blocks_find(o->types.blocks, address, &offset);
}

static enum python_what what_at(const struct python_objects *o, uint64_t object)
{
	uint32_t block = block_of(o, object);

	return block != HEAP_NONE && o->state[block] & PYTHON_IS_OBJECT
		   ? o->types.type[o->type[block] - 1].what
		   : PYTHON_OTHER;
}

/* The module or the class in a block, if it is one. */
static bool read_namespace(struct python_objects *o, uint32_t block, uint64_t address,
			   struct namespace *n)
{
	const struct python_type *t;
	uint64_t name;
	uint32_t type;

	if (!(o->state[block] & PYTHON_IS_OBJECT))
		return false;
	t = &o->types.type[o->type[block] - 1];
	/* Most blocks end here. */
	if (t->what != PYTHON_MODULE && t->what != PYTHON_CLASS)
		return false;
	n->object = address + t->head;
	n->what = t->what;
	if (t->what == PYTHON_MODULE) {
		if (!python_read_word(&o->reader, n->object + MODULE_DICT, &n->dict))
			return false;
		if (!python_read_word(&o->reader, n->object + MODULE_NAME, &name) ||
		    !python_read_text(&o->reader, name, n->name, sizeof(n->name)))
			python_read_join(n->name, sizeof(n->name), "a module", "", "");
	} else {
		type = python_types_find(&o->types, n->object);
		if (type == HEAP_NONE ||
		    !python_read_word(&o->reader, n->object + CLASS_DICT, &n->dict))
			return false;
		python_read_join(n->name, sizeof(n->name), o->types.name[o->types.type[type].name],
				 "", "");
	}
	return what_at(o, n->dict) == PYTHON_DICT;
}

/* The table of a namespace, and the block that it is in; HEAP_NONE: it is none that can be read. */
static uint32_t find_table(struct python_objects *o, uint64_t dict, struct python_table *t)
{
	const struct heap_blocks *b = o->types.blocks;
	const struct heap_region *r;
	uint32_t block;
	uint64_t end, most;

	if (!python_read_table(&o->reader, dict, t))
		return HEAP_NONE;
	block = block_of(o, t->at);
	if (block == HEAP_NONE || o->state[block] & PYTHON_IS_OBJECT)
		return HEAP_NONE;
	r = &b->region[heap_blocks_region(b, block, 0)];
	end = heap_block_address(b, r, block) + heap_block_bytes(b, r, block);
	if (t->entries_at > end)
		return HEAP_NONE;
	most = (end - t->entries_at) / t->entry_bytes;
	t->entries = t->entries < most ? t->entries : most;
	return block;
}

/* A module holds its dictionary and the names in it, and what they stand for has holders of its own. */
static bool take_namespace(struct python_objects *o, const struct namespace *n)
{
	char text[FULL_NAME];
	struct python_table t;
	uint32_t dict = block_of(o, n->dict), table = find_table(o, n->dict, &t);

	/* A table that many dictionaries say is theirs would count for each of them. */
	if (table == HEAP_NONE || o->state[table] & PYTHON_IS_NAMESPACE)
		return true;
	o->state[dict] |= PYTHON_IS_NAMESPACE;
	o->state[table] |= PYTHON_IS_NAMESPACE;
	python_read_join(text, sizeof(text), n->what == PYTHON_MODULE ? "module " : "class ",
			 n->name, "");
	if (!python_holders_add(o, text, PYTHON_RANK_NAMESPACE) ||
	    !python_holders_add_value(o, n->object))
		return false;
	for (uint64_t i = 0; i < t.entries; i++) {
		uint64_t key, value;

		if (python_read_entry(&o->reader, &t, i, &key, &value) &&
		    !python_holders_add_value(o, key))
			return false;
	}
	return true;
}

/* Modules and classes are holders themselves. */
static bool is_namespace(const struct python_objects *o, uint64_t object)
{
	enum python_what what = what_at(o, object);

	return what == PYTHON_MODULE || what == PYTHON_CLASS ||
	       (what == PYTHON_DICT && o->state[block_of(o, object)] & PYTHON_IS_NAMESPACE);
}

static bool take_names(struct python_objects *o, const struct namespace *n)
{
	struct python_table t;
	uint32_t dict = block_of(o, n->dict);

	if (!(o->state[dict] & PYTHON_IS_NAMESPACE) || o->state[dict] & PYTHON_IS_NAMED ||
	    find_table(o, n->dict, &t) == HEAP_NONE)
		return true;
	o->state[dict] |= PYTHON_IS_NAMED;
	for (uint64_t i = 0; i < t.entries; i++) {
		char key_text[PYTHON_NAME], text[FULL_NAME];
		uint64_t key, value;

		if (!python_read_entry(&o->reader, &t, i, &key, &value) ||
		    block_of(o, value) == HEAP_NONE || is_namespace(o, value))
			continue;
		if (!python_read_text(&o->reader, key, key_text, sizeof(key_text)))
			python_read_join(key_text, sizeof(key_text), "?", "", "");
		python_read_join(text, sizeof(text), n->name, ".", key_text);
		if (!python_holders_hold(o, text, value, PYTHON_RANK_NAME))
			return false;
	}
	return true;
}

static bool each_namespace(struct python_objects *o,
			   bool (*take)(struct python_objects *o, const struct namespace *n))
{
	const struct heap_blocks *b = o->types.blocks;

	for (size_t i = 0; i < b->regions; i++) {
		const struct heap_region *r = &b->region[i];

		for (uint32_t block = r->first; block < r->first + r->count; block++) {
			struct namespace n;

			if (read_namespace(o, block, heap_block_address(b, r, block), &n) &&
			    !take(o, &n))
				return false;
		}
	}
	return true;
}

bool python_names_find(struct python_objects *o)
{
	return each_namespace(o, take_namespace) && each_namespace(o, take_names) &&
	       python_frames_find(o) && !o->types.out_of_memory;
}
