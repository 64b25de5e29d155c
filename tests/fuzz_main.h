/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A main() for fuzz targets that are built without libFuzzer (-DFUZZ_MAIN):
 *
 *	fuzz_x FILE...			runs the target once on each file
 *	fuzz_x -n ROUNDS FILE...	and on that many random changes of each
 */
#ifndef MAYFLY_FUZZ_MAIN_H
#define MAYFLY_FUZZ_MAIN_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#ifdef FUZZ_MAIN
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t fuzz_state = 1;

static uint64_t fuzz_random(void)
{
	fuzz_state = fuzz_state * 6364136223846793005u + 1442695040888963407u;
	return fuzz_state >> 24;
}

/* Changes some bytes, copies a piece over another one, or cuts the end off. */
static size_t fuzz_change(uint8_t *data, size_t size)
{
	size_t from, to, length;

	switch (fuzz_random() % 4) {
	case 0:
		return (size_t)(fuzz_random() % size);
	case 1:
		from = (size_t)(fuzz_random() % size);
		to = (size_t)(fuzz_random() % size);
		length = (size_t)(fuzz_random() % 64);
		if (length < size - from && length < size - to)
			memmove(data + to, data + from, length);
		return size;
	default:
		for (uint64_t changes = 1 + fuzz_random() % 8; changes; changes--)
			data[fuzz_random() % size] = (uint8_t)fuzz_random();
		return size;
	}
}

static int fuzz_file(const char *path, unsigned long rounds)
{
	FILE *f = fopen(path, "rb");
	uint8_t *data = malloc(1 << 24), *copy = malloc(1 << 24);
	size_t size;

	if (!f || !data || !copy) {
		perror(path);
		return 1;
	}
	size = fread(data, 1, 1 << 24, f);
	fclose(f);
	LLVMFuzzerTestOneInput(data, size);
	for (unsigned long i = 0; size && i < rounds; i++) {
		memcpy(copy, data, size);
		LLVMFuzzerTestOneInput(copy, fuzz_change(copy, size));
	}
	free(data);
	free(copy);
	return 0;
}

int main(int argc, char **argv)
{
	unsigned long rounds = 0;
	int failed = 0, i = 1;

	if (argc > 2 && strcmp(argv[1], "-n") == 0) {
		rounds = strtoul(argv[2], NULL, 10);
		i = 3;
	}
	for (; i < argc; i++)
		failed |= fuzz_file(argv[i], rounds);
	return failed;
}
#endif
#endif
