/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocates now fast, now a hundred times slower: phases SEED ROUNDS. Prints one JSON object: what
 * each of the two functions that allocate has allocated, in bytes and blocks.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define SLOTS	   256u
#define FAST_COUNT 400000u
#define SLOW_COUNT 8000u
#define SLOW_WORK  4000u /* steps between two allocations */

static void *slot[SLOTS];
static uint64_t state;
static volatile uint64_t result;

static uint64_t next_random(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state * 0x2545f4914f6cdd1du >> 16;
}

#define DEFINE_SITE(name)                                                                          \
	__attribute__((noinline)) static void *name(size_t size)                                   \
	{                                                                                          \
		void *p = malloc(size);                                                            \
		__asm__ volatile("" : "+r"(p) : : "memory");                                       \
		return p;                                                                          \
	}
DEFINE_SITE(fast_site)
DEFINE_SITE(slow_site)

static uint64_t phase(void *(*site)(size_t), unsigned count, unsigned work)
{
	uint64_t bytes = 0;

	for (unsigned i = 0; i < count; i++) {
		uint64_t random = next_random();
		void **at = &slot[random % SLOTS];
		size_t size = 1 + (random >> 16) % 400;

		free(*at);
		*at = site(size);
		bytes += size;
		for (unsigned j = 0; j < work; j++)
			result += j;
	}
	return bytes;
}

int main(int argc, char **argv)
{
	unsigned rounds = argc > 2 ? (unsigned)atoi(argv[2]) : 1;
	uint64_t fast = 0, slow = 0;

	state = argc > 1 ? strtoull(argv[1], NULL, 10) + 0x9e3779b97f4a7c15u : 1;
	for (unsigned i = 0; i < rounds; i++) {
		fast += phase(fast_site, FAST_COUNT, 0);
		slow += phase(slow_site, SLOW_COUNT, SLOW_WORK);
	}
	printf("{\"fast_site\": {\"allocated\": [%llu, %u]}, "
	       "\"slow_site\": {\"allocated\": [%llu, %u]}}\n",
	       (unsigned long long)fast, rounds * FAST_COUNT, (unsigned long long)slow,
	       rounds * SLOW_COUNT);
	return 0;
}
