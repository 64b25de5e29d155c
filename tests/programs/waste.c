/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that is wasted in known ways, each held by a variable. Prints how much, as a line of JSON, when all
 * of it is there; ends when its standard input does. With an argument, that many small blocks in all, half of
 * them copies.
 */
#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ZEROS	 500
#define VECTORS	 40
#define NAMES	 3000
#define PHRASES	 30
#define RECORDS	 400
#define ROOM	 4096
#define ELEMENTS (1 << 20)
#define USED	 10

struct sum {
	size_t bytes, blocks;
};

static uint64_t state = 88172645463325252u;

static uint64_t next(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state | 1; /* a word that is not zero */
}

static void add(struct sum *s, size_t bytes)
{
	s->bytes += bytes;
	s->blocks++;
}

/* A block without a zero word that is like no other. */
static uint64_t *filled(size_t bytes)
{
	uint64_t *block = malloc(bytes);

	for (size_t i = 0; i < malloc_usable_size(block) / 8; i++)
		block[i] = next();
	return block;
}

/* ---- zero from begin to end ---- */

static void **g_zeros;
static struct sum zeros;

static void hold_zeros(void)
{
	g_zeros = (void **)filled(ZEROS * sizeof(*g_zeros));
	for (int i = 0; i < ZEROS; i++) {
		g_zeros[i] = calloc(1, i % 50 ? 1000 + i : 300000);
		memset(g_zeros[i], 0, malloc_usable_size(g_zeros[i]));
		add(&zeros, malloc_usable_size(g_zeros[i]));
	}
}

/* ---- capacity that was never used ---- */

static uint64_t **g_vectors, *g_large;
static struct sum ends, large;

static void hold_vectors(void)
{
	g_vectors = (uint64_t **)filled(VECTORS * sizeof(*g_vectors));
	for (int i = 0; i < VECTORS; i++) {
		size_t used = 1 + (size_t)i * 3, words;

		g_vectors[i] = filled(2048);
		words = malloc_usable_size(g_vectors[i]) / 8;
		memset(g_vectors[i] + used, 0, (words - used) * 8);
		add(&ends, (words - used) * 8);
	}
	g_large = malloc(ELEMENTS * sizeof(*g_large));
	for (int i = 0; i < USED; i++)
		g_large[i] = next();
	add(&large, malloc_usable_size(g_large) - USED * 8);
}

/* ---- equal contents ---- */

static char **g_names;
static uint64_t **g_records, **g_other;
static struct sum names, records;

/* One with the same text before it has the same room, and malloc has added less than two words to it. */
static bool is_copy(int i)
{
	size_t bytes = malloc_usable_size(g_names[i]);

	if (bytes - strlen(g_names[i]) > 16)
		return false;
	for (int k = i - PHRASES; k >= 0; k -= PHRASES)
		if (malloc_usable_size(g_names[k]) == bytes)
			return true;
	return false;
}

static void hold_names(void)
{
	static const char *const word[] = {"", "a ", "somewhat ", "very much "};

	g_names = (char **)filled(NAMES * sizeof(*g_names));
	for (int i = 0; i < NAMES; i++) {
		char text[100];
		int length = snprintf(text, sizeof(text), "%slonger text, number %d, in \xc3\xbc",
				      word[i % PHRASES % 4], i % PHRASES);

		g_names[i] = malloc((size_t)length + 1);
		/* What malloc adds to a block can be anything. */
		memset(g_names[i], 'a' + i % 7, malloc_usable_size(g_names[i]));
		memcpy(g_names[i], text, (size_t)length + 1);
		if (is_copy(i))
			add(&names, malloc_usable_size(g_names[i]));
	}
}

/* Copies of 10 records. The last word tells others from them. */
static void hold_records(void)
{
	g_records = (uint64_t **)filled(RECORDS * sizeof(*g_records));
	g_other = (uint64_t **)filled(RECORDS * sizeof(*g_other));
	for (int i = 0; i < RECORDS; i++) {
		size_t bytes;

		g_records[i] = filled(ROOM);
		g_other[i] = filled(ROOM);
		bytes = malloc_usable_size(g_records[i]);
		if (i >= 10) {
			memcpy(g_records[i], g_records[i % 10], bytes);
			add(&records, bytes);
		}
		memcpy(g_other[i], g_records[i], bytes - 8);
	}
}

static uint64_t **g_many;
static struct sum many;

static void hold_many(size_t count)
{
	uint64_t contents = next();

	g_many = (uint64_t **)filled(count * sizeof(*g_many));
	for (size_t i = 0; i < count; i++) {
		g_many[i] = filled(24 + i % 5 * 32);
		if (i % 2 == 0)
			continue;
		/* 1000 contents of each size. */
		for (size_t k = 0; k < malloc_usable_size(g_many[i]) / 8; k++)
			g_many[i][k] = contents + i % 10000;
		if (i >= 10000)
			add(&many, malloc_usable_size(g_many[i]));
	}
}

static void print_sum(const char *name, const struct sum *s)
{
	printf("\"%s\": [%zu, %zu], ", name, s->bytes, s->blocks);
}

int main(int argc, char **argv)
{
	static char output[4096];
	char rest;

	/* stdio's buffer is no block then. */
	setvbuf(stdout, output, _IOFBF, sizeof(output));
	hold_names();
	hold_zeros();
	hold_vectors();
	hold_records();
	if (argc > 1)
		hold_many(strtoul(argv[1], NULL, 10));
	printf("{");
	print_sum("zeros", &zeros);
	print_sum("ends", &ends);
	print_sum("large", &large);
	print_sum("names", &names);
	print_sum("records", &records);
	print_sum("many", &many);
	printf("\"said\": true}\n");
	fflush(stdout);
	while (read(0, &rest, 1) > 0)
		;
	return 0;
}
