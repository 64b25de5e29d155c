/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions that jemalloc, tcmalloc and mimalloc have beside malloc and its relatives: mallocx,
 * tc_new, mi_heap_malloc and the like. A program that calls them passes malloc by.
 *
 * The agent does not export these names, because programs find out with a weak symbol whether an
 * allocator is there. Instead, the slots of the program and its libraries that hold the allocator's
 * function are led to the one here (bypass.c). It calls the allocator's and records the block.
 *
 * A name has one form, and is in one list. a, b, c, d are its arguments; those that a function does
 * not have are passed on as they came.
 */
#include "agent/entries.h"

#include <string.h>

#include "agent/blocks.h"
#include "agent/image.h"
#include "agent/nested.h"
#include "agent/slots.h"
#include "agent/spool.h"

/* jemalloc's functions beside malloc's, and all of them where they have a prefix. */
#define PREFIXED_ALLOCATING(X, p)                                                                  \
	X(p##malloc, a)                                                                            \
	X(p##calloc, a *b)                                                                         \
	X(p##memalign, b)                                                                          \
	X(p##aligned_alloc, b)                                                                     \
	X(p##valloc, a)                                                                            \
	X(p##pvalloc, a)                                                                           \
	X(p##mallocx, a)
#define PREFIXED_FREEING(X, p)                                                                     \
	X(p##free)                                                                                 \
	X(p##dallocx)                                                                              \
	X(p##sdallocx)
#define PREFIXED_RESIZING(X, p)                                                                    \
	X(p##realloc, a, b)                                                                        \
	X(p##rallocx, a, b)

/* operator new of the executable. X(name, block): which of malloc's family has such a block. */
#define NEW(X)                                                                                     \
	X(_Znwm, real.malloc(a ? a : 1))                                                           \
	X(_Znam, real.malloc(a ? a : 1))                                                           \
	X(_ZnwmRKSt9nothrow_t, real.malloc(a ? a : 1))                                             \
	X(_ZnamRKSt9nothrow_t, real.malloc(a ? a : 1))                                             \
	X(_ZnwmSt11align_val_t, real.memalign(b, a ? a : 1))                                       \
	X(_ZnamSt11align_val_t, real.memalign(b, a ? a : 1))                                       \
	X(_ZnwmSt11align_val_tRKSt9nothrow_t, real.memalign(b, a ? a : 1))                         \
	X(_ZnamSt11align_val_tRKSt9nothrow_t, real.memalign(b, a ? a : 1))

/* X(name, bytes): returns a block of this size. */
#define ALLOCATING(X)                                                                              \
	PREFIXED_ALLOCATING(X, je_)                                                                \
	PREFIXED_ALLOCATING(X, _rjem_)                                                             \
	X(mallocx, a)                                                                              \
	X(tc_malloc, a)                                                                            \
	X(tc_malloc_skip_new_handler, a)                                                           \
	X(tc_calloc, a *b)                                                                         \
	X(tc_memalign, b)                                                                          \
	X(tc_valloc, a)                                                                            \
	X(tc_pvalloc, a)                                                                           \
	X(tc_new, a)                                                                               \
	X(tc_new_nothrow, a)                                                                       \
	X(tc_new_aligned, a)                                                                       \
	X(tc_new_aligned_nothrow, a)                                                               \
	X(tc_newarray, a)                                                                          \
	X(tc_newarray_nothrow, a)                                                                  \
	X(tc_newarray_aligned, a)                                                                  \
	X(tc_newarray_aligned_nothrow, a)                                                          \
	X(mi_malloc, a)                                                                            \
	X(mi_zalloc, a)                                                                            \
	X(mi_malloc_small, a)                                                                      \
	X(mi_zalloc_small, a)                                                                      \
	X(mi_valloc, a)                                                                            \
	X(mi_pvalloc, a)                                                                           \
	X(mi_new, a)                                                                               \
	X(mi_new_nothrow, a)                                                                       \
	X(mi_new_aligned, a)                                                                       \
	X(mi_new_aligned_nothrow, a)                                                               \
	X(mi_malloc_aligned, a)                                                                    \
	X(mi_malloc_aligned_at, a)                                                                 \
	X(mi_zalloc_aligned, a)                                                                    \
	X(mi_zalloc_aligned_at, a)                                                                 \
	X(mi_calloc, a *b)                                                                         \
	X(mi_mallocn, a *b)                                                                        \
	X(mi_new_n, a *b)                                                                          \
	X(mi_calloc_aligned, a *b)                                                                 \
	X(mi_calloc_aligned_at, a *b)                                                              \
	X(mi_memalign, b)                                                                          \
	X(mi_aligned_alloc, b)                                                                     \
	X(mi_heap_malloc, b)                                                                       \
	X(mi_heap_zalloc, b)                                                                       \
	X(mi_heap_malloc_small, b)                                                                 \
	X(mi_heap_malloc_aligned, b)                                                               \
	X(mi_heap_malloc_aligned_at, b)                                                            \
	X(mi_heap_zalloc_aligned, b)                                                               \
	X(mi_heap_zalloc_aligned_at, b)                                                            \
	X(mi_heap_alloc_new, b)                                                                    \
	X(mi_heap_calloc, b *c)                                                                    \
	X(mi_heap_mallocn, b *c)                                                                   \
	X(mi_heap_alloc_new_n, b *c)                                                               \
	X(mi_heap_calloc_aligned, b *c)                                                            \
	X(mi_heap_calloc_aligned_at, b *c)                                                         \
	X(mi_strdup, strlen(block) + 1)                                                            \
	X(mi_strndup, strlen(block) + 1)                                                           \
	X(mi_realpath, strlen(block) + 1)                                                          \
	X(mi_heap_strdup, strlen(block) + 1)                                                       \
	X(mi_heap_strndup, strlen(block) + 1)

/* X(name): frees the block a. */
#define FREEING(X)                                                                                 \
	X(_ZdlPv)                                                                                  \
	X(_ZdaPv)                                                                                  \
	X(_ZdlPvm)                                                                                 \
	X(_ZdaPvm)                                                                                 \
	X(_ZdlPvRKSt9nothrow_t)                                                                    \
	X(_ZdaPvRKSt9nothrow_t)                                                                    \
	X(_ZdlPvSt11align_val_t)                                                                   \
	X(_ZdaPvSt11align_val_t)                                                                   \
	X(_ZdlPvmSt11align_val_t)                                                                  \
	X(_ZdaPvmSt11align_val_t)                                                                  \
	X(_ZdlPvSt11align_val_tRKSt9nothrow_t)                                                     \
	X(_ZdaPvSt11align_val_tRKSt9nothrow_t)                                                     \
	PREFIXED_FREEING(X, je_)                                                                   \
	PREFIXED_FREEING(X, _rjem_)                                                                \
	X(dallocx)                                                                                 \
	X(sdallocx)                                                                                \
	X(tc_free)                                                                                 \
	X(tc_cfree)                                                                                \
	X(tc_free_sized)                                                                           \
	X(tc_delete)                                                                               \
	X(tc_delete_nothrow)                                                                       \
	X(tc_delete_sized)                                                                         \
	X(tc_delete_aligned)                                                                       \
	X(tc_delete_aligned_nothrow)                                                               \
	X(tc_delete_sized_aligned)                                                                 \
	X(tc_deletearray)                                                                          \
	X(tc_deletearray_nothrow)                                                                  \
	X(tc_deletearray_sized)                                                                    \
	X(tc_deletearray_aligned)                                                                  \
	X(tc_deletearray_aligned_nothrow)                                                          \
	X(tc_deletearray_sized_aligned)                                                            \
	X(mi_free)                                                                                 \
	X(mi_cfree)                                                                                \
	X(mi_free_size)                                                                            \
	X(mi_free_aligned)                                                                         \
	X(mi_free_size_aligned)

/* X(name, block, bytes): as realloc. */
#define RESIZING(X)                                                                                \
	PREFIXED_RESIZING(X, je_)                                                                  \
	PREFIXED_RESIZING(X, _rjem_)                                                               \
	X(rallocx, a, b)                                                                           \
	X(tc_realloc, a, b)                                                                        \
	X(mi_realloc, a, b)                                                                        \
	X(mi_reallocf, a, b)                                                                       \
	X(mi_rezalloc, a, b)                                                                       \
	X(mi_new_realloc, a, b)                                                                    \
	X(mi_realloc_aligned, a, b)                                                                \
	X(mi_realloc_aligned_at, a, b)                                                             \
	X(mi_rezalloc_aligned, a, b)                                                               \
	X(mi_rezalloc_aligned_at, a, b)                                                            \
	X(mi_reallocn, a, b *c)                                                                    \
	X(mi_reallocarray, a, b *c)                                                                \
	X(mi_recalloc, a, b *c)                                                                    \
	X(mi_new_reallocn, a, b *c)                                                                \
	X(mi_recalloc_aligned, a, b *c)                                                            \
	X(mi_heap_realloc, b, c)                                                                   \
	X(mi_heap_reallocf, b, c)                                                                  \
	X(mi_heap_rezalloc, b, c)                                                                  \
	X(mi_heap_realloc_aligned, b, c)                                                           \
	X(mi_heap_rezalloc_aligned, b, c)                                                          \
	X(mi_heap_reallocn, b, c *d)                                                               \
	X(mi_heap_recalloc, b, c *d)

/* X(name): the others, each with a form of its own. */
#define OTHERS(X)                                                                                  \
	X(xallocx)                                                                                 \
	X(je_xallocx)                                                                              \
	X(_rjem_xallocx)                                                                           \
	X(je_posix_memalign)                                                                       \
	X(_rjem_posix_memalign)                                                                    \
	X(mi_expand)                                                                               \
	X(tc_posix_memalign)                                                                       \
	X(mi_posix_memalign)                                                                       \
	X(mi_heap_destroy)

enum number {
#define NUMBER(name, ...) ENTRY_##name,
	NEW(NUMBER) ALLOCATING(NUMBER) FREEING(NUMBER) RESIZING(NUMBER) OTHERS(NUMBER) ENTRIES
};

static struct entry entries[ENTRIES];

typedef size_t word(size_t a, size_t b, size_t c, size_t d, size_t e);

#define PARAMETERS	 size_t a, size_t b, size_t c, size_t d, size_t e
#define UNDERNEATH(name) ((word *)entries[ENTRY_##name].underneath)(a, b, c, d, e)

/* The executable's functions, of which one may call another one that is led here, too. */
static bool nested;

/* The function underneath, which may free the block. */
#define CALL(name, block)                                                                          \
	({                                                                                         \
		struct nested_outer outer_;                                                        \
		size_t result_;                                                                    \
                                                                                                   \
		if (UNLIKELY(nested))                                                              \
			outer_ = nested_enter((void *)(block));                                    \
		result_ = UNDERNEATH(name);                                                        \
		if (UNLIKELY(nested))                                                              \
			nested_leave(outer_);                                                      \
		result_;                                                                           \
	})

/* ---- records ---- */

/* The block has been resized where it is. */
static INLINE void record_resized(void *block, size_t size, const struct walk_start *at)
{
	struct resize resize;

	blocks_resize_begin(&resize, block);
	blocks_resize_end(&resize, block, size, at);
}

/* ---- in the place of the allocator's ---- */

/* Where malloc fails, the function underneath decides: new handler, exception or NULL. */
#define NEWS(name, its_block)                                                                      \
	static size_t entry_##name(PARAMETERS)                                                     \
	{                                                                                          \
		WALK_CALLER(at);                                                                   \
		void *block = its_block;                                                           \
                                                                                                   \
		if (UNLIKELY(!block))                                                              \
			return UNDERNEATH(name);                                                   \
		blocks_allocated(block, a, &at);                                                   \
		return (size_t)block;                                                              \
	}
NEW(NEWS)

#define ALLOCATES(name, bytes)                                                                     \
	static size_t entry_##name(PARAMETERS)                                                     \
	{                                                                                          \
		WALK_CALLER(at);                                                                   \
		void *block = (void *)CALL(name, NULL);                                            \
                                                                                                   \
		if (block)                                                                         \
			blocks_allocated(block, bytes, &at);                                       \
		return (size_t)block;                                                              \
	}
ALLOCATING(ALLOCATES)

#define FREES(name)                                                                                \
	static size_t entry_##name(PARAMETERS)                                                     \
	{                                                                                          \
		blocks_freed((void *)a);                                                           \
		return CALL(name, a);                                                              \
	}
FREEING(FREES)

#define RESIZES(name, block, bytes)                                                                \
	static size_t entry_##name(PARAMETERS)                                                     \
	{                                                                                          \
		WALK_CALLER(at);                                                                   \
		struct resize resize;                                                              \
		size_t result;                                                                     \
                                                                                                   \
		blocks_resize_begin(&resize, (void *)(block));                                     \
		result = CALL(name, block);                                                        \
		blocks_resize_end(&resize, (void *)result, bytes, &at);                            \
		return result;                                                                     \
	}
RESIZING(RESIZES)

/* The size that the block has now; less than asked for: it could not grow. */
#define EXTENDS(name)                                                                              \
	static size_t entry_##name(PARAMETERS)                                                     \
	{                                                                                          \
		WALK_CALLER(at);                                                                   \
		size_t size = CALL(name, NULL);                                                    \
                                                                                                   \
		if (size >= b)                                                                     \
			record_resized((void *)a, b, &at);                                         \
		return size;                                                                       \
	}
EXTENDS(xallocx)
EXTENDS(je_xallocx)
EXTENDS(_rjem_xallocx)

static size_t entry_mi_expand(PARAMETERS)
{
	WALK_CALLER(at);
	size_t block = UNDERNEATH(mi_expand);

	if (block)
		record_resized((void *)block, b, &at);
	return block;
}

#define ALIGNS(name)                                                                               \
	static size_t entry_##name(PARAMETERS)                                                     \
	{                                                                                          \
		WALK_CALLER(at);                                                                   \
		size_t result = CALL(name, NULL);                                                  \
                                                                                                   \
		if (!(int)result)                                                                  \
			blocks_allocated(*(void **)a, c, &at);                                     \
		return result;                                                                     \
	}
ALIGNS(je_posix_memalign)
ALIGNS(_rjem_posix_memalign)
ALIGNS(tc_posix_memalign)
ALIGNS(mi_posix_memalign)

static size_t entry_mi_heap_destroy(PARAMETERS)
{
	static _Atomic bool done;

	if (atomic_load(&agent_state) == AGENT_ON && !atomic_exchange(&done, true))
		spool_note("mi_heap_destroy freed all blocks of a heap at once: they look live");
	return UNDERNEATH(mi_heap_destroy);
}

/* ---- by name ---- */

static struct entry entries[ENTRIES] = {
#define ROW(name, ...) {#name, (void *)entry_##name, NULL},
    NEW(ROW) ALLOCATING(ROW) FREEING(ROW) RESIZING(ROW) OTHERS(ROW)};

const char *entries_name(size_t i)
{
	return i < ENTRIES ? entries[i].name : NULL;
}

void *entries_function(size_t i)
{
	return entries[i].function;
}

void entries_redirected(size_t i, void *underneath)
{
	entries[i].underneath = underneath;
	nested = true;
}

bool entries_find_all(void)
{
	struct image image;
	bool any = false;

	if (nested)
		return false;
	if (!slots_image_at((void *)nested_own.malloc, &image))
		return false;
	for (size_t i = 0; i < ENTRIES; i++) {
		if (entries[i].name[0] == '_')
			continue; /* a library's operators: new.c */
		entries[i].underneath = image_find(&image, entries[i].name);
		any |= entries[i].underneath != NULL;
	}
	return any;
}

const struct entry *entries_find(const char *name)
{
	if (!strchr("mrxdstj_", name[0]))
		return NULL;
	for (size_t i = 0; i < ENTRIES; i++)
		if (entries[i].underneath && !strcmp(entries[i].name, name))
			return &entries[i];
	return NULL;
}
