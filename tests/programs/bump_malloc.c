/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An allocator that may be called in a signal handler: it takes the next piece of one large mapping
 * by an atomic add and never gives anything back. For LD_PRELOAD, under mayfly.
 *
 * Each block is preceded by 16 bytes that hold its size. It lacks most of what glibc has
 * (memalign, valloc, ...), which the agent must not mind either.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ARENA_BYTES ((size_t)1 << 36)

__attribute__((visibility("default"))) const int bump_malloc_is_here = 1;

static _Atomic(char *) arena;
static atomic_size_t used;

static char *find_arena(void)
{
	char *there = atomic_load(&arena);

	if (there)
		return there;
	there = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (there == MAP_FAILED)
		return NULL;
	char *other = NULL;
	if (!atomic_compare_exchange_strong(&arena, &other, there)) {
		munmap(there, ARENA_BYTES);
		return other;
	}
	return there;
}

__attribute__((visibility("default"))) void *malloc(size_t size)
{
	char *base = find_arena();

	if (!base || size > ARENA_BYTES / 2) {
		errno = ENOMEM;
		return NULL;
	}
	size_t whole = (size + 31) & ~(size_t)15;
	size_t at = atomic_fetch_add(&used, whole);
	if (at + whole > ARENA_BYTES) {
		errno = ENOMEM;
		return NULL;
	}
	memcpy(base + at, &size, sizeof(size));
	return base + at + 16;
}

__attribute__((visibility("default"))) void free(void *block)
{
	(void)block;
}

__attribute__((visibility("default"))) void *calloc(size_t count, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(count, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	return malloc(bytes); /* fresh from mmap, so zero */
}

__attribute__((visibility("default"))) void *realloc(void *block, size_t size)
{
	size_t old = 0;
	void *fresh = malloc(size);

	if (!block || !fresh)
		return fresh;
	memcpy(&old, (char *)block - 16, sizeof(old));
	memcpy(fresh, block, old < size ? old : size);
	return fresh;
}
