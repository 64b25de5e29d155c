/* SPDX-License-Identifier: Apache-2.0 */
/* Who points to whom: see heap_edges.h. */
#include "heap/heap_edges.h"

#include <stdlib.h>

#include "base/bytes.h"
#include "base/array.h"
#include "base/search.h"

#define PAGE		4096u
#define EDGES_MOST	(UINT32_MAX - 1)
#define PROGRESS_BYTES	(64ull << 20)
#define TYPES_IN_A_ROOM 256u

struct scan {
	struct heap_window w;
	const struct heap_blocks *b;
	const struct heap_question *q;
	const struct python_objects *python;
	struct heap_edges *e;
	struct heap_waste_look *waste; /* NULL: nobody asks */
	struct heap_problem *problem;
	uint32_t *place; /* of a type in e->used, + 1 */
	size_t used_capacity;
	uint64_t whole, done, said; /* bytes */
};

static bool add_edge(struct scan *s, uint32_t node, uint64_t word)
{
	struct heap_edges *e = s->e;
	uint64_t offset;
	uint32_t to = heap_blocks_find(s->b, word, &offset), first = e->from[node];
	bool inside = offset != 0;

	if (to == HEAP_NONE || to == node ||
	    (s->python->blocks && !python_objects_points(s->python, to, offset, &inside)))
		return true;
	to |= inside ? HEAP_INSIDE : 0;
	/* Neighbours often point to the same. */
	for (size_t i = e->count; i > first && i + 4 > e->count; i--)
		if (e->to[i - 1] == to)
			return true;
	if (e->count >= EDGES_MOST)
		return heap_fail(s->problem, HEAP_TOO_LARGE, 0);
	if (!array_reserve(&e->to, &e->capacity, e->count, sizeof(*e->to)))
		return heap_fail(s->problem, HEAP_NO_MEMORY, 0);
	e->to[e->count++] = to;
	return true;
}

static bool advance(struct scan *s, uint64_t bytes)
{
	s->done += bytes;
	if (!s->q->progress || s->done - s->said < PROGRESS_BYTES)
		return true;
	s->said = s->done;
	return s->q->progress(s->q->context, (double)s->done / (double)(s->whole + 1)) ||
	       heap_fail(s->problem, HEAP_INTERRUPTED, 0);
}

/* Looks at the words from start to end; `limit`: as far as the next ones may be read with them. A page
 * that cannot be read has none. */
static bool scan_words(struct scan *s, uint32_t node, uint64_t start, uint64_t end, uint64_t limit)
{
	uint64_t lowest = s->b->lowest, span = s->b->highest - lowest;

	start = (start + 7) & ~7ull;
	while (start < end && end - start >= 8) {
		uint64_t filled = end - start >= HEAP_WINDOW_BYTES
				      ? heap_skip_zeros(s->w.image, start, end)
				      : start;
		uint64_t most = end - start < HEAP_WINDOW_BYTES ? end - start : HEAP_WINDOW_BYTES;
		size_t bytes = (size_t)(most & ~7ull);
		const uint8_t *at;

		if (filled > start) {
			if (!advance(s, filled - start))
				return false;
			start = filled;
			continue;
		}
		at = heap_window_see(&s->w, start, bytes, limit);
		if (!at) {
			uint64_t page = (start | (PAGE - 1)) + 1;

			bytes = page - start < bytes ? (size_t)(page - start) : bytes;
			at = heap_window_see(&s->w, start, bytes, start + bytes);
		}
		for (size_t i = 0; at && i < bytes; i += 8) {
			uint64_t word = bytes_load(at + i);

			if (word - lowest < span && !add_edge(s, node, word))
				return false;
		}
		s->e->words += bytes / 8;
		start += bytes;
		if (!advance(s, bytes))
			return false;
	}
	return true;
}

/* ---- types ---- */

static size_t type_at(const struct heap_question *q, uint64_t word)
{
	size_t low = FIRST_THAT(i, 0, q->types, q->type[i].end > word);

	return low < q->types && q->type[low].start <= word ? low : q->types;
}

static bool note_type(struct scan *s, uint32_t block, size_t type)
{
	struct heap_edges *e = s->e;

	if (!s->place[type]) {
		if (e->types >= HEAP_TYPES_MOST)
			return true;
		if (!array_reserve(&e->used, &s->used_capacity, e->types, sizeof(*e->used)))
			return heap_fail(s->problem, HEAP_NO_MEMORY, 0);
		e->used[e->types++] = (uint32_t)type;
		s->place[type] = (uint32_t)e->types;
	}
	e->type[block] = (uint16_t)s->place[type];
	return true;
}

static bool take_type(struct scan *s, uint32_t block, uint64_t address, uint64_t limit)
{
	const struct heap_question *q = s->q;
	uint64_t word;
	size_t type;

	if (s->python->blocks && s->python->type[block])
		return note_type(s, block, q->types + s->python->type[block] - 1);
	if (!q->types || !heap_window_word(&s->w, address, limit, &word) ||
	    word < q->type[0].start || word >= q->type[q->types - 1].end)
		return true;
	type = type_at(q, word);
	return type == q->types || note_type(s, block, type);
}

/* ---- all nodes ---- */

static bool is_in_heap(const struct heap_blocks *b, uint64_t word)
{
	return word - b->lowest < b->highest - b->lowest;
}

/*
 * A chunk that malloc takes from its cache of free ones keeps the link to the next one until the program
 * writes there: since glibc 2.32 that is the next one's address XORed with the link's own >> 12, with 0 behind it
 * (malloc/malloc.c, PROTECT_PTR and tcache_get). It can look like a pointer to the inside of a block nearby. What
 * a program's own structure could begin with is not taken for one: a multiple of 8, or what leads inside of a
 * block.
 */
static bool is_old_link(struct scan *s, uint64_t address, uint64_t limit)
{
	uint64_t word, behind, offset = 0;
	uint32_t next;

	if (!heap_window_word(&s->w, address, limit, &word) || word % 8 == 0 ||
	    !is_in_heap(s->b, word) || !heap_window_word(&s->w, address + 8, limit, &behind) ||
	    behind)
		return false;
	word ^= address >> 12;
	next = heap_blocks_find(s->b, word, &offset);
	return word % HEAP_UNIT == 0 && is_in_heap(s->b, word) && (next == HEAP_NONE || !offset);
}

static bool scan_block(struct scan *s, const struct heap_region *r, uint32_t block)
{
	uint64_t address = heap_block_address(s->b, r, block), limit = r->end;
	uint64_t bytes = heap_block_bytes(s->b, r, block);
	struct python_part part[PYTHON_PARTS] = {{0, bytes}};
	unsigned int parts =
	    s->python->blocks ? python_objects_parts(s->python, block, bytes, part) : 1;

	if (!take_type(s, block, address, limit))
		return false;
	if (r->kind == HEAP_CHUNKS && !part[0].start && is_old_link(s, address, limit))
		part[0].start = 8;
	for (unsigned int i = 0; i < parts; i++)
		if (!scan_words(s, block, address + part[i].start, address + part[i].end, limit))
			return false;
	return !s->waste || heap_waste_see(s->waste, &s->w, block, address, bytes, limit) ||
	       heap_fail(s->problem, HEAP_NO_MEMORY, 0);
}

static bool scan_blocks(struct scan *s)
{
	const struct heap_blocks *b = s->b;

	for (size_t i = 0; i < b->regions; i++) {
		const struct heap_region *r = &b->region[i];

		for (uint32_t block = r->first; block < r->first + r->count; block++) {
			s->e->from[block] = (uint32_t)s->e->count;
			if (!scan_block(s, r, block))
				return false;
		}
	}
	return true;
}

static bool scan_holders(struct scan *s)
{
	const struct heap_question *q = s->q;
	size_t root = 0, value = 0;

	for (uint32_t holder = 0; holder < q->holders; holder++) {
		uint32_t node = (uint32_t)(s->b->count + holder);

		s->e->from[node] = (uint32_t)s->e->count;
		for (; root < q->roots && q->root[root].holder <= holder; root++)
			if (q->root[root].holder == holder &&
			    !scan_words(s, node, q->root[root].start, q->root[root].end,
					q->root[root].end))
				return false;
		for (; value < q->values && q->value[value].holder <= holder; value++)
			if (q->value[value].holder == holder &&
			    !add_edge(s, node, q->value[value].value))
				return false;
	}
	s->e->from[s->e->nodes] = (uint32_t)s->e->count;
	return true;
}

static uint64_t bytes_of_all(const struct heap_blocks *b, const struct heap_question *q)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < b->regions; i++)
		sum += b->region[i].end - b->region[i].base;
	for (size_t i = 0; i < q->roots; i++)
		sum += q->root[i].end - q->root[i].start;
	return sum;
}

bool heap_edges_find(const struct heap_image *image, const struct heap_blocks *b,
		     const struct heap_question *q, const struct python_objects *python,
		     struct heap_edges *e, struct heap_waste *waste, struct heap_problem *problem)
{
	struct scan s = {.b = b, .q = q, .python = python, .e = e, .problem = problem};
	bool good;

	*e = (struct heap_edges){.blocks = b->count, .nodes = b->count + q->holders};
	if (q->holders > HEAP_HOLDERS_MOST || e->nodes >= HEAP_BLOCKS_MOST)
		return heap_fail(problem, HEAP_TOO_LARGE, 0);
	s.whole = bytes_of_all(b, q);
	e->from = calloc(e->nodes + 1, sizeof(*e->from));
	e->type = calloc(e->blocks + 1, sizeof(*e->type));
	s.place = calloc(q->types + python->types.count + 1, sizeof(*s.place));
	if (q->waste_contents)
		s.waste = heap_waste_begin(waste, b, q->waste_contents, q->waste_texts);
	good = (heap_window_begin(&s.w, image) && e->from && e->type && s.place &&
		(s.waste || !q->waste_contents)) ||
	       heap_fail(problem, HEAP_NO_MEMORY, 0);
	good = good && scan_blocks(&s) && scan_holders(&s);
	heap_window_end(&s.w);
	heap_waste_end(s.waste);
	free(s.place);
	return good;
}

void heap_edges_free(struct heap_edges *e)
{
	free(e->from);
	free(e->to);
	free(e->type);
	free(e->used);
	*e = (struct heap_edges){0};
}
