/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recursive CALLS [SIZE]: functions that call one another at random, also themselves, and allocate
 * on the way. Some of the blocks are freed.
 */
#include <stdint.h>
#include <stdlib.h>

static uint64_t seed = 42;
static size_t largest = 3000, left;
static void *kept[64];

static uint32_t below(uint32_t limit)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(seed >> 33) % limit;
}

static void call(int depth);

#define CALLED(name)                                                                               \
	__attribute__((noinline)) static void name(int depth)                                      \
	{                                                                                          \
		void **slot = &kept[below(64)];                                                    \
		if (below(2)) {                                                                    \
			free(*slot);                                                               \
			*slot = malloc(1 + below((uint32_t)largest));                              \
		}                                                                                  \
		if (depth > 0)                                                                     \
			call(depth - 1);                                                           \
		if (depth > 0 && below(3) == 0)                                                    \
			call(depth - 1);                                                           \
		__asm__ volatile("");                                                              \
	}

CALLED(parse)
CALLED(expand)
CALLED(visit)
CALLED(emit)

__attribute__((noinline)) static void call(int depth)
{
	static void (*const called[])(int) = {parse, expand, visit, emit};

	called[below(4)](depth);
	__asm__ volatile("");
}

int main(int argc, char **argv)
{
	left = argc > 1 ? (size_t)atoi(argv[1]) : 50;
	if (argc > 2)
		largest = (size_t)atoi(argv[2]);
	while (left-- > 0)
		call((int)below(12));
	return 0;
}
