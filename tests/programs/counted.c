/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that knows what it has allocated: counted THREADS ROUNDS CHILDREN. Each thread takes and
 * gives back blocks, ROUNDS times, and keeps some; a process with one thread forks CHILDREN times
 * meanwhile, and each child does ROUNDS of its own. All blocks are taken by the function take() or
 * retake(). At its end each process prints, in one line,
 *
 *	its number, allocations, their bytes, blocks that are left, their bytes
 *
 * In a child, the blocks that are left include those from before the fork; the other numbers do not.
 *
 * The file named by COUNTED, of 16 bytes, has at each moment how many allocations were begun and how
 * many are done, for who kills the program.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define SLOTS 512

struct worker {
	pthread_t thread;
	unsigned int seed;
	long rounds, children;
	unsigned long allocs, bytes, left, left_bytes;
	void *block[SLOTS];
	size_t size[SLOTS];
};

static unsigned long nowhere[2], *counted = nowhere;

static void count(int which)
{
	if (counted != nowhere)
		__atomic_fetch_add(&counted[which], 1, __ATOMIC_SEQ_CST);
}

static __attribute__((noinline)) void *take(struct worker *w, size_t size)
{
	void *block;

	count(0);
	block = malloc(size);
	count(1);
	w->allocs++;
	w->bytes += size;
	memset(block, 1, size);
	return block;
}

static __attribute__((noinline)) void *retake(struct worker *w, void *block, size_t size)
{
	count(0);
	block = realloc(block, size);
	count(1);
	w->allocs++;
	w->bytes += size;
	return block;
}

static void tell(const struct worker *list, int threads)
{
	struct worker all = {0};
	char text[160];
	int length;

	for (int i = 0; i < threads; i++) {
		all.allocs += list[i].allocs;
		all.bytes += list[i].bytes;
		for (int k = 0; k < SLOTS; k++) {
			all.left += list[i].block[k] != NULL;
			all.left_bytes += list[i].block[k] ? list[i].size[k] : 0;
		}
	}
	length = snprintf(text, sizeof(text), "%d %lu %lu %lu %lu\n", (int)getpid(), all.allocs,
			  all.bytes, all.left, all.left_bytes);
	if (write(1, text, (size_t)length) != length)
		_exit(1);
}

static void fork_one(struct worker *w);

static __attribute__((noinline)) void work(struct worker *w)
{
	for (long i = 0; i < w->rounds; i++) {
		unsigned int k = (unsigned int)rand_r(&w->seed) % SLOTS;
		size_t size = 1 + (size_t)rand_r(&w->seed) % 2000;

		/* The recorder comes after it. */
		if (i % 100 == 99)
			usleep(1000);
		/* Most blocks are given back at once. */
		for (int n = rand_r(&w->seed) % 8; n; n--)
			free(take(w, size + (size_t)n));
		if (w->block[k] && size % 3 == 0) {
			w->block[k] = retake(w, w->block[k], size);
		} else {
			free(w->block[k]);
			w->block[k] = take(w, size);
		}
		w->size[k] = size;
		if (size % 5 == 0) {
			free(w->block[k]);
			w->block[k] = NULL;
		}
		if (w->children && i % (w->rounds / w->children) == w->rounds / w->children / 2)
			fork_one(w);
	}
}

static void fork_one(struct worker *w)
{
	pid_t child = fork();

	if (child)
		return;
	w->allocs = w->bytes = 0;
	w->children = 0;
	w->seed++;
	work(w);
	tell(w, 1);
	_exit(0);
}

static void *run(void *worker)
{
	work(worker);
	return NULL;
}

static int share_counts(void)
{
	const char *name = getenv("COUNTED");
	int fd = name ? open(name, O_RDWR) : -1;
	void *shared;

	if (fd < 0)
		return !name;
	shared = mmap(NULL, sizeof(nowhere), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	counted = shared;
	return shared != MAP_FAILED;
}

int main(int argc, char **argv)
{
	int threads = argc == 4 ? atoi(argv[1]) : 0;
	struct worker *list = calloc((size_t)threads, sizeof(*list));

	if (threads < 1 || !list || !share_counts())
		return 1;
	for (int i = 0; i < threads; i++) {
		list[i].seed = (unsigned int)i + 1;
		list[i].rounds = atol(argv[2]);
		list[i].children = threads == 1 ? atol(argv[3]) : 0;
	}
	for (int i = 1; i < threads; i++)
		if (pthread_create(&list[i].thread, NULL, run, &list[i]))
			return 1;
	work(&list[0]);
	for (int i = 1; i < threads; i++)
		pthread_join(list[i].thread, NULL);
	while (wait(NULL) > 0)
		;
	tell(list, threads);
	return 0;
}
