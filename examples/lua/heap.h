/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A heap with pages of its own, from mmap: free lists for four sizes between each two powers of two.
 * Not for several threads.
 */
#ifndef MAYFLY_LUA_HEAP_H
#define MAYFLY_LUA_HEAP_H

#include <stddef.h>
#include <sys/mman.h>

#define HEAP_LEAST_LOG2 4u	     /* of the bytes of the smallest block */
#define HEAP_MOST	(256u << 10) /* larger blocks have pages of their own */
#define HEAP_AREA	(4u << 20)   /* bytes that are asked of the kernel at once */

struct heap_free {
	struct heap_free *next;
};

static struct heap_free *heap_lists[80];
static char *heap_at, *heap_end;

/* The list for blocks of so many bytes; *size: what they have. */
static unsigned heap_list(size_t bytes, size_t *size)
{
	unsigned shift = HEAP_LEAST_LOG2, list = 0;
	size_t step;

	/* Each step is used for four sizes, the first for eight. */
	while (bytes > (size_t)8 << shift) {
		shift++;
		list += 4;
	}
	step = (size_t)1 << shift;
	*size = (bytes + step - 1) & ~(step - 1);
	return list + (unsigned)(*size >> shift);
}

static void *heap_pages(size_t bytes)
{
	void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return pages == MAP_FAILED ? NULL : pages;
}

/* NULL: there is no memory. */
static void *heap_take(size_t bytes)
{
	struct heap_free **list, *block;
	size_t size;

	if (bytes > HEAP_MOST)
		return heap_pages(bytes);
	list = &heap_lists[heap_list(bytes, &size)];
	block = *list;
	if (block) {
		*list = block->next;
		return block;
	}
	if ((size_t)(heap_end - heap_at) < size) {
		heap_at = heap_pages(HEAP_AREA); /* the rest of the last area stays unused */
		heap_end = heap_at ? heap_at + HEAP_AREA : NULL;
	}
	if (!heap_at)
		return NULL;
	block = (struct heap_free *)heap_at;
	heap_at += size;
	return block;
}

static void heap_give_back(void *memory, size_t bytes)
{
	struct heap_free **list, *block = memory;
	size_t size;

	if (bytes > HEAP_MOST) {
		munmap(memory, bytes);
		return;
	}
	list = &heap_lists[heap_list(bytes, &size)];
	block->next = *list;
	*list = block;
}

#endif
