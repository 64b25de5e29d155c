/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An allocator whose functions call each other by their public names, as simple ones do: calloc,
 * realloc and the aligned ones call malloc, realloc also calls free. For LD_PRELOAD, under mayfly.
 * It takes pieces of one mapping and never gives any back. 16 bytes before each block hold its size.
 */
#include <errno.h>
#include <malloc.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define ARENA_BYTES ((size_t)1 << 32)
#define SHOWN	    __attribute__((visibility("default")))

static char *arena;
static size_t used;

SHOWN void *malloc(size_t size)
{
	if (!arena)
		arena = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (size > ARENA_BYTES - used - 32) {
		errno = ENOMEM;
		return NULL;
	}
	char *block = arena + used + 16;

	memcpy(block - 16, &size, sizeof(size));
	used += (size + 31) & ~(size_t)15;
	return block;
}

SHOWN void free(void *block)
{
	(void)block;
}

SHOWN void *calloc(size_t count, size_t size)
{
	return malloc(count * size);
}

SHOWN void *realloc(void *block, size_t size)
{
	size_t old;
	void *larger;

	if (!block)
		return malloc(size);
	memcpy(&old, (char *)block - 16, sizeof(old));
	larger = malloc(size);
	if (larger) {
		memcpy(larger, block, old < size ? old : size);
		free(block);
	}
	return larger;
}

SHOWN void *memalign(size_t alignment, size_t size)
{
	uintptr_t at = (uintptr_t)malloc(size + alignment + 16);

	if (!at)
		return NULL;
	at = (at + 16 + alignment - 1) & ~(alignment - 1);
	memcpy((char *)at - 16, &size, sizeof(size));
	return (void *)at;
}

SHOWN void *aligned_alloc(size_t alignment, size_t size)
{
	return memalign(alignment, size);
}

SHOWN int posix_memalign(void **out, size_t alignment, size_t size)
{
	*out = memalign(alignment, size);
	return *out ? 0 : ENOMEM;
}
