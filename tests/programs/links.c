/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks that malloc has taken from its cache and that nobody has written to: their first words are links of the
 * cache, XORed with the link's place, and look like pointers into a large block between them. Built without
 * PIE, as low addresses make that happen at once. Prints the number of such blocks and the size of the large
 * one; ends when its standard input does.
 */
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define GROUPS	    4000
#define LARGE_BYTES (4u << 20)

static char *g_large;
static uint64_t *volatile g_links[GROUPS];

/* Takes two chunks from the cache: the first one has the link to the second. Its key has become 0. */
static uint64_t *old_link(void)
{
	uint64_t *block[2];

	for (int i = 0; i < 2; i++)
		block[i] = malloc(24);
	for (int i = 0; i < 2; i++)
		free(block[i]);
	return malloc(24);
}

int main(void)
{
	int links = 0;

	mallopt(M_MMAP_THRESHOLD, 2 * LARGE_BYTES);
	mallopt(M_TRIM_THRESHOLD, 1 << 30);
	for (int i = 0; i < GROUPS; i++) {
		uint64_t *block = old_link();

		/* Elsewhere links are multiples of 8, as any pointer. */
		if ((uintptr_t)block >> 12 & 7)
			g_links[i] = block;
		malloc(24); /* the second one, which is lost: the cache is empty again */
		if (i == GROUPS / 2)
			g_large = calloc(1, LARGE_BYTES);
	}
	for (int i = 0; i < GROUPS; i++) {
		uint64_t word = g_links[i] ? *(volatile uint64_t *)g_links[i] : 0;

		links += word > (uintptr_t)g_large && word < (uintptr_t)g_large + LARGE_BYTES;
	}
	printf("%d %zu\n", links, malloc_usable_size(g_large));
	fflush(stdout);
	while (read(0, &(char){0}, 1) > 0)
		;
	return 0;
}
