/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_stacks STACKS: allocates one block on each of so many distinct stacks, up to 2^21, and frees every other
 * one. On each of 21 levels a bit of the stack's number chooses which of two functions is called, so no function
 * is twice on a stack, and the stacks are a binary tree.
 */
#include <stdint.h>
#include <stdlib.h>

#define MOST_STACKS (1u << 21)

static void *g_block[MOST_STACKS];

/* What follows a call keeps it from being a jump, which would leave no frame; the mark keeps the compiler from
 * making one function of two that do the same. */
#define STAYS(mark) __asm__ volatile("" : : "i"(mark) : "memory")
#define FUNCTION(name, next, mark)                                                                 \
	__attribute__((noinline)) static void name(uint32_t number, uint32_t bits)                 \
	{                                                                                          \
		if (bits & 1)                                                                      \
			next##_odd(number, bits >> 1);                                             \
		else                                                                               \
			next##_even(number, bits >> 1);                                            \
		STAYS(mark);                                                                       \
	}
#define LEVEL(name, next) FUNCTION(name##_odd, next, 1) FUNCTION(name##_even, next, 0)
#define LEAF(name, mark)                                                                           \
	__attribute__((noinline)) static void name(uint32_t number, uint32_t bits)                 \
	{                                                                                          \
		(void)bits; /* all are used up */                                                  \
		g_block[number] = malloc(24);                                                      \
		STAYS(mark);                                                                       \
	}

LEAF(level0_odd, 1)
LEAF(level0_even, 0)
LEVEL(level1, level0)
LEVEL(level2, level1)
LEVEL(level3, level2)
LEVEL(level4, level3)
LEVEL(level5, level4)
LEVEL(level6, level5)
LEVEL(level7, level6)
LEVEL(level8, level7)
LEVEL(level9, level8)
LEVEL(level10, level9)
LEVEL(level11, level10)
LEVEL(level12, level11)
LEVEL(level13, level12)
LEVEL(level14, level13)
LEVEL(level15, level14)
LEVEL(level16, level15)
LEVEL(level17, level16)
LEVEL(level18, level17)
LEVEL(level19, level18)
LEVEL(level20, level19)
FUNCTION(level21, level20, 0)

int main(int argc, char **argv)
{
	uint32_t stacks = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;

	if (stacks > MOST_STACKS)
		stacks = MOST_STACKS;
	for (uint32_t i = 0; i < stacks; i++)
		level21(i, i);
	for (uint32_t i = 0; i < stacks; i += 2)
		free(g_block[i]);
	return 0;
}
