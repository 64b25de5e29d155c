/* SPDX-License-Identifier: Apache-2.0 */
/* Guards against counting inner calls: see nested.h. */
#include "agent/nested.h"

/* The loader binds those that exist: each is in one allocator's object. */
extern void *__libc_malloc(size_t) __attribute__((weak));
extern int mallctl(const char *, void *, size_t *, void *, size_t) __attribute__((weak));
extern void mi_process_info(size_t *, size_t *, size_t *, size_t *, size_t *, size_t *, size_t *,
			    size_t *) __attribute__((weak));
extern int MallocExtension_GetNumericProperty(const char *, size_t *) __attribute__((weak));
extern __typeof(_dl_find_object) _dl_find_object __attribute__((weak));

struct real nested_own;

#define GUARD(name, parameters, arguments)                                                         \
	static void *guard_##name parameters                                                       \
	{                                                                                          \
		struct nested_outer outer = nested_enter(NULL);                                    \
		void *block = nested_own.name arguments;                                           \
                                                                                                   \
		nested_leave(outer);                                                               \
		return block;                                                                      \
	}
GUARD(calloc, (size_t count, size_t size), (count, size))
GUARD(memalign, (size_t alignment, size_t size), (alignment, size))
GUARD(aligned_alloc, (size_t alignment, size_t size), (alignment, size))
GUARD(valloc, (size_t size), (size))
GUARD(pvalloc, (size_t size), (size))

static int guard_posix_memalign(void **out, size_t alignment, size_t size)
{
	struct nested_outer outer = nested_enter(NULL);
	int result = nested_own.posix_memalign(out, alignment, size);

	nested_leave(outer);
	return result;
}

static void *guard_realloc(void *block, size_t size)
{
	struct nested_outer outer = nested_enter(block);
	void *result = nested_own.realloc(block, size);

	nested_leave(outer);
	return result;
}

static bool same_object(const void *function, const struct dl_find_object *allocator)
{
	struct dl_find_object found;

	return function && !_dl_find_object((void *)function, &found) &&
	       found.dlfo_map_start == allocator->dlfo_map_start;
}

static bool is_known(const void *function)
{
	struct dl_find_object allocator;

	return _dl_find_object && !_dl_find_object((void *)function, &allocator) &&
	       (same_object((void *)__libc_malloc, &allocator) ||
		same_object((void *)mallctl, &allocator) ||
		same_object((void *)mi_process_info, &allocator) ||
		same_object((void *)MallocExtension_GetNumericProperty, &allocator));
}

void nested_guard(struct real *found)
{
	nested_own = *found;
	if (is_known((void *)found->malloc))
		return;
	found->calloc = guard_calloc;
	found->memalign = guard_memalign;
	found->aligned_alloc = guard_aligned_alloc;
	found->valloc = guard_valloc;
	found->pvalloc = guard_pvalloc;
	found->posix_memalign = guard_posix_memalign;
	found->realloc = guard_realloc;
}
