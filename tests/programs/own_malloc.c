/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An executable with a malloc of its own, which its libraries call: own_malloc HOW LIBRARY COUNT. It counts
 * what it is asked for while a library works, and says so at the end: "BLOCKS BYTES LEFT_BLOCKS LEFT_BYTES".
 * With WRAPS, its malloc is that of libc, found by dlsym with RTLD_NEXT; with WRAPS_VERSIONED, by dlvsym.
 */
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define ARENA_BYTES ((size_t)1 << 32)

static atomic_bool counting;
static atomic_ulong blocks, bytes, left_blocks, left_bytes;

/* ---- memory ---- */

#if defined(WRAPS) || defined(WRAPS_VERSIONED)
#ifdef WRAPS
#define LOOK_UP(name) dlsym(RTLD_NEXT, name)
#else
#define LOOK_UP(name) dlvsym(RTLD_NEXT, name, "GLIBC_2.2.5")
#endif

static void *memory(size_t alignment, size_t size)
{
	static void *(*next)(size_t, size_t);
	void *found;

	if (!next) {
		found = LOOK_UP("memalign");
		memcpy(&next, &found, sizeof(next));
	}
	return next(alignment, size);
}

static void give_back(void *block)
{
	static void (*next)(void *);
	void *found;

	if (!next) {
		found = LOOK_UP("free");
		memcpy(&next, &found, sizeof(next));
	}
	next(block);
}
#else
static void *memory(size_t alignment, size_t size)
{
	static _Atomic(char *) arena;
	static atomic_size_t used;
	char *fresh, *none = NULL;
	size_t at;

	if (!atomic_load(&arena)) {
		fresh = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (!atomic_compare_exchange_strong(&arena, &none, fresh))
			munmap(fresh, ARENA_BYTES);
	}
	if (size > ARENA_BYTES / 2)
		return NULL;
	at = atomic_fetch_add(&used, size + alignment);
	at = ((uintptr_t)arena + at + alignment - 1) & ~(alignment - 1);
	return (void *)at;
}

static void give_back(void *block)
{
	(void)block;
}
#endif

/* ---- malloc and its relatives ---- */

#define HEAD 64 /* before each block: its size, and where its memory begins */

static void *take(size_t alignment, size_t size)
{
	char *start, *block;

	if (alignment < HEAD)
		alignment = HEAD;
	start = memory(alignment, size + alignment);
	if (!start)
		return NULL;
	block = start + alignment;
	((size_t *)block)[-1] = size;
	((char **)block)[-2] = start;
	((size_t *)block)[-3] = atomic_load(&counting);
	if (counting) {
		blocks++;
		bytes += size;
		left_blocks++;
		left_bytes += size;
	}
	return block;
}

static void end(void *block)
{
	if (!block)
		return;
	if (((size_t *)block)[-3]) {
		left_blocks--;
		left_bytes -= ((size_t *)block)[-1];
	}
	give_back(((char **)block)[-2]);
}

void *malloc(size_t size)
{
	return take(16, size);
}

void free(void *block)
{
	end(block);
}

void *calloc(size_t count, size_t size)
{
	void *block = take(16, count * size);

	return block ? memset(block, 0, count * size) : NULL;
}

void *realloc(void *old, size_t size)
{
	void *block = take(16, size);
	size_t before = old ? ((size_t *)old)[-1] : 0;

	if (block && old) {
		memcpy(block, old, before < size ? before : size);
		end(old);
	}
	return block;
}

void *aligned_alloc(size_t alignment, size_t size)
{
	return take(alignment, size);
}

int posix_memalign(void **out, size_t alignment, size_t size)
{
	*out = take(alignment, size);
	return *out ? 0 : ENOMEM;
}

/* ---- the program ---- */

static int (*work)(unsigned long count);
static unsigned long count;

static void *run_library(void *unused)
{
	int sum;

	(void)unused;
	counting = 1;
	sum = work(count);
	counting = 0;
	return (void *)(intptr_t)sum;
}

int main(int argc, char **argv)
{
	const char *how = argc > 3 ? argv[1] : "";
	pthread_t thread;
	void *library, *found, *sum;
	pid_t child = -1;
	int status = 0;

	if (argc != 4)
		return 2;
	count = strtoul(argv[3], NULL, 10);
	library = dlopen(argv[2], strcmp(how, "now") ? RTLD_LAZY : RTLD_NOW);
	found = library ? dlsym(library, "library_work") : NULL;
	if (!found)
		return 3;
	memcpy(&work, &found, sizeof(work));
	if (!strcmp(how, "fork") && (child = fork()) == 0)
		count *= 2;
	if (!strcmp(how, "thread")) {
		pthread_create(&thread, NULL, run_library, NULL);
		pthread_join(thread, &sum);
	} else {
		sum = run_library(NULL);
	}
	if (child > 0)
		waitpid(child, &status, 0);
	printf("%s: %d: %lu %lu %lu %lu\n", child == 0 ? "child" : "program", (int)(intptr_t)sum,
	       blocks, bytes, left_blocks, left_bytes);
	fflush(stdout);
	return child == 0 ? 5 : child > 0 ? WEXITSTATUS(status) : 7;
}
