/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resident memory of a process that holds very many live blocks.
 *
 *	bench_live BLOCKS SIZE
 *
 * Allocates BLOCKS blocks of SIZE bytes from a spread of stacks, keeps them all, and prints its
 * own resident memory. bench/run compares the figure without an agent and with one whose interval
 * is such that a known number of these blocks are samples.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* 2^10 different stacks of ten frames and more: the bits of path choose the call sites. */
__attribute__((noinline)) static void *allocate(unsigned int path, unsigned int depth, size_t size)
{
	void *block;

	if (!depth) {
		block = malloc(size);
		if (block)
			memset(block, 1, size);
	} else if (path & 1) {
		block = allocate(path >> 1, depth - 1, size);
		__asm__ volatile("" : "+r"(block));
	} else {
		block = allocate(path >> 1, depth - 1, size);
		__asm__ volatile("" : "+r"(block) : : "memory");
	}
	return block;
}

static void print_field(const char *name, const char *key)
{
	char line[256];
	FILE *file = fopen("/proc/self/smaps_rollup", "r");

	if (!file)
		return;
	while (fgets(line, sizeof(line), file))
		if (!strncmp(line, name, strlen(name)))
			printf("\"%s\": %llu, ", key,
			       strtoull(line + strlen(name), NULL, 10) * 1024);
	fclose(file);
}

int main(int argc, char **argv)
{
	size_t blocks = argc == 3 ? strtoull(argv[1], NULL, 10) : 0;
	size_t size = argc == 3 ? strtoull(argv[2], NULL, 10) : 0;
	void **live;

	if (!blocks || !size) {
		fputs("usage: bench_live BLOCKS SIZE\n", stderr);
		return 2;
	}
	live = mmap(NULL, blocks * sizeof(*live), PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (live == MAP_FAILED) {
		perror("mmap");
		return 1;
	}
	for (size_t i = 0; i < blocks; i++) {
		live[i] = allocate((unsigned int)(i * 2654435761u >> 7), 10, size);
		if (!live[i]) {
			fputs("bench_live: out of memory\n", stderr);
			return 1;
		}
	}
	printf("{");
	print_field("Rss:", "rss");
	print_field("Anonymous:", "anonymous");
	print_field("Private_Dirty:", "private_dirty");
	printf("\"blocks\": %zu}\n", blocks);
	for (size_t i = 0; i < blocks; i++)
		free(live[i]);
	return 0;
}
