/* SPDX-License-Identifier: Apache-2.0 */
/* Free chunks that look used: see glibc_cached.h. */
#include "heap/glibc_cached.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/array.h"

#define LISTS	    64u
#define CACHE_BYTES 640u
#define LEAST_CHUNK 32u
#define HEAD	    16u
#define MIX_SHIFT   12

bool glibc_cached_add(struct glibc_cached *c, uint64_t block, struct heap_problem *problem)
{
	if (!array_reserve(&c->candidate, &c->capacity, c->candidates, sizeof(*c->candidate)))
		return heap_fail(problem, HEAP_NO_MEMORY, 0);
	c->candidate[c->candidates++] = block;
	return true;
}

void glibc_cached_free(struct glibc_cached *c)
{
	free(c->candidate);
	c->candidate = NULL;
}

/* The block that a chunk of a list is; HEAP_NONE: there is none of this size. */
static uint32_t block_of(const struct heap_blocks *b, uint64_t address, uint64_t bytes)
{
	uint64_t inside;
	uint32_t block = address % HEAP_UNIT ? HEAP_NONE : heap_blocks_find(b, address, &inside);

	return block != HEAP_NONE && !inside && (uint64_t)b->size[block] * HEAP_UNIT == bytes
		   ? block
		   : HEAP_NONE;
}

/* A list of chunks of one size. */
struct list {
	uint64_t first, bytes; /* its first pointer; of each chunk */
	uint64_t head;	       /* from where the pointers point to the block */
	uint64_t most;	       /* a longer one is none */
	bool mixed;
};

/* Follows the list and counts its chunks. False: it leads elsewhere, or in a circle. drop: marks them as
 * dropped, too. */
static bool follow(const struct heap_blocks *b, struct heap_window *w, const struct list *list,
		   bool drop, uint64_t *count)
{
	uint64_t pointer = list->first, link;

	for (*count = 0; pointer; (*count)++) {
		uint64_t at = pointer + list->head;
		uint32_t block = block_of(b, at, list->bytes);

		if (block == HEAP_NONE || *count >= list->most ||
		    !heap_window_word(w, at, at + 8, &link))
			return false;
		pointer = list->mixed ? link ^ at >> MIX_SHIFT : link;
		if (drop)
			b->size[block] = 0;
	}
	return true;
}

/* Whether it is one, with its pointers mixed or plain. */
static bool is_list(const struct glibc_cached *c, const struct heap_blocks *b,
		    struct heap_window *w, struct list *list, uint64_t *count)
{
	list->mixed = true;
	if ((!c->version || c->version >= 232) && follow(b, w, list, false, count))
		return true;
	list->mixed = false;
	return (!c->version || c->version < 232) && follow(b, w, list, false, count);
}

static void drop_list(struct glibc_cached *c, struct heap_blocks *b, struct heap_window *w,
		      const struct list *list)
{
	uint64_t count;

	follow(b, w, list, true, &count);
	c->count += count;
	c->bytes += count * list->bytes;
}

struct cache {
	uint8_t bytes[CACHE_BYTES];
};

static struct list list_of(const struct cache *cache, unsigned int i, uint64_t *said)
{
	*said = (uint64_t)cache->bytes[2 * i] | (uint64_t)cache->bytes[2 * i + 1] << 8;
	return (struct list){.first = bytes_load(cache->bytes + 2 * LISTS + 8 * i),
			     .bytes = LEAST_CHUNK + HEAD * i,
			     .most = *said + 1};
}

/* Every list is one. A thread that was stopped inside malloc may be between a list and its count. */
static bool is_cache(const struct glibc_cached *c, const struct heap_blocks *b,
		     struct heap_window *w, const struct cache *cache, struct list *list)
{
	unsigned int lists = 0, wrong = 0;

	for (unsigned int i = 0; i < LISTS; i++) {
		uint64_t said, count;

		list[i] = list_of(cache, i, &said);
		if (!is_list(c, b, w, &list[i], &count))
			return false;
		lists += list[i].first != 0;
		wrong += said != count;
	}
	return lists && wrong <= 1;
}

static void drop_cache(struct glibc_cached *c, struct heap_window *w, struct heap_blocks *b,
		       uint64_t at)
{
	const uint8_t *bytes = heap_window_see(w, at, CACHE_BYTES, at + CACHE_BYTES);
	struct list list[LISTS];
	struct cache cache;

	if (!bytes)
		return;
	memcpy(cache.bytes, bytes, sizeof(cache.bytes));
	if (!is_cache(c, b, w, &cache, list))
		return;
	for (unsigned int i = 0; i < LISTS; i++)
		drop_list(c, b, w, &list[i]);
}

bool glibc_cached_drop(struct glibc_cached *c, struct heap_window *w, const struct glibc_pieces *p,
		       struct heap_blocks *b, struct heap_problem *problem)
{
	uint64_t count;

	for (size_t i = 0; i < p->arenas; i++)
		for (unsigned int k = 0; k < FAST_BINS; k++) {
			struct list list = {.first = p->arena[i].fast[k],
					    .bytes = LEAST_CHUNK + HEAD * k,
					    .head = HEAD,
					    .most = b->count};

			if (!is_list(c, b, w, &list, &count))
				return heap_fail(problem, HEAP_DAMAGED, list.first);
			drop_list(c, b, w, &list);
		}
	for (size_t i = 0; i < c->candidates; i++)
		drop_cache(c, w, b, c->candidate[i]);
	return heap_blocks_index(b, problem);
}
