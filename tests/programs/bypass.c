/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocations and frees that might pass the hooks by: bypass CASE COUNT [PLUGIN]. Each function
 * below allocates COUNT blocks of SIZE bytes; those whose name begins with "kept_" keep every
 * fourth, the others free all.
 */
#include <dlfcn.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE	  1000
#define NOT_KNOWN __attribute__((noinline))

static size_t count;
static void **block;

static void fail(const char *what)
{
	printf("failed: %s\n", what);
	exit(2);
}

static void free_most(void)
{
	for (size_t i = 0; i < count; i++)
		if (i % 4)
			free(block[i]);
}

/* ---- an allocator whose functions call each other ---- */

NOT_KNOWN static void kept_calloc(void)
{
	for (size_t i = 0; i < count; i++)
		block[i] = calloc(1, SIZE);
	free_most();
}

/* Each block is made with a tenth of the size, then grows. */
NOT_KNOWN static void kept_realloc(void)
{
	for (size_t i = 0; i < count; i++)
		block[i] = malloc(SIZE / 10);
	for (size_t i = 0; i < count; i++)
		block[i] = realloc(block[i], SIZE);
	free_most();
}

NOT_KNOWN static void kept_aligned(void)
{
	for (size_t i = 0; i < count; i++) {
		if (i % 3 == 0)
			block[i] = memalign(64, SIZE);
		else if (i % 3 == 1)
			block[i] = aligned_alloc(64, SIZE);
		else if (posix_memalign(&block[i], 64, SIZE))
			fail("posix_memalign");
	}
	free_most();
}

static void nested(void)
{
	kept_calloc();
	kept_realloc();
	kept_aligned();
}

/* ---- frees that nothing can see ---- */

extern void __libc_free(void *);

/* One address, again and again. */
NOT_KNOWN static void hidden_free(void)
{
	for (size_t i = 0; i < count; i++)
		__libc_free(malloc(SIZE));
}

/* ---- all ---- */

int main(int argc, char **argv)
{
	if (argc < 3)
		fail("arguments");
	count = strtoul(argv[2], NULL, 10);
	block = malloc(count * sizeof(*block));
	if (!strcmp(argv[1], "nested"))
		nested();
	else if (!strcmp(argv[1], "hidden"))
		hidden_free();
	else
		fail(argv[1]);
	puts("done");
	return 0;
}
