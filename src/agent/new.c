/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libmayfly-cxx.so: operator new and delete, for allocators that define them beside malloc.
 *
 * libstdc++'s operators call malloc and free, which libmayfly.so sees. Those of jemalloc, tcmalloc
 * and mimalloc call the allocator's internals directly. This library, preloaded only with one of
 * them, implements the operators by malloc and free of the same allocator. If the next operator new
 * is not in the same object as the next malloc (libstdc++, or a program's own operators), calls are
 * passed on unchanged.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum { UNKNOWN, THROUGH_MALLOC, HAND_ON };
static int way;

static int find_way(void)
{
	struct dl_find_object allocator, operators;
	void *next_malloc = dlsym(RTLD_NEXT, "malloc"), *next_new = dlsym(RTLD_NEXT, "_Znwm");
	bool same = next_malloc && next_new && !_dl_find_object(next_malloc, &allocator) &&
		    !_dl_find_object(next_new, &operators) &&
		    allocator.dlfo_map_start == operators.dlfo_map_start;

	way = same || !next_new ? THROUGH_MALLOC : HAND_ON;
	return way;
}

static inline bool through_malloc(void)
{
	int w = way;

	return __builtin_expect(w, THROUGH_MALLOC) == THROUGH_MALLOC ||
	       (w == UNKNOWN && find_way() == THROUGH_MALLOC);
}

/* The next definition of the same operator, looked up once. */
#define NEXT(type, name)                                                                           \
	static __typeof__(type) next;                                                              \
	if (!next) {                                                                               \
		void *found = dlsym(RTLD_NEXT, name);                                              \
		memcpy(&next, &found, sizeof(found));                                              \
	}

static void *aligned(size_t size, size_t alignment)
{
	void *block;

	if (alignment < sizeof(void *))
		alignment = sizeof(void *);
	return posix_memalign(&block, alignment, size ? size : 1) ? NULL : block;
}

/* When memory runs out, the next operator decides: new handler, exception or NULL. */
#define NEW(symbol)                                                                                \
	void *symbol(size_t size);                                                                 \
	EXPORT void *symbol(size_t size)                                                           \
	{                                                                                          \
		void *block = through_malloc() ? malloc(size ? size : 1) : NULL;                   \
		if (__builtin_expect(block != NULL, 1))                                            \
			return block;                                                              \
		NEXT(void *(*)(size_t), #symbol)                                                   \
		return next ? next(size) : NULL;                                                   \
	}

#define NEW_NOTHROW(symbol)                                                                        \
	void *symbol(size_t size, const void *nothrow);                                            \
	EXPORT void *symbol(size_t size, const void *nothrow)                                      \
	{                                                                                          \
		void *block = through_malloc() ? malloc(size ? size : 1) : NULL;                   \
		if (__builtin_expect(block != NULL, 1))                                            \
			return block;                                                              \
		NEXT(void *(*)(size_t, const void *), #symbol)                                     \
		return next ? next(size, nothrow) : NULL;                                          \
	}

#define NEW_ALIGNED(symbol)                                                                        \
	void *symbol(size_t size, size_t alignment);                                               \
	EXPORT void *symbol(size_t size, size_t alignment)                                         \
	{                                                                                          \
		void *block = through_malloc() ? aligned(size, alignment) : NULL;                  \
		if (__builtin_expect(block != NULL, 1))                                            \
			return block;                                                              \
		NEXT(void *(*)(size_t, size_t), #symbol)                                           \
		return next ? next(size, alignment) : NULL;                                        \
	}

#define NEW_ALIGNED_NOTHROW(symbol)                                                                \
	void *symbol(size_t size, size_t alignment, const void *nothrow);                          \
	EXPORT void *symbol(size_t size, size_t alignment, const void *nothrow)                    \
	{                                                                                          \
		void *block = through_malloc() ? aligned(size, alignment) : NULL;                  \
		if (__builtin_expect(block != NULL, 1))                                            \
			return block;                                                              \
		NEXT(void *(*)(size_t, size_t, const void *), #symbol)                             \
		return next ? next(size, alignment, nothrow) : NULL;                               \
	}

/* The forms of delete differ in hints, which free() does not need; the next operator gets them all. */
#define DELETE(symbol)                                                                             \
	void symbol(void *block, size_t a, size_t b);                                              \
	EXPORT void symbol(void *block, size_t a, size_t b)                                        \
	{                                                                                          \
		if (through_malloc()) {                                                            \
			free(block);                                                               \
			return;                                                                    \
		}                                                                                  \
		NEXT(void (*)(void *, size_t, size_t), #symbol)                                    \
		if (next)                                                                          \
			next(block, a, b);                                                         \
		else                                                                               \
			free(block);                                                               \
	}

NEW(_Znwm)
NEW(_Znam)
NEW_NOTHROW(_ZnwmRKSt9nothrow_t)
NEW_NOTHROW(_ZnamRKSt9nothrow_t)
NEW_ALIGNED(_ZnwmSt11align_val_t)
NEW_ALIGNED(_ZnamSt11align_val_t)
NEW_ALIGNED_NOTHROW(_ZnwmSt11align_val_tRKSt9nothrow_t)
NEW_ALIGNED_NOTHROW(_ZnamSt11align_val_tRKSt9nothrow_t)
DELETE(_ZdlPv)
DELETE(_ZdaPv)
DELETE(_ZdlPvm)
DELETE(_ZdaPvm)
DELETE(_ZdlPvRKSt9nothrow_t)
DELETE(_ZdaPvRKSt9nothrow_t)
DELETE(_ZdlPvSt11align_val_t)
DELETE(_ZdaPvSt11align_val_t)
DELETE(_ZdlPvmSt11align_val_t)
DELETE(_ZdaPvmSt11align_val_t)
DELETE(_ZdlPvSt11align_val_tRKSt9nothrow_t)
DELETE(_ZdaPvSt11align_val_tRKSt9nothrow_t)
