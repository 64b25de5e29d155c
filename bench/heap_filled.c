/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_heap_filled BLOCKS BYTES: so many blocks with so many bytes in all, in two tables of lists, a third of
 * them with contents that come again. Says a line when they are there, and ends when its standard input does.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../tests/random_numbers.h"

#define SLOTS	 (1u << 18)
#define CONTENTS 1000

struct node {
	struct node *next;
	uint64_t *data;
};

struct node **g_sessions, **g_cache;

int main(int argc, char **argv)
{
	size_t blocks = argc > 2 ? strtoul(argv[1], NULL, 10) : 0;
	size_t bytes = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
	/* Half of the blocks are nodes of 24 bytes. */
	size_t mean = blocks ? 2 * bytes / blocks : 0, most = mean > 48 ? 2 * (mean - 24) : 48;
	char rest;

	g_sessions = calloc(SLOTS, sizeof(*g_sessions));
	g_cache = calloc(SLOTS, sizeof(*g_cache));
	for (size_t i = 0; i < blocks / 2; i++) {
		struct node **list = i % 4 ? &g_sessions[i % SLOTS] : &g_cache[i % SLOTS];
		size_t content = i % CONTENTS,
		       size = 16 + (i % 3 ? random_number() : content * 7) % most;
		struct node *n = malloc(sizeof(*n));

		n->data = malloc(size);
		for (size_t word = 0; word < size / 8; word++)
			n->data[word] = i % 3 ? random_number() : content + word;
		n->next = *list;
		*list = n;
	}
	puts("ready");
	fflush(stdout);
	while (read(0, &rest, 1) > 0)
		;
	return 0;
}
