/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linked statically with JEMALLOC or TCMALLOC, or with a jemalloc whose functions are renamed to begin with
 * je_ (PREFIXED): static_malloc THREADS COUNT allocates in each of their ways and says what the allocator has
 * counted meanwhile: "BLOCKS BYTES LEFT_BYTES". All sizes are size classes of theirs, so what they count
 * is what they were asked for. tcmalloc counts neither blocks nor bytes: those are the program's own.
 */
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef PREFIXED
#define THEIR(name) je_##name
#else
#define THEIR(name) name
#endif
#define KINDS 12

void *THEIR(malloc)(size_t);
void *THEIR(calloc)(size_t, size_t);
void *THEIR(realloc)(void *, size_t);
void *THEIR(memalign)(size_t, size_t);
void *THEIR(aligned_alloc)(size_t, size_t);
int THEIR(posix_memalign)(void **, size_t, size_t);
void THEIR(free)(void *);

static atomic_ulong blocks, bytes, left_bytes;
static atomic_bool begun;
static unsigned long count;

#ifdef TCMALLOC
void *tc_malloc(size_t);
void tc_free(void *);
int MallocExtension_GetNumericProperty(const char *, size_t *);
void *_Znwm(size_t);
void _ZdlPv(void *);

static void *one_more(int way, size_t size)
{
	return way % 2 ? tc_malloc(size) : _Znwm(size);
}

static void end_more(int way, void *block, size_t size)
{
	(void)size;
	if (way % 2)
		tc_free(block);
	else
		_ZdlPv(block);
}

static void read_figures(int sign)
{
	size_t now = 0;

	MallocExtension_GetNumericProperty("generic.current_allocated_bytes", &now);
	left_bytes += (unsigned long)sign * now;
}

static void read_thread(int sign)
{
	(void)sign;
}
#else
void *THEIR(mallocx)(size_t, int);
void *THEIR(rallocx)(void *, size_t, int);
void THEIR(dallocx)(void *, int);
void THEIR(sdallocx)(void *, size_t, int);
int THEIR(mallctl)(const char *, void *, size_t *, void *, size_t);

static void *one_more(int way, size_t size)
{
	return way % 2 ? THEIR(mallocx)(size, 0) : THEIR(rallocx)(THEIR(mallocx)(16, 0), size, 0);
}

static void end_more(int way, void *block, size_t size)
{
	if (way % 2)
		THEIR(dallocx)(block, 0);
	else
		THEIR(sdallocx)(block, size, 0);
}

static unsigned long figure(const char *name)
{
	unsigned long value = 0;
	size_t size = sizeof(value);

	if (THEIR(mallctl)(name, &value, &size, NULL, 0))
		exit(9);
	return value;
}

static void read_figures(int sign)
{
	(void)sign;
}

/* What tells of one thread is never behind. */
static void read_thread(int sign)
{
	bytes += (unsigned long)sign * figure("thread.allocated");
	left_bytes +=
	    (unsigned long)sign * (figure("thread.allocated") - figure("thread.deallocated"));
}
#endif

static void *one(int way, size_t size)
{
	void *block = NULL;

	blocks++;
#ifdef TCMALLOC
	bytes += size;
#endif
	switch (way) {
	case 0:
		return THEIR(malloc)(size);
	case 1:
		return THEIR(calloc)(2, size / 2);
	case 2:
		blocks++;
#ifdef TCMALLOC
		bytes += 4 * size;
#endif
		return THEIR(realloc)(THEIR(malloc)(4 * size), size);
	case 3:
		return THEIR(memalign)(16, size);
	case 4:
		return THEIR(aligned_alloc)(16, size);
	case 5:
		return THEIR(posix_memalign)(&block, 16, size) ? NULL : block;
	case 6:
		return THEIR(realloc)(NULL, size);
	default:
#ifndef TCMALLOC
		blocks += way % 2 == 0;
#endif
		return one_more(way, size);
	}
}

static void *work(void *unused)
{
	while (!atomic_load(&begun))
		sched_yield(); /* a thread's own memory is there by now */
	read_thread(-1);
	for (unsigned long i = 0; i < count; i++) {
		size_t size = 16ul << i % 10;
		int way = (int)(i % KINDS);
		void *block = one(way, size);

		if (block)
			memset(block, 1, size);
		if (block && i % 5 && way < 7)
			THEIR(free)(block);
		else if (block && i % 5)
			end_more(way, block, size);
	}
	read_thread(1);
	return unused;
}

int main(int argc, char **argv)
{
	int threads = argc > 2 ? atoi(argv[1]) : 1;
	pthread_t thread[16];
	int status = 0;
	pid_t child;

	count = argc > 2 ? strtoul(argv[2], NULL, 10) : 1000;
	for (int i = 1; i < threads; i++)
		pthread_create(&thread[i], NULL, work, NULL);
	read_figures(-1);
	atomic_store(&begun, 1);
	work(NULL);
	for (int i = 1; i < threads; i++)
		pthread_join(thread[i], NULL);
	read_figures(1);
	child = fork();
	if (child == 0) {
		work(NULL);
		_exit(3);
	}
	waitpid(child, &status, 0);
	printf("%lu %lu %lu\n", blocks, bytes, left_bytes);
	return WEXITSTATUS(status);
}
