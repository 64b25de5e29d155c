/* SPDX-License-Identifier: Apache-2.0 */
/* Types of Python's objects: see python_types.h. */
#include "heap/python_types.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/bytes.h"
#include "base/hash.h"

/* PyTypeObject (Include/cpython/object.h) from 3.11 to 3.13. */
#define TYPE_BYTES	376u
#define TYPE_TYPE	8u
#define TYPE_NAME	24u
#define TYPE_SIZE	32u
#define TYPE_ITEM_SIZE	40u
#define TYPE_FLAGS	168u
#define TYPE_WEAK_LIST	208u
#define TYPE_BASE	256u
#define TYPE_DICT	264u
#define MADE_TYPE_BYTES 800u /* at least, of a type that is in a block */

/* Py_TPFLAGS_... (Include/object.h). */
#define FLAG_VALUES    (1u << 2) /* since 3.13: behind the object */
#define FLAG_WEAK_LIST (1u << 3) /* since 3.12 */
#define FLAG_DICT      (1u << 4)
#define FLAG_MADE      (1u << 9)
#define FLAG_READY     (1u << 12)
#define FLAG_COLLECTED (1u << 14)
#define FLAG_IS_INT    (1u << 24)
#define FLAG_IS_LIST   (1u << 25)
#define FLAG_IS_TUPLE  (1u << 26)
#define FLAG_IS_BYTES  (1u << 27)
#define FLAG_IS_TEXT   (1u << 28)
#define FLAG_IS_DICT   (1u << 29)
#define FLAG_IS_CLASS  (1u << 31)

#define OBJECT_HEAD 16u
#define OBJECT_MOST (1u << 24)
#define HEADS_MOST  48u /* in front of an object and its head */
#define DEPTH_MOST  64u /* of bases */
#define SEEN_MOST   (1u << 22)
#define TYPES_MOST  65534u
#define LONG_HEAD   32u
#define SHORT_TEXT  40u /* what only ASCII texts have */
#define FULL_NAME   (2 * PYTHON_NAME + 2)
#define BUFFERED    "_io.Buffered"

/* ---- names ---- */

uint32_t python_types_add_name(struct python_types *t, const char *text)
{
	bool is_new;
	uint32_t number = interner_add(&t->name_numbers,
				       (struct key){{hash_string(text), strlen(text)}}, &is_new);
	char *copy;

	if (number == INTERNER_NONE || !is_new)
		return number == INTERNER_NONE ? HEAP_NONE : number;
	copy = strdup(text);
	if (copy && ARRAY_ADD(t->name, t->name_capacity, t->names, copy))
		return number;
	free(copy);
	return HEAP_NONE;
}

/* ---- types ---- */

/* Types of C are variables; those that a program makes are larger than what the arenas have. */
static bool may_be_type(const struct python_types *t, uint64_t at)
{
	const struct heap_map *map;
	uint64_t offset;
	uint32_t block;
	size_t region;

	if (at % 8 || at >> 47)
		return false;
	block = heap_blocks_find(t->blocks, at, &offset);
	if (block == HEAP_NONE) {
		map = heap_map_at(t->reader->w.image, at);
		return map && map->kind == HEAP_MAP_DATA;
	}
	region = heap_blocks_region(t->blocks, block, 0);
	return offset && offset % 16 == 0 && offset <= HEADS_MOST &&
	       heap_block_bytes(t->blocks, &t->blocks->region[region], block) >= MADE_TYPE_BYTES;
}

/* "__main__.Order"; types of C have their module in their name. */
static uint32_t name_type(struct python_types *t, const uint8_t *type, bool made)
{
	char name[PYTHON_NAME], module[PYTHON_NAME], all[FULL_NAME];
	uint64_t value;

	if (!python_read_c_text(t->reader, bytes_load(type + TYPE_NAME), name, sizeof(name)))
		return python_types_add_name(t, "an object without a name");
	if (!made || strchr(name, '.'))
		return python_types_add_name(t, name);
	value = python_look_up(t->reader, bytes_load(type + TYPE_DICT), "__module__");
	if (!value || !python_read_text(t->reader, value, module, sizeof(module)) ||
	    !strcmp(module, "builtins"))
		return python_types_add_name(t, name);
	python_read_join(all, sizeof(all), module, ".", name);
	return python_types_add_name(t, all);
}

static enum python_what what_is(const struct python_types *t, uint64_t at, uint64_t flags,
				uint32_t base, const char *name)
{
	const struct python_interpreter *p = t->reader->python;

	if (flags & FLAG_IS_CLASS)
		return PYTHON_CLASS;
	if (flags & FLAG_IS_DICT)
		return PYTHON_DICT;
	if (flags & FLAG_IS_LIST)
		return PYTHON_LIST;
	/* What a program derives from them may have more. */
	if (flags & FLAG_IS_TEXT && !(flags & FLAG_MADE))
		return PYTHON_TEXT;
	if (flags & (FLAG_IS_INT | FLAG_IS_BYTES) && !(flags & FLAG_MADE))
		return PYTHON_BYTES;
	if (flags & FLAG_IS_TUPLE && !(flags & FLAG_MADE))
		return PYTHON_TUPLE;
	if (at == p->module_type)
		return PYTHON_MODULE;
	if (at == p->weakref_type)
		return PYTHON_WEAKREF;
	if (at == p->set_type || at == p->frozenset_type)
		return PYTHON_SET;
	if (at == p->code_type)
		return PYTHON_CODE;
	if (!strncmp(name, BUFFERED, strlen(BUFFERED)) || !strcmp(name, "bytearray") ||
	    !strcmp(name, "array.array"))
		return PYTHON_BUFFERED;
	if (!strcmp(name, "collections.deque"))
		return PYTHON_DEQUE;
	if (base == HEAP_NONE || t->type[base].what >= PYTHON_TUPLE)
		return PYTHON_OTHER;
	return t->type[base].what;
}

static uint32_t head_bytes(const struct python_types *t, uint64_t flags)
{
	uint64_t more = FLAG_DICT | (t->reader->python->version >= 312 ? FLAG_WEAK_LIST : 0);

	return (flags & FLAG_COLLECTED ? 16u : 0u) + (flags & more ? 16u : 0u);
}

/* 0: what an object has behind this differs. */
static uint32_t object_size(const uint8_t *type, uint64_t flags)
{
	if (bytes_load(type + TYPE_ITEM_SIZE) || flags & FLAG_VALUES)
		return 0;
	return (uint32_t)bytes_load(type + TYPE_SIZE);
}

/* Since 3.12, the list of weak references to most objects is their block's first word. */
static uint32_t weak_list(const struct python_types *t, uint32_t head, int64_t offset)
{
	if (head == LONG_HEAD && t->reader->python->version >= 312)
		return 0;
	return offset > 0 && offset <= OBJECT_MOST ? head + (uint32_t)offset : HEAP_NONE;
}

static uint32_t find(struct python_types *t, uint64_t at, unsigned int depth);

static uint32_t take_type(struct python_types *t, uint64_t at, unsigned int depth)
{
	uint8_t type[TYPE_BYTES];
	const uint8_t *seen;
	uint64_t meta, flags, object_bytes;
	int64_t weak;
	uint32_t base, head, name;

	seen = heap_window_see(&t->reader->w, at, TYPE_BYTES, at + TYPE_BYTES);
	if (!seen)
		return HEAP_NONE;
	memcpy(type, seen, sizeof(type));
	meta = bytes_load(type + TYPE_TYPE);
	flags = bytes_load(type + TYPE_FLAGS);
	object_bytes = bytes_load(type + TYPE_SIZE);
	if (!(flags & FLAG_READY) || object_bytes < OBJECT_HEAD || object_bytes > OBJECT_MOST)
		return HEAP_NONE;
	if (meta != t->reader->python->type_type) {
		uint32_t of = find(t, meta, depth + 1);

		if (of == HEAP_NONE || t->type[of].what != PYTHON_CLASS)
			return HEAP_NONE;
	}
	base = find(t, bytes_load(type + TYPE_BASE), depth + 1);
	if (t->count >= TYPES_MOST)
		return HEAP_NONE;
	head = head_bytes(t, flags);
	weak = (int64_t)bytes_load(type + TYPE_WEAK_LIST);
	name = name_type(t, type, flags & FLAG_MADE);
	if (name == HEAP_NONE) {
		t->out_of_memory = true;
		return HEAP_NONE;
	}
	if (!ARRAY_ADD(t->type, t->capacity, t->count,
		       (struct python_type){
			   .at = at,
			   .object_bytes = flags & FLAG_IS_TEXT ? SHORT_TEXT : object_bytes,
			   .head = head,
			   .weak_list = weak_list(t, head, weak),
			   .bytes = object_size(type, flags) ? head + object_size(type, flags) : 0,
			   .what = what_is(t, at, flags, base, t->name[name]),
			   .made = flags & FLAG_MADE,
			   .name = name})) {
		t->out_of_memory = true;
		return HEAP_NONE;
	}
	return (uint32_t)t->count - 1;
}

static uint32_t find(struct python_types *t, uint64_t at, unsigned int depth)
{
	uint32_t number, type;
	bool is_new;

	if (!at || depth > DEPTH_MOST || !may_be_type(t, at))
		return HEAP_NONE;
	number = interner_find(&t->seen, (struct key){{at}});
	if (number != INTERNER_NONE)
		return t->type_of[number];
	if (t->seen.count >= SEEN_MOST)
		return HEAP_NONE;
	number = interner_add(&t->seen, (struct key){{at}}, &is_new);
	if (number == INTERNER_NONE ||
	    !array_reserve(&t->type_of, &t->seen_capacity, number, sizeof(*t->type_of))) {
		t->out_of_memory = true;
		return HEAP_NONE;
	}
	/* No type until then: types that lead to each other in a circle are none. */
	t->type_of[number] = HEAP_NONE;
	type = take_type(t, at, depth);
	t->type_of[number] = type;
	return type;
}

uint32_t python_types_find(struct python_types *t, uint64_t at)
{
	return find(t, at, 0);
}

/* A table of pointers, of which one leads to a type, is no object. */
static bool may_be_count(const struct python_types *t, uint64_t count)
{
	return count && count <= UINT32_MAX && !heap_map_at(t->reader->w.image, count);
}

uint32_t python_types_of(struct python_types *t, const uint8_t *block, uint64_t bytes)
{
	for (uint32_t head = 0; head <= LONG_HEAD && head + OBJECT_HEAD <= bytes; head += 16) {
		uint64_t at = bytes_load(block + head + 8);
		uint32_t type;

		if (!may_be_count(t, bytes_load(block + head)))
			continue;
		type = python_types_find(t, at);
		if (type != HEAP_NONE && t->type[type].head == head &&
		    head + t->type[type].object_bytes <= bytes)
			return type;
	}
	return HEAP_NONE;
}

void python_types_free(struct python_types *t)
{
	free(t->type);
	free(t->type_of);
	interner_free(&t->seen);
	for (size_t i = 0; i < t->names; i++)
		free(t->name[i]);
	free(t->name);
	interner_free(&t->name_numbers);
	*t = (struct python_types){0};
}
