/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An allocation stress: THREADS threads replace blocks at random among 2^16 live ones each, with a
 * spread of sizes and of call stacks, and hand one block in sixteen to another thread to free.
 *
 *	bench_stress THREADS REPLACEMENTS
 *
 * The same sequence of requests in every run: each thread has a random generator of its own with a
 * fixed seed. Only which thread frees a handed-over block depends on timing.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS	    (1u << 16)
#define EXCHANGE    (1u << 10)
#define MAX_THREADS 64u

struct worker {
	pthread_t thread;
	uint64_t random;
	uint64_t replacements;
	uint64_t bytes;
	void *live[SLOTS];
};

static _Atomic(void *) exchange[EXCHANGE];
static struct worker workers[MAX_THREADS];

static uint64_t next_random(struct worker *w)
{
	w->random = w->random * 6364136223846793005u + 1442695040888963407u;
	return w->random >> 20;
}

/* Most blocks are small; a few are as large as a buffer, very few go to mmap. */
static size_t pick_size(uint64_t random)
{
	uint64_t kind = random & 1023, spread = random >> 10;

	if (kind < 700)
		return 16 + (spread & 127);
	if (kind < 970)
		return 128 + (spread & 1023);
	if (kind < 1023)
		return 1024 + (spread & 8191);
	return spread & 255 ? 16384 + (spread & 16383) : 262144 + (spread & 131071);
}

#define STEP(name, next_a, next_b)                                                                 \
	__attribute__((noinline)) static void *name(struct worker *w, uint64_t path, size_t size)  \
	{                                                                                          \
		char *block = path & 1 ? next_a(w, path >> 1, size) : next_b(w, path >> 1, size);  \
		w->bytes += size;                                                                  \
		__asm__ volatile("" : "+r"(block)); /* not a tail call */                          \
		return block;                                                                      \
	}

__attribute__((noinline)) static void *make(struct worker *w, uint64_t path, size_t size)
{
	char *block = malloc(size);

	(void)path;
	if (!block) {
		fputs("bench_stress: out of memory\n", stderr);
		exit(1);
	}
	memset(block, 1, size < 128 ? size : 128);
	w->bytes += size;
	return block;
}

STEP(node, make, make)
STEP(list, node, make)
STEP(table, node, list)
STEP(parse, table, list)
STEP(evaluate, parse, table)
STEP(compile, evaluate, parse)
STEP(load, compile, evaluate)
STEP(request, load, compile)

static void *work(void *argument)
{
	struct worker *w = argument;

	for (uint64_t i = 0; i < w->replacements; i++) {
		uint64_t random = next_random(w);
		void **slot = &w->live[random & (SLOTS - 1)];
		void *old = *slot;

		random >>= 16;
		if ((random & 15) == 0)
			old = atomic_exchange(&exchange[(random >> 4) & (EXCHANGE - 1)], old);
		free(old);
		*slot = request(w, next_random(w), pick_size(random >> 4));
	}
	for (uint32_t i = 0; i < SLOTS; i++)
		free(w->live[i]);
	return NULL;
}

int main(int argc, char **argv)
{
	unsigned int threads = argc == 3 ? (unsigned int)strtoul(argv[1], NULL, 10) : 0;
	uint64_t bytes = 0;

	if (threads < 1 || threads > MAX_THREADS) {
		fputs("usage: bench_stress THREADS REPLACEMENTS\n", stderr);
		return 2;
	}
	for (unsigned int i = 0; i < threads; i++) {
		workers[i].random = i + 1;
		workers[i].replacements = strtoull(argv[2], NULL, 10);
		pthread_create(&workers[i].thread, NULL, work, &workers[i]);
	}
	for (unsigned int i = 0; i < threads; i++) {
		pthread_join(workers[i].thread, NULL);
		bytes += workers[i].bytes;
	}
	for (uint32_t i = 0; i < EXCHANGE; i++)
		free(atomic_load(&exchange[i]));
	printf("%llu\n", (unsigned long long)bytes);
	return 0;
}
