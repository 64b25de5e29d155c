/* SPDX-License-Identifier: Apache-2.0 */
/*
 * crowd THREADS: for each line on standard input, a letter and a number ("a300"), every one of the
 * threads, which live to the end, allocates so many blocks of 1,000 bytes in site_a, or site_b; then
 * the program answers "done". So tests may change something in between.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define SITE __attribute__((noinline))
#define MAKE(name)                                                                                 \
	SITE static void *name(void)                                                               \
	{                                                                                          \
		void *block = malloc(1000);                                                        \
                                                                                                   \
		__asm__ volatile("" : : "r"(block) : "memory");                                    \
		return block;                                                                      \
	}
MAKE(site_a)
MAKE(site_b)

static pthread_barrier_t begin, end;
static char site;
static int blocks; /* -1: the threads end */

static void *work(void *unused)
{
	for (;;) {
		pthread_barrier_wait(&begin);
		if (blocks < 0)
			return unused;
		for (int i = 0; i < blocks; i++)
			free(site == 'a' ? site_a() : site_b());
		pthread_barrier_wait(&end);
	}
}

int main(int argc, char **argv)
{
	unsigned int threads = argc == 2 ? (unsigned int)atoi(argv[1]) : 0;
	pthread_t thread[1000];
	pthread_attr_t small;

	if (threads < 1 || threads > 1000)
		return 2;
	pthread_barrier_init(&begin, NULL, threads + 1);
	pthread_barrier_init(&end, NULL, threads + 1);
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 1 << 16);
	for (unsigned int i = 0; i < threads; i++)
		if (pthread_create(&thread[i], &small, work, NULL))
			return 3;
	puts("ready");
	fflush(stdout);
	while (scanf(" %c%d", &site, &blocks) == 2 && blocks >= 0) {
		pthread_barrier_wait(&begin);
		pthread_barrier_wait(&end);
		puts("done");
		fflush(stdout);
	}
	blocks = -1;
	pthread_barrier_wait(&begin);
	for (unsigned int i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
	return 0;
}
