/* SPDX-License-Identifier: Apache-2.0 */
/*
 * remapping [ROUNDS]: four threads, each of which makes many mappings of one and one of many, and moves
 * blocks, also while somebody reads /proc/PID/smaps:
 *
 *	one	|-----------------------|
 *	many	|--|  |--|  |--|  |--|		each other slot is forbidden for a moment
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define THREADS	   4
#define SLOTS	   64
#define SLOT_BYTES ((size_t)8192)
#define ALL_BYTES  (SLOTS * SLOT_BYTES)

static unsigned long rounds = 24;

static char *map_memory(void)
{
	char *memory =
	    mmap(NULL, ALL_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		exit(1);
	memset(memory, 1, ALL_BYTES);
	return memory;
}

/* A block of a growing size that moves. */
static void move_block(void)
{
	size_t size = SLOT_BYTES;
	char *block = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (int i = 0; i < 4 && block != MAP_FAILED; i++, size *= 2) {
		block[size - 1] = 1;
		block = mremap(block, size, 2 * size, MREMAP_MAYMOVE);
	}
	if (block != MAP_FAILED)
		munmap(block, size);
}

static void *work(void *unused)
{
	char *memory = map_memory();

	for (unsigned long round = 0; round < rounds; round++) {
		char *kept = malloc(100000 + round);

		for (size_t slot = 1; slot < SLOTS; slot += 2)
			mprotect(memory + slot * SLOT_BYTES, SLOT_BYTES, PROT_NONE);
		move_block();
		mprotect(memory, ALL_BYTES, PROT_READ | PROT_WRITE);
		free(kept);
	}
	munmap(memory, ALL_BYTES);
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t thread[THREADS];

	if (argc > 1)
		rounds = strtoul(argv[1], NULL, 10);
	for (size_t i = 0; i < THREADS; i++)
		if (pthread_create(&thread[i], NULL, work, NULL))
			return 1;
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	return 0;
}
