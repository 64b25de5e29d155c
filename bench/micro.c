/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nanoseconds of one malloc and free, by thread CPU time.
 *
 *	bench_micro tight|hostile THREADS MILLISECONDS
 *
 * tight	malloc(32) and free of the same block, over and over: the allocator's fastest path,
 *		everything in the first-level cache; what a hook adds is seen best here.
 * hostile	2^20 live blocks of 16 to 143 bytes (shared out among the threads); each step frees
 *		one chosen at random and allocates another: every free misses the cache.
 *
 * The work is cut into batches, each timed by itself. Prints one JSON object with the median and
 * the smallest of all batches of all threads. The median of many short batches hardly moves when
 * something else takes the CPU for a while.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define LIVE_BLOCKS   (1u << 20)
#define MAX_THREADS   64u
#define MAX_BATCHES   4096u
#define TIGHT_BATCH   100000u
#define HOSTILE_BATCH 20000u

struct worker {
	pthread_t thread;
	unsigned int number;
	uint32_t slots; /* hostile: live blocks of this thread, a power of two */
	void **live;
	uint64_t random;
	uint32_t batches;
	double ns[MAX_BATCHES];
};

static bool hostile;
static unsigned int thread_count;
static uint64_t time_limit_ns;
static pthread_barrier_t start_line;

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t next_random(struct worker *w)
{
	w->random = w->random * 6364136223846793005u + 1442695040888963407u;
	return w->random >> 24;
}

/* Keeps the compiler from knowing what became of the block, so that no pair is optimised away. */
static inline void *opaque(void *block)
{
	__asm__ volatile("" : "+r"(block) : : "memory");
	return block;
}

static void *map(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (p == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	return p;
}

static void *new_block(struct worker *w, uint64_t random)
{
	char *block = malloc(16 + (random & 127));

	if (!block) {
		fputs("bench_micro: out of memory\n", stderr);
		exit(1);
	}
	block[0] = (char)w->number; /* a program that allocates writes */
	return block;
}

static void tight_batch(void)
{
	for (uint32_t i = 0; i < TIGHT_BATCH; i++)
		free(opaque(malloc(32)));
}

static void hostile_batch(struct worker *w)
{
	for (uint32_t i = 0; i < HOSTILE_BATCH; i++) {
		uint64_t random = next_random(w);
		void **slot = &w->live[(random >> 8) & (w->slots - 1)];

		free(*slot);
		*slot = new_block(w, random);
	}
}

/* Keep each thread on a CPU of its own when there are enough. */
static void pin_thread(unsigned int number)
{
	cpu_set_t allowed, one;

	if (sched_getaffinity(0, sizeof(allowed), &allowed) ||
	    (unsigned int)CPU_COUNT(&allowed) < thread_count)
		return;
	for (unsigned int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &allowed) || number--)
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		pthread_setaffinity_np(pthread_self(), sizeof(one), &one);
		return;
	}
}

static void *work(void *argument)
{
	struct worker *w = argument;
	uint32_t pairs = hostile ? HOSTILE_BATCH : TIGHT_BATCH;
	uint64_t deadline;

	pin_thread(w->number);
	for (uint32_t i = 0; hostile && i < w->slots; i++)
		w->live[i] = new_block(w, next_random(w));
	if (hostile) /* the first replacements run on a heap in order; mix it first */
		for (uint32_t i = 0; i < w->slots / HOSTILE_BATCH + 1; i++)
			hostile_batch(w);
	pthread_barrier_wait(&start_line);
	deadline = clock_ns(CLOCK_MONOTONIC) + time_limit_ns;
	do {
		uint64_t before = clock_ns(CLOCK_THREAD_CPUTIME_ID);

		if (hostile)
			hostile_batch(w);
		else
			tight_batch();
		w->ns[w->batches++] = (double)(clock_ns(CLOCK_THREAD_CPUTIME_ID) - before) / pairs;
	} while (w->batches < MAX_BATCHES && clock_ns(CLOCK_MONOTONIC) < deadline);
	return NULL;
}

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void print_result(const struct worker *workers)
{
	double *all = map(sizeof(double) * MAX_BATCHES * thread_count);
	uint32_t n = 0;

	for (unsigned int i = 0; i < thread_count; i++) {
		memcpy(all + n, workers[i].ns, workers[i].batches * sizeof(double));
		n += workers[i].batches;
	}
	qsort(all, n, sizeof(double), compare_doubles);
	printf("{\"mode\": \"%s\", \"threads\": %u, \"batches\": %u, \"median_ns\": %.3f, "
	       "\"min_ns\": %.3f}\n",
	       hostile ? "hostile" : "tight", thread_count, n, all[n / 2], all[0]);
}

int main(int argc, char **argv)
{
	struct worker *workers;

	if (argc != 4 || (strcmp(argv[1], "tight") && strcmp(argv[1], "hostile"))) {
		fputs("usage: bench_micro tight|hostile THREADS MILLISECONDS\n", stderr);
		return 2;
	}
	hostile = !strcmp(argv[1], "hostile");
	thread_count = (unsigned int)strtoul(argv[2], NULL, 10);
	time_limit_ns = strtoul(argv[3], NULL, 10) * 1000000;
	if (thread_count < 1 || thread_count > MAX_THREADS || thread_count & (thread_count - 1)) {
		fputs("bench_micro: THREADS is a power of two up to 64\n", stderr);
		return 2;
	}
	workers = map(sizeof(*workers) * thread_count);
	pthread_barrier_init(&start_line, NULL, thread_count);
	for (unsigned int i = 0; i < thread_count; i++) {
		workers[i].number = i;
		workers[i].random = i + 1;
		workers[i].slots = LIVE_BLOCKS / thread_count;
		workers[i].live = map(sizeof(void *) * workers[i].slots);
		if (thread_count > 1)
			pthread_create(&workers[i].thread, NULL, work, &workers[i]);
	}
	if (thread_count == 1)
		work(&workers[0]); /* a program without threads: glibc skips its locks */
	for (unsigned int i = 0; thread_count > 1 && i < thread_count; i++)
		pthread_join(workers[i].thread, NULL);
	print_result(workers);
	return 0;
}
