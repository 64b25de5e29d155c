/* SPDX-License-Identifier: Apache-2.0 */
/* Python's objects among the blocks: see python_objects.h. */
#include "heap/python_objects.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "heap/python_names.h"

#define FIRST_BYTES 48u /* of a block, in which the type is */
#define OBJECT_HEAD 16u
/* PyDictObject, PyListObject, PyTupleObject, PySetObject, PyWeakReference (headers of these names in
 * Include/cpython), and dequeobject (Modules/_collectionsmodule.c), from 3.11 to 3.13. */
#define DICT_TABLE	  32u
#define DICT_VALUES	  40u
#define OBJECT_ITEMS	  16u /* how many */
#define LIST_ITEMS	  24u
#define TUPLE_ITEMS	  24u
#define SET_MASK	  32u /* one less than the places of its table */
#define SET_TABLE	  40u
#define SET_PLACE_WORDS	  2u
#define WEAK_OBJECT	  16u
#define WEAK_PREVIOUS	  40u
#define WEAK_NEXT	  48u
#define DEQUE_FIRST	  24u /* block */
#define DEQUE_LAST	  32u
#define DEQUE_INDEX	  48u /* of the last item, in the last block */
#define DEQUE_SPARES	  72u /* how many blocks are kept for later; then these */
#define LONG_HEAD	  32u
#define DEQUE_SPARES_MOST 16u
#define BUFFER_LEAST	  4096u
/* A text may have its characters elsewhere, or a second time; one of ASCII characters alone has neither. */
#define TEXT_POINTERS	  40u
#define TEXT_POINTERS_END 72u

/* ---- the walk over all blocks ---- */

static uint32_t limit(uint64_t words)
{
	return words < UINT32_MAX ? (uint32_t)words : UINT32_MAX;
}

/* What belongs to an object and is none itself has its type. */
static void take_part(struct python_objects *o, uint64_t address, uint16_t type, uint32_t words)
{
	uint64_t offset;
	uint32_t block = heap_blocks_find(o->types.blocks, address, &offset);

	if (block == HEAP_NONE || o->state[block] & PYTHON_IS_OBJECT)
		return;
	o->type[block] = type;
	if (!offset)
		o->words[block] = words;
}

static void take_word(struct python_objects *o, uint64_t at, uint16_t type, uint32_t words)
{
	uint64_t word;

	if (python_read_word(&o->reader, at, &word))
		take_part(o, word, type, words);
}

/* A large block that such an object points to has bytes; its other pointers lead to small ones. */
static void take_buffer(struct python_objects *o, uint64_t at)
{
	const struct heap_blocks *b = o->types.blocks;
	uint64_t word, offset;
	uint32_t block;

	if (!python_read_word(&o->reader, at, &word))
		return;
	block = heap_blocks_find(b, word, &offset);
	if (block == HEAP_NONE || offset || o->state[block] & PYTHON_IS_OBJECT)
		return;
	if (heap_block_bytes(b, &b->region[heap_blocks_region(b, block, 0)], block) >= BUFFER_LEAST)
		o->words[block] = 0;
}

/* As far as its entries are used; only a table of the dictionary's own is known to be no larger. */
static uint32_t table_words(struct python_objects *o, uint64_t dict)
{
	struct python_table t;

	if (!python_read_table(&o->reader, dict, &t))
		return UINT32_MAX;
	return limit((t.entries_at - t.at + t.entries * t.entry_bytes) / 8);
}

/* The values of an instance's attributes, with a mark in the lowest bit in 3.12. */
static void take_attributes(struct python_objects *o, const uint8_t *first, uint16_t type)
{
	if (o->reader.python->version == 311)
		take_part(o, bytes_load(first), type, UINT32_MAX);
	else if (o->reader.python->version == 312 && bytes_load(first + 8) & 1)
		take_part(o, bytes_load(first + 8), type, UINT32_MAX);
}

/* Its blocks have 64 items, of which only those from the first to the last are set. */
static void take_deque(struct python_objects *o, uint32_t block, uint64_t address, uint32_t head)
{
	uint64_t object = address + head, items, first, last, index, spares;
	uint16_t type = o->type[block];

	if (!python_read_word(&o->reader, object + OBJECT_ITEMS, &items) ||
	    !python_read_word(&o->reader, object + DEQUE_FIRST, &first) ||
	    !python_read_word(&o->reader, object + DEQUE_LAST, &last) ||
	    !python_read_word(&o->reader, object + DEQUE_INDEX, &index) ||
	    !python_read_word(&o->reader, object + DEQUE_SPARES, &spares))
		return;
	take_part(o, first, type, items ? UINT32_MAX : 0);
	/* Behind the link to the block before. */
	if (items)
		take_part(o, last, type, limit(index < UINT32_MAX ? index + 2 : index));
	o->words[block] = limit((head + DEQUE_SPARES + 8) / 8 + limit(spares));
	for (uint64_t i = 0; i < spares && i < DEQUE_SPARES_MOST; i++)
		take_word(o, object + DEQUE_SPARES + 8 + 8 * i, type, 0);
}

static void take_object(struct python_objects *o, uint32_t block, uint64_t address,
			const uint8_t *first, uint32_t number)
{
	const struct python_type *t = &o->types.type[number];
	uint64_t object = address + t->head, items;
	uint16_t type = (uint16_t)(number + 1);

	o->type[block] = type;
	o->words[block] = t->bytes ? (t->bytes + 7) / 8 : UINT32_MAX;
	o->state[block] |= PYTHON_IS_OBJECT;
	if (t->head == LONG_HEAD)
		take_attributes(o, first, type);
	switch (t->what) {
	case PYTHON_DICT:
		take_word(o, object + DICT_TABLE, type, table_words(o, object));
		take_word(o, object + DICT_VALUES, type, UINT32_MAX);
		break;
	case PYTHON_LIST:
		if (python_read_word(&o->reader, object + OBJECT_ITEMS, &items))
			take_word(o, object + LIST_ITEMS, type, limit(items));
		break;
	case PYTHON_SET:
		if (python_read_word(&o->reader, object + SET_MASK, &items) && items < UINT32_MAX)
			take_word(o, object + SET_TABLE, type,
				  limit(SET_PLACE_WORDS * (items + 1)));
		break;
	case PYTHON_TUPLE:
		if (python_read_word(&o->reader, object + OBJECT_ITEMS, &items))
			o->words[block] = limit((t->head + TUPLE_ITEMS) / 8 + limit(items));
		break;
	case PYTHON_BYTES:
		o->words[block] = 0;
		break;
	case PYTHON_DEQUE:
		take_deque(o, block, address, t->head);
		break;
	case PYTHON_BUFFERED:
		for (uint64_t at = t->head + OBJECT_HEAD; at < t->head + t->object_bytes; at += 8)
			take_buffer(o, address + at);
		break;
	case PYTHON_TEXT:
		if (!t->head && python_text_head(&o->reader, first))
			o->words[block] = python_text_head(&o->reader, first) / 8;
		break;
	case PYTHON_OTHER:
	case PYTHON_WEAKREF:
	case PYTHON_MODULE:
	case PYTHON_CLASS:
	case PYTHON_CODE:
		break;
	}
}

static bool take_blocks(struct python_objects *o, const struct heap_image *image,
			const struct heap_blocks *b, struct heap_problem *problem)
{
	struct heap_window w;
	bool good = heap_window_begin(&w, image) || heap_fail(problem, HEAP_NO_MEMORY, 0);

	for (size_t i = 0; good && i < b->regions; i++) {
		const struct heap_region *r = &b->region[i];

		for (uint32_t block = r->first; block < r->first + r->count; block++) {
			uint64_t bytes = heap_block_bytes(b, r, block);
			uint64_t address = heap_block_address(b, r, block);
			uint8_t first[FIRST_BYTES] = {0};
			size_t taken = bytes < sizeof(first) ? (size_t)bytes : sizeof(first);
			const uint8_t *at = heap_window_see(&w, address, taken, r->end);
			uint32_t type;

			if (!at)
				continue;
			memcpy(first, at, taken);
			type = python_types_of(&o->types, first, bytes);
			if (type != HEAP_NONE)
				take_object(o, block, address, first, type);
		}
	}
	heap_window_end(&w);
	return good && (!o->types.out_of_memory || heap_fail(problem, HEAP_NO_MEMORY, 0));
}

bool python_objects_find(struct python_objects *o, const struct heap_image *image,
			 const struct heap_blocks *b, const struct python_interpreter *python,
			 struct heap_problem *problem)
{
	bool good;

	*o = (struct python_objects){0};
	if (!python)
		return true;
	o->reader.python = python;
	o->types.blocks = b;
	o->types.reader = &o->reader;
	o->blocks = b->count;
	o->type = calloc(b->count + 1, sizeof(*o->type));
	o->state = calloc(b->count + 1, sizeof(*o->state));
	o->words = malloc((b->count + 1) * sizeof(*o->words));
	good = (heap_window_begin(&o->reader.w, image) && o->type && o->state && o->words) ||
	       heap_fail(problem, HEAP_NO_MEMORY, 0);
	if (good)
		memset(o->words, 0xff, b->count * sizeof(*o->words));
	good = good && take_blocks(o, image, b, problem) &&
	       (python_names_find(o) || heap_fail(problem, HEAP_NO_MEMORY, 0));
	if (!good)
		python_objects_free(o);
	return good;
}

void python_objects_read_all(struct python_objects *o)
{
	heap_window_end(&o->reader.w);
	free(o->state);
	free(o->words);
	free(o->value);
	o->state = NULL;
	o->words = NULL;
	o->value = NULL;
}

void python_objects_free(struct python_objects *o)
{
	python_objects_read_all(o);
	python_types_free(&o->types);
	free(o->type);
	free(o->holder);
	*o = (struct python_objects){0};
}

/* ---- pointers ---- */

static const struct python_type *type_of(const struct python_objects *o, uint32_t block)
{
	return o->state[block] & PYTHON_IS_OBJECT ? &o->types.type[o->type[block] - 1] : NULL;
}

bool python_objects_points(const struct python_objects *o, uint32_t block, uint64_t offset,
			   bool *inside)
{
	const struct python_type *t = type_of(o, block);

	*inside = offset != (t ? t->head : 0);
	/* The collector's lists lead to what is in front of objects. */
	return !t || offset >= t->head;
}

unsigned int python_objects_parts(const struct python_objects *o, uint32_t block, uint64_t bytes,
				  struct python_part *part)
{
	const struct python_type *t = type_of(o, block);
	uint64_t skip[PYTHON_PARTS], at = 0, limit = 8ull * o->words[block];
	unsigned int skips = 0, parts = 0;

	if (!t && o->state[block] & PYTHON_IS_NAMESPACE)
		return 0;
	bytes = bytes < limit ? bytes : limit;
	if (t && t->what == PYTHON_TEXT) {
		part[0] = (struct python_part){
		    TEXT_POINTERS, bytes < TEXT_POINTERS_END ? bytes : TEXT_POINTERS_END};
		return bytes > TEXT_POINTERS;
	}
	if (t && t->weak_list < t->head)
		skip[skips++] = t->weak_list;
	if (t && t->head)
		for (uint64_t i = t->head - 16; i < t->head; i += 8)
			skip[skips++] = i;
	if (t)
		for (uint64_t i = t->head; i < t->head + OBJECT_HEAD; i += 8)
			skip[skips++] = i;
	if (t && t->what == PYTHON_WEAKREF) {
		skip[skips++] = t->head + WEAK_OBJECT;
		skip[skips++] = t->head + WEAK_PREVIOUS;
		skip[skips++] = t->head + WEAK_NEXT;
	} else if (t && t->weak_list != HEAP_NONE && t->weak_list > t->head) {
		skip[skips++] = t->weak_list;
	}
	for (unsigned int i = 0; i < skips && skip[i] < bytes; i++) {
		if (skip[i] > at)
			part[parts++] = (struct python_part){at, skip[i]};
		at = skip[i] + 8;
	}
	if (at < bytes)
		part[parts++] = (struct python_part){at, bytes};
	return parts;
}
