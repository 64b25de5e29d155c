/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frees a million blocks at once, none beside another and in no order, so that the allocator has a
 * million free places: released MILLISECONDS [keep]. Then it goes on calling malloc for so long and
 * says the most CPU time that one call of malloc or free took, in microseconds. "keep": frees none.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define BLOCKS	    1000000u
#define BLOCK_BYTES 136	       /* too large for the lists that glibc empties all at once */
#define LARGE_BYTES (1u << 20) /* sampled, whatever the interval */
#define STEP_US	    5000

static int64_t longest; /* of all calls */

static int64_t cpu_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static void shuffle(void **block)
{
	for (uint32_t i = BLOCKS - 1; i > 0; i--) {
		uint32_t k = (uint32_t)random() % (i + 1);
		void *other = block[k];

		block[k] = block[i];
		block[i] = other;
	}
}

static void took(int64_t began)
{
	int64_t us = cpu_us() - began;

	longest = us > longest ? us : longest;
}

static void release(void *block)
{
	int64_t began = cpu_us();

	free(block);
	took(began);
}

static void go_on(int64_t milliseconds)
{
	for (int64_t i = 0; i < milliseconds * 1000 / STEP_US; i++) {
		int64_t began = cpu_us();
		void *volatile large = malloc(LARGE_BYTES);

		took(began);
		release(large);
		usleep(STEP_US);
	}
}

int main(int argc, char **argv)
{
	void **block = malloc(BLOCKS * sizeof(*block));
	static void *between[BLOCKS];

	if (argc < 2 || !block)
		return 2;
	for (uint32_t i = 0; i < BLOCKS; i++) {
		block[i] = malloc(BLOCK_BYTES);
		between[i] = malloc(BLOCK_BYTES);
	}
	shuffle(block);
	for (uint32_t i = 0; argc < 3 && i < BLOCKS; i++)
		release(block[i]);
	go_on(atoi(argv[1]));
	printf("%lld\n", (long long)longest);
	fflush(stdout);
	return between[0] == NULL;
}
