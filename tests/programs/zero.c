/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frees 20,000 blocks of 1,000 bytes, and 20 of 1 MiB, in each of these functions: plain() after no
 * other allocation, the others after one of 0 bytes, each in another way.
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

#define SITE	    __attribute__((noinline))
#define KEEP(block) __asm__ volatile("" : : "r"(block) : "memory")

#define CHURN(name, zero)                                                                          \
	SITE static void name(size_t size)                                                         \
	{                                                                                          \
		void *block = malloc(size), *other = zero;                                         \
                                                                                                   \
		KEEP(block);                                                                       \
		KEEP(other);                                                                       \
		free(block);                                                                       \
		free(other);                                                                       \
	}

static void *by_posix_memalign(void)
{
	void *block = NULL;

	return posix_memalign(&block, 64, 0) ? NULL : block;
}

/* Not where the block is, or glibc would free it. */
static void *by_realloc(void)
{
	void *block = realloc(NULL, 0);

	KEEP(block);
	return block;
}

CHURN(plain, NULL)
CHURN(zero_malloc, malloc(0))
CHURN(zero_calloc, calloc(0, 16))
CHURN(zero_realloc, by_realloc())
CHURN(zero_reallocarray, reallocarray(NULL, 8, 0))
CHURN(zero_aligned_alloc, aligned_alloc(64, 0))
CHURN(zero_memalign, memalign(64, 0))
CHURN(zero_posix_memalign, by_posix_memalign())
CHURN(zero_valloc, valloc(0))
CHURN(zero_pvalloc, pvalloc(0))

int main(void)
{
	static void (*const churn[])(size_t) = {
	    plain,	   zero_malloc,		zero_calloc,
	    zero_realloc,  zero_reallocarray,	zero_aligned_alloc,
	    zero_memalign, zero_posix_memalign, zero_valloc,
	    zero_pvalloc};

	for (size_t k = 0; k < sizeof(churn) / sizeof(*churn); k++) {
		for (int i = 0; i < 20000; i++)
			churn[k](1000);
		for (int i = 0; i < 20; i++)
			churn[k](1 << 20);
	}
	return 0;
}
