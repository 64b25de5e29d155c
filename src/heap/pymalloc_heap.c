/* SPDX-License-Identifier: Apache-2.0 */
/* The blocks of Python's allocator: see pymalloc_heap.h. */
#include "heap/pymalloc_heap.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/bytes.h"

#define ARENA_BYTES   (1ull << 20)
#define POOL_BYTES    (1ull << 14)
#define POOL_HEAD     48u
#define ENTRY_BYTES   48u
#define ENTRIES_FIRST 16u
#define ENTRIES_MOST  (1u << 26)
#define BLOCKS_MOST   ((POOL_BYTES - POOL_HEAD) / HEAP_UNIT)

struct arena {
	uint64_t address, carved; /* pools from the first one to here have been used */
	uint32_t place;		  /* in its array */
};

struct arenas {
	struct arena *arena;
	size_t count, capacity;
};

static uint64_t first_pool(const struct arena *a)
{
	return (a->address + POOL_BYTES - 1) & ~(POOL_BYTES - 1);
}

/* ---- the arrays of arenas ---- */

static bool is_mapped(const struct heap_image *image, uint64_t start, uint64_t end)
{
	while (start < end) {
		const struct heap_map *m = heap_map_at(image, start);

		if (!m || m->kind != HEAP_MAP_ANONYMOUS)
			return false;
		start = m->end;
	}
	return true;
}

enum entry { ENTRY_WRONG, ENTRY_EMPTY, ENTRY_ARENA };

static enum entry read_entry(const struct heap_image *image, const uint8_t *at, struct arena *a)
{
	uint64_t pools = bytes_load(at + 16), first;
	uint32_t free_pools = (uint32_t)pools, all = (uint32_t)(pools >> 32);

	a->address = bytes_load(at);
	a->carved = bytes_load(at + 8);
	if (!a->address)
		return ENTRY_EMPTY;
	first = first_pool(a);
	if (a->address % 4096 || a->address >> 47 || a->carved % POOL_BYTES || a->carved < first ||
	    a->carved > a->address + ARENA_BYTES || free_pools > all ||
	    all != (a->address + ARENA_BYTES - first) / POOL_BYTES ||
	    !is_mapped(image, a->address, a->address + ARENA_BYTES))
		return ENTRY_WRONG;
	return ENTRY_ARENA;
}

/* The number of entries in an array for which malloc gives a block of so many bytes; 0: there is none. */
static uint64_t entries_in(uint64_t bytes, enum heap_block_kind kind)
{
	uint64_t entries = ENTRIES_FIRST, left;

	while (entries <= ENTRIES_MOST && 2 * entries * ENTRY_BYTES <= bytes)
		entries *= 2;
	if (entries * ENTRY_BYTES > bytes)
		return 0;
	left = bytes - entries * ENTRY_BYTES;
	/* malloc rounds up. */
	return left < (kind == HEAP_MAPPED ? 4096u : 2 * HEAP_UNIT) ? entries : 0;
}

/* Pools never used have no heads, and an arena that has none yet proves nothing. */
static bool pools_are_right(struct heap_window *w, const struct arena *a)
{
	for (uint64_t pool = first_pool(a); pool < a->carved; pool += POOL_BYTES) {
		uint64_t place;

		if (!heap_window_word(w, pool + 32, pool + POOL_HEAD, &place) ||
		    (uint32_t)place != a->place || place >> 32 >= PYMALLOC_CLASSES)
			return false;
	}
	return true;
}

static bool take_array(struct heap_window *w, struct heap_window *pools, struct arenas *all,
		       uint64_t at, uint64_t entries, struct heap_problem *problem)
{
	const uint64_t end = at + entries * ENTRY_BYTES;
	size_t before = all->count;

	for (uint64_t i = 0; i < entries; i++) {
		const uint8_t *entry = heap_window_see(w, at + i * ENTRY_BYTES, ENTRY_BYTES, end);
		struct arena a = {.place = (uint32_t)i};
		enum entry kind = entry ? read_entry(w->image, entry, &a) : ENTRY_WRONG;

		if (kind == ENTRY_WRONG || (kind == ENTRY_ARENA && !pools_are_right(pools, &a))) {
			all->count = before;
			return true;
		}
		if (kind == ENTRY_EMPTY)
			continue;
		if (!array_reserve(&all->arena, &all->capacity, all->count, sizeof(*all->arena)))
			return heap_fail(problem, HEAP_NO_MEMORY, 0);
		all->arena[all->count++] = a;
	}
	return true;
}

static int compare_arenas(const void *a, const void *b)
{
	const struct arena *x = a, *y = b;

	return (x->address > y->address) - (x->address < y->address);
}

static bool find_arenas(struct heap_window *w, const struct heap_blocks *b, struct arenas *all,
			struct heap_problem *problem)
{
	struct heap_window pools;
	size_t region = 0, kept = 0;
	bool good = heap_window_begin(&pools, w->image) || heap_fail(problem, HEAP_NO_MEMORY, 0);

	for (uint32_t block = 0; good && block < b->count; block++) {
		const struct heap_region *r;
		uint64_t entries;

		region = heap_blocks_region(b, block, region);
		r = &b->region[region];
		entries = entries_in(heap_block_bytes(b, r, block), r->kind);
		if (entries)
			good = take_array(w, &pools, all, heap_block_address(b, r, block), entries,
					  problem);
	}
	heap_window_end(&pools);
	if (!good || !all->count)
		return good;
	qsort(all->arena, all->count, sizeof(*all->arena), compare_arenas);
	/* A copy of an array has the same arenas. */
	for (size_t i = 0; i < all->count; i++)
		if (!kept || all->arena[i].address - all->arena[kept - 1].address >= ARENA_BYTES)
			all->arena[kept++] = all->arena[i];
	all->count = kept;
	return true;
}

/* ---- pools ---- */

struct pool {
	uint64_t at, block_bytes;
	uint32_t size_class;
	uint32_t carved; /* blocks that have been used at some time */
	uint64_t free[BLOCKS_MOST / 64 + 1];
	uint32_t free_blocks;
};

static bool is_free(const struct pool *p, uint32_t block)
{
	return p->free[block / 64] >> block % 64 & 1;
}

/* Follows the list of free blocks; false: it leads elsewhere, or in a circle. */
static bool find_free(struct pool *p, const uint8_t *bytes)
{
	uint64_t next = bytes_load(bytes + 8);

	while (next) {
		uint64_t offset = next - p->at;
		uint32_t block;

		if (offset < POOL_HEAD || offset >= POOL_BYTES ||
		    (offset - POOL_HEAD) % p->block_bytes)
			return false;
		block = (uint32_t)((offset - POOL_HEAD) / p->block_bytes);
		if (block >= p->carved || is_free(p, block))
			return false;
		p->free[block / 64] |= 1ull << block % 64;
		p->free_blocks++;
		next = bytes_load(bytes + offset);
	}
	return p->carved - p->free_blocks == (uint32_t)bytes_load(bytes);
}

static bool read_pool(struct pool *p, const uint8_t *bytes)
{
	uint64_t offset = (uint32_t)bytes_load(bytes + 40);

	p->size_class = (uint32_t)(bytes_load(bytes + 32) >> 32);
	if (p->size_class >= PYMALLOC_CLASSES)
		return false;
	p->block_bytes = (p->size_class + 1) * HEAP_UNIT;
	if (offset < POOL_HEAD || offset > POOL_BYTES || (offset - POOL_HEAD) % p->block_bytes)
		return false;
	p->carved = (uint32_t)((offset - POOL_HEAD) / p->block_bytes);
	return true;
}

static bool add_pool(const struct pool *p, struct heap_blocks *b, struct pymalloc_sums *sums,
		     struct heap_problem *problem)
{
	for (uint32_t i = 0; i < p->carved; i++) {
		if (is_free(p, i))
			continue;
		if (!heap_blocks_add(b, p->at + POOL_HEAD + i * p->block_bytes, p->block_bytes,
				     HEAP_POOLS, problem))
			return false;
	}
	sums->used[p->size_class] += p->carved - p->free_blocks;
	sums->blocks += p->carved - p->free_blocks;
	sums->bytes += (p->carved - p->free_blocks) * p->block_bytes;
	sums->free_bytes += p->free_blocks * p->block_bytes;
	return true;
}

static bool walk_arena(struct heap_window *w, const struct arena *a, struct heap_blocks *b,
		       struct pymalloc_sums *sums, struct heap_problem *problem)
{
	for (uint64_t at = first_pool(a); at < a->carved; at += POOL_BYTES) {
		const uint8_t *bytes = heap_window_see(w, at, POOL_BYTES, a->carved);
		struct pool p = {.at = at};

		if (!bytes || !read_pool(&p, bytes)) {
			sums->damaged++;
			continue;
		}
		/* A pool without used blocks waits for another size: its list means nothing. */
		if (!(uint32_t)bytes_load(bytes))
			continue;
		if (!find_free(&p, bytes)) {
			memset(p.free, 0, sizeof(p.free));
			p.free_blocks = 0;
			sums->damaged++;
		}
		if (!add_pool(&p, b, sums, problem))
			return false;
	}
	sums->arenas++;
	sums->arena_bytes += ARENA_BYTES;
	return true;
}

static bool add_ranges(const struct arenas *all, struct heap_ranges *ranges)
{
	size_t count = ranges->count + all->count;
	struct heap_range *range = realloc(ranges->range, count * sizeof(*range));

	if (!range)
		return false;
	ranges->range = range;
	for (size_t i = 0; i < all->count; i++)
		range[ranges->count++] =
		    (struct heap_range){all->arena[i].address, all->arena[i].address + ARENA_BYTES};
	heap_ranges_sort(ranges);
	return true;
}

/* Whether a block of malloc lies in an arena: then what was found are no arenas. */
static bool overlap(const struct arenas *all, const struct heap_ranges *ranges)
{
	size_t k = 0;

	for (size_t i = 0; i < all->count; i++) {
		uint64_t start = all->arena[i].address;

		while (k < ranges->count && ranges->range[k].end <= start)
			k++;
		if (k < ranges->count && ranges->range[k].start < start + ARENA_BYTES)
			return true;
	}
	return false;
}

bool pymalloc_heap_walk(const struct heap_image *image, struct heap_blocks *b,
			struct pymalloc_sums *sums, struct heap_ranges *ranges,
			struct heap_problem *problem)
{
	struct heap_blocks pools = {0};
	struct arenas all = {0};
	struct heap_window w;
	bool good;

	*sums = (struct pymalloc_sums){0};
	if (!heap_window_begin(&w, image))
		return heap_fail(problem, HEAP_NO_MEMORY, 0);
	good = find_arenas(&w, b, &all, problem);
	if (good && all.count && !overlap(&all, ranges)) {
		for (size_t i = 0; good && i < all.count; i++)
			good = walk_arena(&w, &all.arena[i], &pools, sums, problem);
		good = good && heap_blocks_merge(b, &pools, problem) &&
		       (add_ranges(&all, ranges) || heap_fail(problem, HEAP_NO_MEMORY, 0));
	}
	heap_window_end(&w);
	heap_blocks_free(&pools);
	free(all.arena);
	return good;
}
