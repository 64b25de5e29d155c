/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_maps BATCHES [PAUSE]: nanoseconds of thread CPU time for an mmap with its munmap, of 64 KiB
 * and of 2 MiB that nobody touches, as JSON. In batches, of which the median and the fastest count;
 * with PAUSE milliseconds between them, so that who reads can keep up. Always at the same place,
 * with nothing beside it that the kernel could join it with: what it takes depends on both.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#define BATCH	     500
#define MOST_BATCHES 1000
#define SIZES	     2
#define HOLE	     (4 << 20)

static _Noreturn void fail(void)
{
	fprintf(stderr, "bench_maps: cannot map\n");
	exit(1);
}

static const size_t sizes[SIZES] = {64 << 10, 2 << 20};
static const char *const names[SIZES] = {"64K", "2M"};
static double figures[SIZES][MOST_BATCHES];

/* The aligned middle of memory that is ours and not accessible. */
static void *make_hole(void)
{
	char *around = mmap(NULL, 3 * HOLE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *hole = (char *)(((uintptr_t)around + HOLE - 1) / HOLE * HOLE);

	if (around == MAP_FAILED)
		fail();
	hole += hole == around ? HOLE : 0;
	if (munmap(hole, HOLE))
		fail();
	return hole;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double batch(void *hole, size_t size)
{
	double begin = now();

	for (int i = 0; i < BATCH; i++) {
		void *p =
		    mmap(hole, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (p != hole || munmap(p, size))
			fail();
	}
	return (now() - begin) / BATCH;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	int batches = argc > 1 ? atoi(argv[1]) : 0, pause_ms = argc > 2 ? atoi(argv[2]) : 0;
	struct timespec pause_time = {.tv_nsec = pause_ms * 1000000l};
	void *hole;

	if (batches < 1 || batches > MOST_BATCHES || pause_ms < 0 || pause_ms > 999) {
		fprintf(stderr, "usage: bench_maps BATCHES [PAUSE]\n");
		return 2;
	}
	hole = make_hole();
	for (int i = 0; i < batches; i++) {
		for (int which = 0; which < SIZES; which++) {
			figures[which][i] = batch(hole, sizes[which]);
			if (pause_ms)
				nanosleep(&pause_time, NULL);
		}
	}
	for (int which = 0; which < SIZES; which++) {
		qsort(figures[which], (size_t)batches, sizeof(double), by_size);
		printf("%s\"%s\": {\"median_ns\": %.1f, \"min_ns\": %.1f}", which ? ", " : "{",
		       names[which], figures[which][batches / 2], figures[which][0]);
	}
	printf("}\n");
	return 0;
}
