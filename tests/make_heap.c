/* SPDX-License-Identifier: Apache-2.0 */
/* make_heap: the memory of heap_made.h with blocks of all kinds, on standard output, for the fuzzer. */
#include <stdio.h>
#include <stdlib.h>

#include "heap_made.h"

#define BLOCKS 40

/* A tree of blocks, of which variables hold some; every fourth is followed by a free one. */
static void make_main(struct made_memory *m)
{
	struct made_arena a = {.m = m, .map = MADE_BREAK};
	uint64_t cache, module, at[BLOCKS];

	made_put_types(&a);
	cache = made_chunk(&a, 0x290, true);

	for (int i = 0; i < BLOCKS; i++) {
		at[i] = made_chunk(&a, 48 + 16 * (uint64_t)(i % 5), true);
		if (i % 4 == 0)
			made_chunk(&a, 64, false);
		if (i)
			made_put(m, MADE_BREAK, at[i], made_address(MADE_BREAK, at[i / 2]));
	}
	for (unsigned int i = 0; i < 10; i++)
		made_put(m, MADE_DATA, MADE_VARIABLES + 8 * i, made_address(MADE_BREAK, at[4 * i]));
	made_put_arena(&a);
	module = made_module(&a, "CACHE", made_address(MADE_BREAK, at[6]));
	made_put(m, MADE_DATA, MADE_VARIABLES + 800, made_address(MADE_BREAK, module));
	made_put_pool(m, 64, 20, 5);
	made_put(m, MADE_POOLS, MADE_POOL_HEAD + 7 * 64, made_address(MADE_BREAK, at[9]));
	/* One is in the thread's cache. */
	m->bytes[MADE_BREAK][cache + 2] = 1;
	made_put(m, MADE_BREAK, cache + 128 + 8, made_address(MADE_BREAK, at[5]));
	made_put(m, MADE_BREAK, at[5], made_address(MADE_BREAK, at[5]) >> 12);
	made_put_state(m, MADE_DATA, MADE_STATE, made_top(&a), made_address(MADE_ARENA, 0x30));
}

static void make_further(struct made_memory *m)
{
	struct made_arena a = {
	    .m = m, .map = MADE_ARENA, .at = (0x30 + 2200 + 15) & ~15ull, .flags = 4};

	for (int i = 0; i < 10; i++)
		made_chunk(&a, 112, i % 3 != 1);
	made_put_state(m, MADE_ARENA, 0x30, made_top(&a), made_address(MADE_DATA, MADE_STATE));
	made_put(m, MADE_ARENA, 0, made_address(MADE_ARENA, 0x30));
	made_put(m, MADE_ARENA, 16, MADE_BYTES);
}

int main(void)
{
	struct made_memory *m = calloc(1, sizeof(*m));

	if (!m)
		return 1;
	made_begin(m);
	make_main(m);
	make_further(m);
	/* Two mapped blocks, one of them aligned to 256. */
	made_put(m, MADE_ROOM, 0x1008, 0x2000 | 2);
	made_put(m, MADE_ROOM, 0x3008, 0x1000 | 2);
	made_put(m, MADE_ROOM, 0x30f0, 0xf0);
	made_put(m, MADE_ROOM, 0x30f8, 0xf10 | 2);
	made_put_par(m, 2, 0x3000);
	return fwrite(m->bytes, sizeof(m->bytes), 1, stdout) != 1;
}
