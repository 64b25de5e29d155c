/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The blocks of a heap, in order of addresses, and the block that an address is in.
 *
 *	region	[ base ............... end )   a run of blocks without a large gap
 *	start	   base + 16 x start[block]	of its first blocks to its last
 *	first	   for each granule of the region the last block that begins before it: a search
 *		   looks at the few blocks between two of these
 *	near	   a bit for each 64 MiB of the address space with a block in it: most words that are
 *		   no pointers end here
 *
 * Eight bytes a block, and the index: at most four bytes for 512 bytes of heap.
 */
#ifndef MAYFLY_HEAP_BLOCKS_H
#define MAYFLY_HEAP_BLOCKS_H

#include "heap/heap_image.h"

#define HEAP_NONE	 UINT32_MAX
#define HEAP_UNIT	 16u	     /* blocks begin at multiples of it */
#define HEAP_BLOCKS_MOST 0x7ffffff0u /* a bit of their numbers is used for other things */

/* What a region's blocks are, as it says how much of them is the allocator's. */
enum heap_block_kind {
	HEAP_CHUNKS, /* of malloc: the head has 8 bytes */
	HEAP_MAPPED, /* one block with a mapping of its own: 16 */
	HEAP_POOLS,  /* of Python: none */
};

struct heap_region {
	uint64_t base, end;
	uint32_t first, count; /* blocks */
	size_t granule;	       /* in granule[] */
	uint8_t granule_log2;
	enum heap_block_kind kind;
};

struct heap_blocks {
	struct heap_region *region;
	size_t regions, region_capacity;
	uint32_t *start,
	    *size; /* in units; the size is that of the chunk; 0: it has been dropped */
	size_t count, start_capacity, size_capacity;
	uint32_t *granule;
	size_t granules;
	uint64_t *near;
	uint64_t lowest, highest;
};

/* In rising order of addresses. address: what malloc() returned; chunk_bytes: with its head. */
bool heap_blocks_add(struct heap_blocks *b, uint64_t address, uint64_t chunk_bytes,
		     enum heap_block_kind kind, struct heap_problem *problem);
/* Adds all blocks of another allocator, which lie between these, and makes the index again. */
bool heap_blocks_merge(struct heap_blocks *b, const struct heap_blocks *more,
		       struct heap_problem *problem);
/* Removes those whose size is 0, and makes the index. */
bool heap_blocks_index(struct heap_blocks *b, struct heap_problem *problem);
void heap_blocks_free(struct heap_blocks *b);

/* The block that the address points into, and how far from its start; HEAP_NONE. */
uint32_t heap_blocks_find(const struct heap_blocks *b, uint64_t address, uint64_t *offset);

/* The region of a block; `hint` is where the last one was found. */
size_t heap_blocks_region(const struct heap_blocks *b, uint32_t block, size_t hint);

static inline uint64_t heap_block_address(const struct heap_blocks *b, const struct heap_region *r,
					  uint32_t block)
{
	return r->base + (uint64_t)b->start[block] * HEAP_UNIT;
}

static inline uint64_t heap_head_bytes(enum heap_block_kind kind)
{
	switch (kind) {
	case HEAP_CHUNKS:
		return 8;
	case HEAP_MAPPED:
		return 16;
	case HEAP_POOLS:
		break;
	}
	return 0;
}

/* What malloc_usable_size() says. */
static inline uint64_t heap_block_bytes(const struct heap_blocks *b, const struct heap_region *r,
					uint32_t block)
{
	return (uint64_t)b->size[block] * HEAP_UNIT - heap_head_bytes(r->kind);
}

#endif
