/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reporting [THREADS]: an allocator of its own on a static arena, which reports its blocks. Makes
 * the same blocks each time, and prints for each of its functions
 *
 *	FUNCTION bytes blocks live-bytes live-blocks
 *
 * Compiled with -DAS_MALLOC it is the program's malloc, too, which hides the hooks from it.
 */
#include <mayfly/mayfly.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCKS	2000u
#define CLASSES 24u

struct block {
	size_t size;
	struct block *next;
};

static char arena[96u << 20] __attribute__((aligned(16)));
static size_t arena_used;
static struct block *free_list[CLASSES];
static atomic_flag taken = ATOMIC_FLAG_INIT;

static unsigned class_of(size_t size)
{
	unsigned class = 5;

	while (((size_t)1 << class) < size)
		class ++;
	return class;
}

static void *take(size_t size)
{
	unsigned class = class_of(size);
	struct block *block;

	while (atomic_flag_test_and_set(&taken))
		;
	block = free_list[class];
	if (block) {
		free_list[class] = block->next;
	} else if (sizeof(arena) - arena_used > ((size_t)2 << class)) {
		block = (struct block *)(arena + arena_used);
		arena_used += sizeof(*block) + ((size_t)1 << class);
	}
	atomic_flag_clear(&taken);
	if (!block)
		return NULL;
	block->size = size;
	return block + 1;
}

static void give(void *p)
{
	struct block *block = (struct block *)p - 1;
	unsigned class = class_of(block->size);

	while (atomic_flag_test_and_set(&taken))
		;
	block->next = free_list[class];
	free_list[class] = block;
	atomic_flag_clear(&taken);
}

/* One function each, so that the stacks begin in these functions' callers. */
static inline __attribute__((always_inline)) void *own_alloc(size_t size)
{
	void *p = take(size);

	mayfly_allocator_alloc(p, size);
	return p;
}

static void own_free(void *p)
{
	if (!p)
		return;
	mayfly_allocator_free(p);
	give(p);
}

static inline __attribute__((always_inline)) void *own_realloc(void *p, size_t size)
{
	struct mayfly_resize resize;
	void *moved = NULL;

	mayfly_allocator_resize_begin(&resize, p);
	if (size < sizeof(arena)) {
		size_t old = ((struct block *)p - 1)->size;

		moved = take(size);
		if (moved) {
			memcpy(moved, p, old < size ? old : size);
			give(p);
		}
	}
	mayfly_allocator_resize_end(&resize, moved, size);
	return moved;
}

#ifdef AS_MALLOC
void *malloc(size_t size)
{
	return own_alloc(size);
}
void free(void *p)
{
	own_free(p);
}
void *calloc(size_t count, size_t size)
{
	void *p = own_alloc(count * size);

	return p ? memset(p, 0, count * size) : NULL;
}
void *realloc(void *p, size_t size)
{
	return p ? own_realloc(p, size) : own_alloc(size);
}
#endif

/* ---- the work ---- */

__attribute__((noinline)) static void keep_some(void)
{
	for (unsigned i = 0; i < BLOCKS; i++) {
		void *p = own_alloc(100 + i % 1000);

		if (i % 4)
			own_free(p);
	}
}

__attribute__((noinline)) static void resize_some(void)
{
	for (unsigned i = 0; i < BLOCKS; i++) {
		void *p = own_alloc(50);
		void *larger = own_realloc(p, 500 + i % 100);

		if (own_realloc(larger, sizeof(arena) * 2))
			abort();
		if (i % 2)
			own_free(larger);
	}
}

static void *work(void *unused)
{
	(void)unused;
	keep_some();
	resize_some();
	return NULL;
}

int main(int argc, char **argv)
{
	unsigned threads = argc > 1 ? (unsigned)atoi(argv[1]) : 1;
	pthread_t thread[16];
	size_t bytes = 0, live = 0, resized = 0, kept = 0;

	for (unsigned i = 1; i < threads && i < 16; i++)
		if (pthread_create(&thread[i], NULL, work, NULL))
			return 1;
	work(NULL);
	for (unsigned i = 1; i < threads && i < 16; i++)
		pthread_join(thread[i], NULL);
	for (unsigned i = 0; i < BLOCKS; i++) {
		bytes += 100 + i % 1000;
		live += i % 4 ? 0 : 100 + i % 1000;
		resized += 50 + 500 + i % 100;
		kept += i % 2 ? 0 : 500 + i % 100;
	}
	printf("keep_some %zu %u %zu %u\n", bytes * threads, BLOCKS * threads, live * threads,
	       BLOCKS / 4 * threads);
	printf("resize_some %zu %u %zu %u\n", resized * threads, 2 * BLOCKS * threads,
	       kept * threads, BLOCKS / 2 * threads);
	return 0;
}
