/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program whose resident memory is of a known kind: resident KIND MEGABYTES [FILE]. It makes it,
 * says what it is, "RESIDENT LIVE" (bytes of its own malloc blocks), and waits a little, so that
 * somebody can look.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MEGABYTE    ((size_t)1 << 20)
#define THREADS	    16
#define SMALL_BLOCK 16384 /* few enough for the agent to ask the allocator again */
#define TINY_BLOCK  120	  /* with its header 128 bytes, 32 in a page */
#define SPARSE	    32	  /* of so many blocks one stays */

static size_t live; /* bytes that malloc has handed out */
static pthread_barrier_t barrier;

static void say(void)
{
	unsigned long size = 0, resident = 0;
	const char *ms = getenv("PAUSE_MS");
	FILE *file = fopen("/proc/self/statm", "r");

	if (!file || fscanf(file, "%lu %lu", &size, &resident) != 2)
		exit(1);
	fclose(file);
	printf("%lu %zu\n", resident * (unsigned long)getpagesize(), live);
	fflush(stdout);
	/* The agent only looks when something is allocated. */
	for (int i = 0; i < 14; i++) {
		free(malloc(MEGABYTE));
		usleep(ms ? (useconds_t)atoi(ms) * 100 : 50000);
	}
}

static void *map(size_t bytes, int flags, int fd)
{
	char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);

	if (p == MAP_FAILED)
		exit(1);
	memset(p, 1, bytes);
	return p;
}

static void map_file(const char *path, size_t bytes)
{
	int fd = open(path, O_RDWR | O_CREAT, 0600);

	if (fd < 0 || ftruncate(fd, (off_t)bytes))
		exit(1);
	map(bytes, MAP_SHARED, fd);
}

/* Uses half of its stack of `argument` bytes. */
static void *on_stack(void *argument)
{
	size_t bytes = (size_t)argument / 2;
	volatile char *p = __builtin_alloca(bytes);

	for (size_t i = 0; i < bytes; i += 1024)
		p[i] = 1;
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	return NULL;
}

static void *in_arena(void *argument)
{
	size_t bytes = (size_t)argument, count = bytes / SMALL_BLOCK;
	void **block = malloc(count * sizeof(*block));

	for (size_t i = 0; i < count; i++)
		block[i] = memset(malloc(SMALL_BLOCK), 1, SMALL_BLOCK);
	/* The last one keeps what lies below it. */
	for (size_t i = 0; i + 1 < count; i++)
		free(block[i]);
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	free(block[count - 1]);
	free(block);
	return NULL;
}

static void with_threads(void *(*function)(void *), size_t bytes)
{
	pthread_t thread[THREADS];
	pthread_attr_t attributes;

	pthread_barrier_init(&barrier, NULL, THREADS + 1);
	pthread_attr_init(&attributes);
	if (function == on_stack)
		pthread_attr_setstacksize(&attributes, 2 * bytes / THREADS);
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(
			&thread[i], &attributes, function,
			(void *)(function == on_stack ? 2 * bytes / THREADS : bytes / THREADS)))
			exit(1);
	pthread_barrier_wait(&barrier);
	say();
	pthread_barrier_wait(&barrier);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
}

/* Small blocks, of which one in SPARSE stays: one in each page. */
static void **scatter(size_t bytes)
{
	size_t count = bytes / TINY_BLOCK;
	void **block = malloc(count * sizeof(*block));

	live += count * sizeof(*block);
	for (size_t i = 0; i < count; i++)
		block[i] = memset(malloc(TINY_BLOCK), 1, TINY_BLOCK);
	live += count * TINY_BLOCK;
	for (size_t i = 0; i < count; i++) {
		if (i % SPARSE == SPARSE - 1)
			continue;
		free(block[i]);
		live -= TINY_BLOCK;
	}
	return block;
}

int main(int argc, char **argv)
{
	const char *kind = argc > 2 ? argv[1] : "";
	size_t bytes = argc > 2 ? (size_t)atoi(argv[2]) * MEGABYTE : 0;

	if (!strcmp(kind, "anonymous")) {
		map(bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	} else if (!strcmp(kind, "shared")) {
		map(bytes, MAP_SHARED | MAP_ANONYMOUS, -1);
	} else if (!strcmp(kind, "file") && argc > 3) {
		map_file(argv[3], bytes);
	} else if (!strcmp(kind, "stacks")) {
		with_threads(on_stack, bytes);
		return 0;
	} else if (!strcmp(kind, "arenas")) {
		with_threads(in_arena, bytes);
		return 0;
	} else if (!strcmp(kind, "fragmented")) {
		scatter(bytes);
	} else if (!strcmp(kind, "blocks")) {
		for (size_t i = 0; i < bytes / 65536; i++)
			memset(malloc(65536), 1, 65536);
		live = bytes;
	} else if (!strcmp(kind, "untouched")) {
		if (!malloc(bytes))
			return 1;
		live = bytes;
	} else {
		return 2;
	}
	say();
	return 0;
}
