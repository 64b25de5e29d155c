/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The floor for CPython: a preloaded library whose wrappers of its allocators (PyMem_SetAllocator) do
 * nothing but pass on. An interpreter that was built with profile-guided optimisation has its own
 * allocator inlined where it is not wrapped, so every wrapper costs this.
 */
#include <dlfcn.h>
#include <stddef.h>

/* PyMemAllocatorEx: https://docs.python.org/3/c-api/memory.html */
struct allocator {
	void *context;
	void *(*malloc)(void *context, size_t size);
	void *(*calloc)(void *context, size_t count, size_t size);
	void *(*realloc)(void *context, void *block, size_t size);
	void (*free)(void *context, void *block);
};

enum { MEM = 1, OBJ = 2, DOMAINS };

static struct allocator under[DOMAINS];

#define WRAPPERS(domain, which)                                                                    \
	static void *domain##_malloc(void *context, size_t size)                                   \
	{                                                                                          \
		return under[which].malloc(context, size);                                         \
	}                                                                                          \
	static void *domain##_calloc(void *context, size_t count, size_t size)                     \
	{                                                                                          \
		return under[which].calloc(context, count, size);                                  \
	}                                                                                          \
	static void *domain##_realloc(void *context, void *block, size_t size)                     \
	{                                                                                          \
		return under[which].realloc(context, block, size);                                 \
	}

WRAPPERS(mem, MEM)
WRAPPERS(obj, OBJ)

static const struct allocator wrappers[DOMAINS] = {
    [MEM] = {NULL, mem_malloc, mem_calloc, mem_realloc, NULL},
    [OBJ] = {NULL, obj_malloc, obj_calloc, obj_realloc, NULL},
};

__attribute__((constructor)) static void wrap(void)
{
	void (*get)(int, struct allocator *) =
	    (void (*)(int, struct allocator *))dlsym(RTLD_DEFAULT, "PyMem_GetAllocator");
	void (*set)(int, const struct allocator *) =
	    (void (*)(int, const struct allocator *))dlsym(RTLD_DEFAULT, "PyMem_SetAllocator");

	for (int which = MEM; get && set && which < DOMAINS; which++) {
		struct allocator made = wrappers[which];

		get(which, &under[which]);
		made.context = under[which].context;
		made.free = under[which].free;
		set(which, &made);
	}
}
