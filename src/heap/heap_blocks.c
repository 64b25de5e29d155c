/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks and their index: see heap_blocks.h. */
#include "heap/heap_blocks.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/search.h"

#define NEAR_LOG2	  26
#define NEAR_BITS	  (1ull << (47 - NEAR_LOG2))
#define GAP_MOST	  (1ull << 26) /* a larger one begins a new region */
#define GRANULE_LOG2	  9
#define GRANULE_LOG2_MOST 40
#define REGIONS_MOST	  (1u << 24)

static struct heap_region *last_region(const struct heap_blocks *b)
{
	return b->regions ? &b->region[b->regions - 1] : NULL;
}

/* The last region takes a block at this address, too. */
static bool continues(const struct heap_region *r, uint64_t address, uint64_t chunk_bytes,
		      enum heap_block_kind kind)
{
	return r && kind != HEAP_MAPPED && kind == r->kind && address >= r->end &&
	       address - r->end < GAP_MOST &&
	       (address + chunk_bytes - r->base) / HEAP_UNIT < UINT32_MAX;
}

bool heap_blocks_add(struct heap_blocks *b, uint64_t address, uint64_t chunk_bytes,
		     enum heap_block_kind kind, struct heap_problem *problem)
{
	struct heap_region *r = last_region(b);
	/* The end of what the program may use. */
	uint64_t end = address + chunk_bytes - heap_head_bytes(kind);

	if (chunk_bytes / HEAP_UNIT > UINT32_MAX || b->count >= HEAP_BLOCKS_MOST)
		return heap_fail(problem, HEAP_TOO_LARGE, address);
	if (chunk_bytes < HEAP_UNIT + heap_head_bytes(kind) || end >> 47 || address % HEAP_UNIT ||
	    chunk_bytes % HEAP_UNIT || (r && address < r->end))
		return heap_fail(problem, HEAP_DAMAGED, address);
	if (!continues(r, address, chunk_bytes, kind)) {
		if (b->regions >= REGIONS_MOST)
			return heap_fail(problem, HEAP_TOO_LARGE, address);
		if (!array_reserve(&b->region, &b->region_capacity, b->regions, sizeof(*b->region)))
			return heap_fail(problem, HEAP_NO_MEMORY, 0);
		r = &b->region[b->regions++];
		*r = (struct heap_region){
		    .base = address, .first = (uint32_t)b->count, .kind = kind};
	}
	if (!array_reserve(&b->start, &b->start_capacity, b->count, sizeof(*b->start)) ||
	    !array_reserve(&b->size, &b->size_capacity, b->count, sizeof(*b->size)))
		return heap_fail(problem, HEAP_NO_MEMORY, 0);
	b->start[b->count] = (uint32_t)((address - r->base) / HEAP_UNIT);
	b->size[b->count] = (uint32_t)(chunk_bytes / HEAP_UNIT);
	b->count++;
	r->count++;
	r->end = end;
	return true;
}

/* ---- the index ---- */

static void drop_freed(struct heap_blocks *b)
{
	uint32_t to = 0;

	for (size_t i = 0; i < b->regions; i++) {
		struct heap_region *r = &b->region[i];
		uint32_t first = to;

		for (uint32_t from = r->first; from < r->first + r->count; from++) {
			if (!b->size[from])
				continue;
			b->start[to] = b->start[from];
			b->size[to++] = b->size[from];
		}
		r->first = first;
		r->count = to - first;
	}
	b->count = to;
}

/* Granules of a region: not many more than it has blocks. */
static void plan_granules(struct heap_blocks *b, struct heap_region *r)
{
	uint64_t bytes = r->end - r->base;

	r->granule_log2 = GRANULE_LOG2;
	while (r->granule_log2 < GRANULE_LOG2_MOST && bytes >> r->granule_log2 > 2ull * r->count)
		r->granule_log2++;
	r->granule = b->granules;
	b->granules += (size_t)(bytes >> r->granule_log2) + 2;
}

static void fill_granules(const struct heap_blocks *b, const struct heap_region *r)
{
	size_t count = (size_t)((r->end - r->base) >> r->granule_log2) + 2;
	uint32_t block = r->first;

	for (size_t i = 0; i < count; i++) {
		uint64_t start = (uint64_t)i << r->granule_log2;

		while (block + 1 < r->first + r->count &&
		       (uint64_t)b->start[block + 1] * HEAP_UNIT <= start)
			block++;
		b->granule[r->granule + i] = block;
	}
	for (uint64_t at = r->base >> NEAR_LOG2; at <= (r->end - 1) >> NEAR_LOG2; at++)
		b->near[at / 64] |= 1ull << at % 64;
}

bool heap_blocks_index(struct heap_blocks *b, struct heap_problem *problem)
{
	drop_freed(b);
	free(b->granule);
	b->granule = NULL;
	b->granules = 0;
	for (size_t i = 0; i < b->regions; i++)
		plan_granules(b, &b->region[i]);
	b->granule = malloc((b->granules + 1) * sizeof(*b->granule));
	if (!b->near)
		b->near = malloc(NEAR_BITS / 8);
	if (!b->granule || !b->near)
		return heap_fail(problem, HEAP_NO_MEMORY, 0);
	memset(b->near, 0, NEAR_BITS / 8);
	for (size_t i = 0; i < b->regions; i++)
		if (b->region[i].count)
			fill_granules(b, &b->region[i]);
	b->lowest = b->regions ? b->region[0].base : 0;
	b->highest = b->regions ? last_region(b)->end : 0;
	return true;
}

/* ---- two allocators ---- */

static bool add_from(struct heap_blocks *to, const struct heap_blocks *from, size_t *region,
		     uint32_t block, struct heap_problem *problem)
{
	const struct heap_region *r;

	*region = heap_blocks_region(from, block, *region);
	r = &from->region[*region];
	return heap_blocks_add(to, heap_block_address(from, r, block),
			       (uint64_t)from->size[block] * HEAP_UNIT, r->kind, problem);
}

static uint64_t address_of(const struct heap_blocks *b, uint32_t block, size_t *region)
{
	if (block >= b->count)
		return UINT64_MAX;
	*region = heap_blocks_region(b, block, *region);
	return heap_block_address(b, &b->region[*region], block);
}

bool heap_blocks_merge(struct heap_blocks *b, const struct heap_blocks *more,
		       struct heap_problem *problem)
{
	struct heap_blocks all = {0};
	size_t here = 0, there = 0;
	uint32_t a = 0, m = 0;
	bool good = true;

	while (good && (a < b->count || m < more->count)) {
		if (address_of(b, a, &here) < address_of(more, m, &there))
			good = add_from(&all, b, &here, a++, problem);
		else
			good = add_from(&all, more, &there, m++, problem);
	}
	if (good)
		heap_blocks_free(b);
	if (good && heap_blocks_index(&all, problem)) {
		*b = all;
		return true;
	}
	heap_blocks_free(&all);
	return false;
}

void heap_blocks_free(struct heap_blocks *b)
{
	free(b->region);
	free(b->start);
	free(b->size);
	free(b->granule);
	free(b->near);
	*b = (struct heap_blocks){0};
}

/* ---- the search ---- */

static const struct heap_region *region_at(const struct heap_blocks *b, uint64_t address)
{
	size_t low = FIRST_THAT(i, 0, b->regions, b->region[i].end > address);

	return low < b->regions && b->region[low].base <= address ? &b->region[low] : NULL;
}

uint32_t heap_blocks_find(const struct heap_blocks *b, uint64_t address, uint64_t *offset)
{
	const struct heap_region *r;
	uint64_t at, start;
	uint32_t low, high;

	*offset = 0;
	if (address < b->lowest || address >= b->highest ||
	    !(b->near[(address >> NEAR_LOG2) / 64] >> (address >> NEAR_LOG2) % 64 & 1))
		return HEAP_NONE;
	r = region_at(b, address);
	if (!r || !r->count)
		return HEAP_NONE;
	at = address - r->base;
	/* The last block that begins at or before the address. */
	low = b->granule[r->granule + (at >> r->granule_log2)];
	high = b->granule[r->granule + (at >> r->granule_log2) + 1];
	while (low < high) {
		uint32_t middle = low + (high - low + 1) / 2;

		if ((uint64_t)b->start[middle] * HEAP_UNIT <= at)
			low = middle;
		else
			high = middle - 1;
	}
	start = (uint64_t)b->start[low] * HEAP_UNIT;
	if (at < start || at - start >= heap_block_bytes(b, r, low))
		return HEAP_NONE;
	*offset = at - start;
	return low;
}

size_t heap_blocks_region(const struct heap_blocks *b, uint32_t block, size_t hint)
{
	if (hint < b->regions && block >= b->region[hint].first &&
	    block - b->region[hint].first < b->region[hint].count)
		return hint;
	return FIRST_THAT(i, 0, b->regions, b->region[i].first + b->region[i].count > block);
}
