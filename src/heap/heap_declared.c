/* SPDX-License-Identifier: Apache-2.0 */
/* Types of blocks from debug information: see heap_declared.h. */
#include "heap/heap_declared.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/bytes.h"
#include "base/interner.h"

#define PAGE		  4096u
#define PAGES		  8192u /* kept; a power of two */
#define PAGES_AHEAD	  16u	/* a power of two */
#define INSIDE_MOST	  (1u << 20)
#define READS_FOR_A_WORD  4u
#define READS_LEAST	  (1u << 20)
#define SORTED_LEAST	  64u
#define LINK_MOST	  16u /* bytes */
#define SMALLEST_BLOCK	  24u
#define ADDRESS_BITS	  47
#define ROUNDED_UP	  16u /* less than that is malloc's rounding */
#define MAPPED_ROUNDED_UP 4096u

/* Memory of a declared type. */
struct visit {
	uint64_t address;
	uint32_t layout;
	bool is_array;
};

struct visits {
	struct visit *visit;
	size_t count, capacity;
};

struct declaring {
	const struct heap_image *image;
	const struct heap_blocks *b;
	const struct heap_question *q;
	const struct python_objects *python;
	struct heap_layouts *l;
	struct heap_edges *e;
	struct heap_problem *problem;
	struct visits now, next;
	uint64_t *seen;		/* a bit for each block whose start has been reached */
	struct interner inside; /* addresses and layouts */
	uint16_t *place;	/* of twice a layout and 1 for an array, in e->used, + 1 */
	size_t place_capacity, used_capacity;
	uint64_t *page_at; /* of each page that is kept: its address + 1 */
	uint8_t *page;
	uint64_t follows; /* what was read last */
	uint64_t reads, reads_most;
};

/* ---- memory ---- */

static void keep_page(struct declaring *d, uint64_t page, bool readable)
{
	/* An odd mark: there is nothing to see. */
	d->page_at[page / PAGE & (PAGES - 1)] = page + 2 + !readable;
}

/* Reads a page, and those that follow if the one before it was read last. What a pointer leads to has been written
 * to; take_slot() steps over what has not. */
static void read_pages(struct declaring *d, uint64_t page)
{
	const uint64_t group = PAGES_AHEAD * PAGE;
	uint8_t *to = d->page + (page / PAGE & (PAGES - 1)) * PAGE;
	uint64_t end = page == d->follows ? (page / group + 1) * group : page + PAGE;
	bool readable = d->image->read(d->image->context, page, to, (size_t)(end - page));

	if (!readable && end > page + PAGE) {
		end = page + PAGE;
		readable = d->image->read(d->image->context, page, to, PAGE);
	}
	d->follows = end;
	for (uint64_t at = page; at < end; at += PAGE)
		keep_page(d, at, readable);
}

/* A page's bytes; NULL: they cannot be read. */
static const uint8_t *see_page(struct declaring *d, uint64_t page)
{
	size_t at = (size_t)(page / PAGE) & (PAGES - 1);

	if ((d->page_at[at] & ~1ull) != page + 2)
		read_pages(d, page);
	return d->page_at[at] & 1 ? NULL : d->page + at * PAGE;
}

static uint64_t word_at(struct declaring *d, uint64_t address)
{
	const uint8_t *page = see_page(d, address & ~(uint64_t)(PAGE - 1));

	d->reads++;
	return page ? bytes_load(page + address % PAGE) : 0;
}

/* ---- types ---- */

static bool has_other_type(const struct declaring *d, uint32_t block)
{
	uint16_t type = d->e->type[block];

	return type && d->e->used[type - 1] < d->q->types + d->python->types.count;
}

static bool note_type(struct declaring *d, uint32_t block, uint32_t layout, bool is_array)
{
	struct heap_edges *e = d->e;
	size_t type = 2 * (size_t)layout + is_array;

	if (!array_reserve_filled(&d->place, &d->place_capacity, type, sizeof(*d->place), 0))
		return false;
	if (!d->place[type]) {
		if (e->types >= HEAP_TYPES_MOST)
			return true;
		if (!array_reserve(&e->used, &d->used_capacity, e->types, sizeof(*e->used)))
			return false;
		e->used[e->types++] = (uint32_t)(d->q->types + d->python->types.count + type);
		d->place[type] = (uint16_t)e->types;
	}
	e->type[block] = d->place[type];
	return true;
}

static bool complete(const struct declaring *d, uint32_t layout)
{
	return d->l->layout[layout].complete || !d->l->complete || d->l->complete(d->l, layout);
}

/* A link that many kinds of blocks begin with. */
static bool is_link(const struct heap_layout *t, uint32_t layout)
{
	for (size_t i = 0; t->bytes <= LINK_MOST && i < t->slots; i++)
		if (t->slot[i].layout == layout)
			return true;
	return false;
}

/* Whether a block of so many bytes is one of them, or an array. False: it is too small. */
static bool fits(const struct declaring *d, const struct heap_slot *slot, enum heap_block_kind kind,
		 uint64_t bytes, bool *is_array)
{
	const struct heap_layout *t = &d->l->layout[slot->layout];
	uint64_t rounded = kind == HEAP_MAPPED ? MAPPED_ROUNDED_UP : ROUNDED_UP;

	*is_array = slot->to == HEAP_TO_ARRAY;
	if (t->bytes > bytes)
		return false;
	if (slot->to != HEAP_TO_SOME || !t->bytes || t->open_end || bytes <= SMALLEST_BLOCK ||
	    bytes - t->bytes < rounded || is_link(t, slot->layout))
		return true;
	*is_array = bytes % t->bytes < rounded;
	return true;
}

static bool push(struct declaring *d, uint64_t address, uint32_t layout, bool is_array)
{
	return (d->l->layout[layout].complete && !d->l->layout[layout].slots) ||
	       ARRAY_ADD(d->next.visit, d->next.capacity, d->next.count,
			 (struct visit){address, layout, is_array});
}

static bool push_inside(struct declaring *d, uint64_t address, uint32_t layout)
{
	bool is_new;

	if (d->inside.count >= INSIDE_MOST)
		return true;
	return interner_add(&d->inside, (struct key){{address, layout}}, &is_new) !=
		   INTERNER_NONE &&
	       (!is_new || push(d, address, layout, false));
}

static bool is_seen(const struct declaring *d, uint32_t block)
{
	return d->seen[block / 64] >> block % 64 & 1;
}

/* What a pointer of a declared type says. */
static bool take_pointer(struct declaring *d, uint64_t word, const struct heap_slot *slot)
{
	uint64_t offset, bytes;
	uint32_t block = heap_blocks_find(d->b, word, &offset);
	const struct heap_region *r;
	bool is_array;

	if (block == HEAP_NONE || slot->layout >= d->l->count || is_seen(d, block) ||
	    (d->python->blocks && d->python->type[block]))
		return true;
	if (offset)
		return slot->to == HEAP_TO_ONE || slot->to == HEAP_TO_BYTES ||
		       push_inside(d, word, slot->layout);
	if (!complete(d, slot->layout))
		return false;
	r = &d->b->region[heap_blocks_region(d->b, block, 0)];
	bytes = heap_block_bytes(d->b, r, block);
	if (!fits(d, slot, r->kind, bytes, &is_array))
		return true;
	if (slot->to == HEAP_TO_BYTES)
		return d->e->type[block] || note_type(d, block, slot->layout, true);
	d->seen[block / 64] |= 1ull << block % 64;
	return (has_other_type(d, block) || note_type(d, block, slot->layout, is_array)) &&
	       push(d, word, slot->layout, is_array);
}

/* ---- visits ---- */

/* Steps over memory that nobody has written to. */
static uint64_t step_over(const struct declaring *d, uint64_t at, uint64_t end, uint64_t stride)
{
	uint64_t filled = heap_skip_zeros(d->image, at, end);

	return filled > at ? at + (filled - at) / stride * stride : at;
}

/* Pointers of one slot, up to `end`. */
static bool take_slot(struct declaring *d, const struct heap_slot *slot, uint64_t base,
		      uint64_t end)
{
	uint64_t at, last;

	if (slot->stride < 8 || slot->stride >> ADDRESS_BITS || end >> ADDRESS_BITS ||
	    slot->offset % 8 || base % 8 || end < 8 ||
	    __builtin_add_overflow(base, slot->offset, &at) || at > end - 8)
		return true;
	last = (end - 8 - at) / slot->stride;
	if (slot->count <= last)
		last = slot->count - 1;
	last = slot->count ? at + last * slot->stride : 0;
	for (uint64_t page = 0; at <= last && d->reads < d->reads_most; at += slot->stride) {
		uint64_t word;

		if (slot->count > 1 && at / PAGE != page) {
			page = at / PAGE;
			at = step_over(d, at, last + 8, slot->stride);
		}
		word = at <= last && at % 8 == 0 ? word_at(d, at) : 0;
		if (word && !take_pointer(d, word, slot))
			return false;
	}
	return true;
}

/* Where the memory of a visit ends: with its block, if it is in one. */
static uint64_t end_of(const struct declaring *d, const struct visit *v)
{
	const struct heap_layout *t = &d->l->layout[v->layout];
	uint64_t offset, end;
	uint32_t block = heap_blocks_find(d->b, v->address, &offset);
	const struct heap_region *r;

	if (block == HEAP_NONE)
		return __builtin_add_overflow(v->address, t->bytes, &end) ? 0 : end;
	r = &d->b->region[heap_blocks_region(d->b, block, 0)];
	end = v->address - offset + heap_block_bytes(d->b, r, block);
	return v->is_array || t->open_end || !t->bytes || t->bytes > end - v->address
		   ? end
		   : v->address + t->bytes;
}

static bool take_visit(struct declaring *d, const struct visit *v)
{
	uint64_t end, bytes, page = 0;

	if (!complete(d, v->layout))
		return false;
	end = end_of(d, v);
	bytes = d->l->layout[v->layout].bytes;
	if (!d->l->layout[v->layout].slots || bytes >> ADDRESS_BITS)
		return true;
	for (uint64_t at = v->address; at < end && d->reads < d->reads_most; at += bytes) {
		const struct heap_layout *t = &d->l->layout[v->layout];
		uint64_t until = v->is_array && bytes && end - at > bytes ? at + bytes : end;

		if (v->is_array && bytes && at / PAGE != page) {
			page = at / PAGE;
			at = step_over(d, at, end, bytes);
			until = end - at > bytes ? at + bytes : end;
		}
		for (size_t i = 0; i < t->slots; i++)
			if (!take_slot(d, &t->slot[i], at, until))
				return false;
		d->reads++;
		if (!v->is_array || !bytes)
			break;
	}
	return true;
}

static int compare_visits(const void *a, const void *b)
{
	const struct visit *x = a, *y = b;

	if (x->address != y->address)
		return (x->address > y->address) - (x->address < y->address);
	return (x->layout > y->layout) - (x->layout < y->layout);
}

/* Levels of lists that were made at once often are. */
static bool is_sorted(const struct visits *v)
{
	for (size_t i = 1; i < v->count; i++)
		if (v->visit[i].address < v->visit[i - 1].address)
			return false;
	return true;
}

static bool take_level(struct declaring *d)
{
	struct visits done = d->now;

	d->now = d->next;
	d->next = done;
	d->next.count = 0;
	if (d->now.count >= SORTED_LEAST && !is_sorted(&d->now))
		qsort(d->now.visit, d->now.count, sizeof(*d->now.visit), compare_visits);
	for (size_t i = 0; i < d->now.count && d->reads < d->reads_most; i++)
		if (!take_visit(d, &d->now.visit[i]))
			return false;
	return true;
}

static bool find_variables(struct declaring *d)
{
	uint8_t *points = calloc(d->q->holders + 1, 1);
	const uint32_t *from = d->e->from + d->b->count;
	bool good = points != NULL;

	for (uint32_t i = 0; good && i < d->q->holders; i++)
		points[i] = from[i + 1] > from[i];
	good = good && (!d->l->find || d->l->find(d->l, points, d->q->holders));
	free(points);
	for (size_t i = 0; good && i < d->l->variables; i++)
		if (d->l->variable[i].layout < d->l->count)
			good = push(d, d->l->variable[i].address, d->l->variable[i].layout, false);
	return good;
}

bool heap_declared_find(const struct heap_image *image, const struct heap_blocks *b,
			const struct heap_question *q, const struct python_objects *python,
			struct heap_edges *e, struct heap_problem *problem)
{
	struct declaring d = {.image = image,
			      .b = b,
			      .q = q,
			      .python = python,
			      .l = q->layouts,
			      .e = e,
			      .problem = problem,
			      .used_capacity = e->types,
			      .reads_most = READS_LEAST + READS_FOR_A_WORD * e->words};
	bool good;

	if (!q->layouts)
		return true;
	good = find_variables(&d);
	if (good && d.next.count) {
		d.seen = calloc(b->count / 64 + 1, sizeof(*d.seen));
		d.page_at = calloc(PAGES, sizeof(*d.page_at));
		d.page = malloc((size_t)PAGES * PAGE);
		good = d.seen && d.page_at && d.page;
	}
	while (good && d.next.count && d.reads < d.reads_most)
		good = take_level(&d);
	interner_free(&d.inside);
	free(d.now.visit);
	free(d.next.visit);
	free(d.seen);
	free(d.place);
	free(d.page_at);
	free(d.page);
	return good || heap_fail(problem, HEAP_NO_MEMORY, 0);
}
