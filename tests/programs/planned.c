/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocates the same blocks in the same order in each run: planned. What test_plan.py samples.
 *
 * Two threads, one after the other. Ten functions allocate, each blocks of other sizes. Survival
 * depends on the function and changes slowly, so that it matters where a sampled byte lies. Live
 * bytes grow to the end of the second thread, where the peak is; then all is freed.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEPS	 12000u
#define WAITING	 64u /* blocks that die wait here for a while */
#define SURVIVAL 8u

static void *kept[2 * STEPS];
static size_t kept_count;

#define SITE(name)                                                                                 \
	__attribute__((noinline)) static void *name(size_t size)                                   \
	{                                                                                          \
		void *block = malloc(size);                                                        \
                                                                                                   \
		if (!block)                                                                        \
			exit(1);                                                                   \
		memset(block, 1, 1);                                                               \
		return block;                                                                      \
	}

SITE(site_0)
SITE(site_1)
SITE(site_2)
SITE(site_3)
SITE(site_4)
SITE(site_5)
SITE(site_6)
SITE(site_7)
SITE(site_8)
SITE(site_9)

static void *(*const sites[10])(size_t size) = {site_0, site_1, site_2, site_3, site_4,
						site_5, site_6, site_7, site_8, site_9};

static uint32_t next_random(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*state >> 33);
}

static void *work(void *seed)
{
	uint64_t state = (uintptr_t)seed;
	void *waiting[WAITING] = {NULL};

	for (uint32_t i = 0; i < STEPS; i++) {
		uint32_t site = next_random(&state) % 10;
		size_t size = (size_t)(24 + next_random(&state) % 24) << site;
		void *block = sites[site](size);
		uint32_t phase = (i >> 10) % 4;

		if (next_random(&state) % SURVIVAL < (site + phase) % 4 ||
		    (phase == 3 && site < 5)) {
			kept[kept_count++] = block;
		} else {
			void **slot = &waiting[next_random(&state) % WAITING];

			free(*slot);
			*slot = block;
		}
	}
	for (uint32_t i = 0; i < WAITING; i++)
		free(waiting[i]);
	return NULL;
}

int main(void)
{
	for (uintptr_t seed = 1; seed <= 2; seed++) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, work, (void *)seed) != 0)
			return 1;
		pthread_join(thread, NULL);
	}
	for (size_t i = 0; i < kept_count; i++)
		free(kept[i]);
	puts("done");
	return 0;
}
