/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of a process that never was, with a heap as glibc 2.36 makes it: for tests of the picture and
 * as a seed of its fuzzer.
 *
 *	MADE_DATA	malloc_state and malloc_par, then variables
 *	MADE_BREAK	the main arena
 *	MADE_ARENA	a further arena
 *	MADE_ROOM	mappings of single blocks
 *	MADE_POOLS	an arena of Python's, of which only the first pool is there
 */
#ifndef MAYFLY_HEAP_MADE_H
#define MAYFLY_HEAP_MADE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "heap/heap_image.h"

#define MADE_MAPS	 5
#define MADE_ARENA_BYTES (1u << 20)

enum made_map { MADE_DATA, MADE_BREAK, MADE_ARENA, MADE_ROOM, MADE_POOLS };

static const uint64_t made_start[MADE_MAPS] = {0x555555500000u, 0x555556000000u, 0x7ffff0000000u,
					       0x7ffff7000000u, 0x7ffff8000000u};
#define MADE_BYTES     (1u << 14) /* of each map */
#define MADE_STATE     0x100u	  /* of malloc_state, in MADE_DATA */
#define MADE_PAR       0xa00u
#define MADE_VARIABLES 0x1000u

struct made_memory {
	uint8_t bytes[MADE_MAPS][MADE_BYTES];
	struct heap_map map[MADE_MAPS];
	struct heap_image image;
};

static bool made_read(void *context, uint64_t address, void *to, size_t bytes)
{
	const struct made_memory *m = context;

	for (int i = 0; i < MADE_MAPS; i++)
		if (address >= made_start[i] && bytes <= MADE_BYTES &&
		    address - made_start[i] <= MADE_BYTES - bytes) {
			memcpy(to, m->bytes[i] + (address - made_start[i]), bytes);
			return true;
		}
	return false;
}

static inline void made_begin(struct made_memory *m)
{
	static const enum heap_map_kind kinds[MADE_MAPS] = {HEAP_MAP_LIBC, HEAP_MAP_BREAK,
							    HEAP_MAP_ANONYMOUS, HEAP_MAP_ANONYMOUS,
							    HEAP_MAP_ANONYMOUS};

	for (int i = 0; i < MADE_MAPS; i++)
		m->map[i] = (struct heap_map){made_start[i], made_start[i] + MADE_BYTES, kinds[i]};
	m->map[MADE_POOLS].end = made_start[MADE_POOLS] + MADE_ARENA_BYTES;
	m->image =
	    (struct heap_image){.read = made_read, .context = m, .map = m->map, .maps = MADE_MAPS};
}

static inline void made_put(struct made_memory *m, enum made_map map, uint64_t at, uint64_t word)
{
	memcpy(m->bytes[map] + at, &word, sizeof(word));
}

static inline uint64_t made_address(enum made_map map, uint64_t at)
{
	return made_start[map] + at;
}

/* malloc_state with empty bins. */
static inline void made_put_state(struct made_memory *m, enum made_map map, uint64_t at,
				  uint64_t top, uint64_t next)
{
	for (unsigned int i = 0; i < 127; i++) {
		uint64_t self = made_address(map, at) + 112 + 16 * i - 16;

		made_put(m, map, at + 112 + 16 * i, self);
		made_put(m, map, at + 112 + 16 * i + 8, self);
	}
	made_put(m, map, at + 96, top);
	made_put(m, map, at + 2160, next);
	made_put(m, map, at + 2184, MADE_BYTES);
}

/* Chunks, one after the other. */
struct made_arena {
	struct made_memory *m;
	enum made_map map;
	uint64_t at;	/* of the next chunk */
	uint64_t flags; /* of all */
	bool after_free;
};

/* Returns where the block begins, in its map. */
static inline uint64_t made_chunk(struct made_arena *a, uint64_t bytes, bool used)
{
	uint64_t at = a->at;

	made_put(a->m, a->map, at + 8, bytes | a->flags | (a->after_free ? 0 : 1));
	if (!used)
		made_put(a->m, a->map, at + bytes, bytes);
	a->after_free = !used;
	a->at += bytes;
	return at + 16;
}

/* The last chunk takes the rest. */
static inline uint64_t made_top(struct made_arena *a)
{
	uint64_t at = a->at;

	made_put(a->m, a->map, at + 8, (MADE_BYTES - at) | a->flags | (a->after_free ? 0 : 1));
	return made_address(a->map, at);
}

/* Python's arena, described in a block of malloc: one pool of it has been used. */
static inline void made_put_arena(struct made_arena *a)
{
	uint64_t array = made_chunk(a, 784, true);

	made_put(a->m, a->map, array, made_start[MADE_POOLS]);
	made_put(a->m, a->map, array + 8, made_address(MADE_POOLS, MADE_BYTES));
	made_put(a->m, a->map, array + 16, 63 | (uint64_t)64 << 32);
}

/* Its pool: `used` blocks of so many bytes behind some that are free. */
#define MADE_POOL_HEAD 48u
static inline void made_put_pool(struct made_memory *m, uint32_t block_bytes, uint32_t used,
				 uint32_t unused)
{
	uint64_t offset = MADE_POOL_HEAD + (uint64_t)(used + unused) * block_bytes;

	made_put(m, MADE_POOLS, 0, used);
	made_put(m, MADE_POOLS, 8, unused ? made_address(MADE_POOLS, MADE_POOL_HEAD) : 0);
	made_put(m, MADE_POOLS, 32, (uint64_t)(block_bytes / 16 - 1) << 32);
	made_put(m, MADE_POOLS, 40, offset | (uint64_t)(MADE_BYTES - block_bytes) << 32);
	for (uint32_t i = 0; i + 1 < unused; i++)
		made_put(m, MADE_POOLS, MADE_POOL_HEAD + i * block_bytes,
			 made_address(MADE_POOLS, MADE_POOL_HEAD + (i + 1) * block_bytes));
}

/* Python's types, in the first chunks of the main arena: each an object with 16 bytes in front, of `type`. */
enum made_type { MADE_TYPE, MADE_DICT, MADE_MODULE, MADE_CODE, MADE_ORDER, MADE_TYPES };

#define MADE_TYPE_CHUNK 1024u
static inline uint64_t made_type(enum made_type type)
{
	return made_address(MADE_BREAK, 32 + type * MADE_TYPE_CHUNK);
}

static inline void made_put_types(struct made_arena *a)
{
	/* READY, and what else tells them apart: for the collector, made by a program, a dictionary, a class. */
	static const uint64_t flags[MADE_TYPES] = {0x80005000u, 0x20005000u, 0x5000u, 0x1000u,
						   0x5200u};
	static const char names[MADE_TYPES][8] = {"type", "dict", "module", "code", "Order"};

	for (uint64_t i = 0; i < MADE_TYPES; i++) {
		uint64_t at = made_chunk(a, MADE_TYPE_CHUNK, true) + 16;

		made_put(a->m, a->map, at, 1);
		made_put(a->m, a->map, at + 8, made_type(MADE_TYPE));
		made_put(a->m, a->map, at + 24, made_address(a->map, at + 500));
		made_put(a->m, a->map, at + 32, i == MADE_TYPE ? 904 : 48);
		made_put(a->m, a->map, at + 168, flags[i]);
		memcpy(a->m->bytes[a->map] + at + 500, names[i], sizeof(names[i]));
	}
}

/* An object of such a type, of 64 bytes in a chunk; `head`: in front of it. Returns where it begins. */
static inline uint64_t made_object(struct made_arena *a, enum made_type type, uint64_t head)
{
	uint64_t at = made_chunk(a, 80, true) + head;

	made_put(a->m, a->map, at, 1);
	made_put(a->m, a->map, at + 8, made_type(type));
	return at;
}

/* A text of at most seven characters. */
static inline uint64_t made_text(struct made_arena *a, const char *text)
{
	uint64_t at = made_chunk(a, 64, true);

	made_put(a->m, a->map, at + 16, strlen(text));
	made_put(a->m, a->map, at + 32, 0x60);
	memcpy(a->m->bytes[a->map] + at + 48, text, strlen(text));
	return at;
}

#define MADE_MODULE_DICT  80u /* from where the module begins */
#define MADE_MODULE_TABLE 144u
/* A module in whose dictionary `name` leads to an object. Returns where the module begins. */
static inline uint64_t made_module(struct made_arena *a, const char *name, uint64_t object)
{
	uint64_t module = made_object(a, MADE_MODULE, 16), dict = made_object(a, MADE_DICT, 16);
	uint64_t table = made_chunk(a, 144, true), key = made_text(a, name);

	made_put(a->m, a->map, module + 16, made_address(a->map, dict));
	made_put(a->m, a->map, module + 40, 0);
	made_put(a->m, a->map, dict + 32, made_address(a->map, table));
	made_put(a->m, a->map, table + 8, 1u << 16 | 3u << 8 | 3u);
	made_put(a->m, a->map, table + 24, 2);
	made_put(a->m, a->map, table + 40, made_address(a->map, key));
	made_put(a->m, a->map, table + 48, object);
	return module;
}

/* malloc_par: how much is mapped for single blocks. */
static inline void made_put_par(struct made_memory *m, uint32_t mapped, uint64_t bytes)
{
	made_put(m, MADE_DATA, MADE_PAR, mapped | (uint64_t)65536 << 32);
	made_put(m, MADE_DATA, MADE_PAR + 8, mapped);
	made_put(m, MADE_DATA, MADE_PAR + 16, bytes);
	made_put(m, MADE_DATA, MADE_PAR + 24, bytes);
	made_put(m, MADE_DATA, MADE_PAR + 32, made_start[MADE_BREAK]);
}

#endif
