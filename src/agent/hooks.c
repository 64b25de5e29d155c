/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions that take the place of the program's.
 *
 * An allocation function whose size fits into the thread's countdown counts, and forwards by a tail
 * call: three instructions more than forwarding alone. Otherwise it goes on to sampled_NAME or
 * exact_NAME, also by a tail call, so that their caller's frame is the program's. free() tests one
 * byte (live_filter.h), in six instructions.
 *
 * Every block handed out comes from the real function unchanged, so blocks may pass freely between
 * code that sees the hooks and code that does not.
 */
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "agent/exact.h"
#include "agent/hooks.h"
#include "agent/live_filter.h"
#include "agent/nested.h"
#include "agent/own_malloc.h"
#include "agent/path.h"
#include "agent/sampled.h"

EXPORT void *malloc(size_t size)
{
	if (LIKELY(path_covered(size)))
		return real.malloc(size);
	return agent_exact ? exact_malloc(size) : sampled_malloc(size);
}

static INLINE void free_block(void *block)
{
	if (LIKELY(!live_maybe(block)))
		real.free(block);
	else if (agent_exact)
		exact_free(block);
	else
		sampled_free(block);
}

EXPORT void free(void *block)
{
	free_block(block);
}

EXPORT void *calloc(size_t count, size_t size)
{
	size_t bytes;

	/* An overflow fails in the real function; it must not count. */
	if (UNLIKELY(__builtin_mul_overflow(count, size, &bytes)) || LIKELY(path_covered(bytes)))
		return real.calloc(count, size);
	return agent_exact ? exact_calloc(count, size) : sampled_calloc(count, size);
}

EXPORT void *realloc(void *block, size_t size)
{
	if (LIKELY(!live_maybe(block) && path_covered(size)))
		return real.realloc(block, size);
	return agent_exact ? exact_realloc(block, size) : sampled_realloc(block, size);
}

void *(*hooks_other_realloc)(void *block, size_t size);

EXPORT void *reallocarray(void *block, size_t count, size_t size)
{
	size_t bytes;

	if (UNLIKELY(__builtin_mul_overflow(count, size, &bytes))) {
		errno = ENOMEM;
		return NULL;
	}
	if (UNLIKELY(hooks_other_realloc))
		return hooks_other_realloc(block, bytes);
	if (LIKELY(!live_maybe(block) && path_covered(bytes)))
		return real.realloc(block, bytes);
	return agent_exact ? exact_realloc(block, bytes) : sampled_realloc(block, bytes);
}

EXPORT void *memalign(size_t alignment, size_t size)
{
	if (LIKELY(path_covered(size)))
		return real.memalign(alignment, size);
	return agent_exact ? exact_memalign(alignment, size) : sampled_memalign(alignment, size);
}

EXPORT void *aligned_alloc(size_t alignment, size_t size)
{
	if (LIKELY(path_covered(size)))
		return real.aligned_alloc(alignment, size);
	return agent_exact ? exact_aligned_alloc(alignment, size)
			   : sampled_aligned_alloc(alignment, size);
}

EXPORT int posix_memalign(void **out, size_t alignment, size_t size)
{
	if (LIKELY(path_covered(size)))
		return real.posix_memalign(out, alignment, size);
	return agent_exact ? exact_posix_memalign(out, alignment, size)
			   : sampled_posix_memalign(out, alignment, size);
}

EXPORT void *valloc(size_t size)
{
	if (LIKELY(path_covered(size)))
		return real.valloc(size);
	return agent_exact ? exact_valloc(size) : sampled_valloc(size);
}

EXPORT void *pvalloc(size_t size)
{
	if (LIKELY(path_covered(size)))
		return real.pvalloc(size);
	return agent_exact ? exact_pvalloc(size) : sampled_pvalloc(size);
}

EXPORT size_t malloc_usable_size(void *block)
{
	return real.malloc_usable_size(block);
}

void free_sized(void *block, size_t size);
void free_aligned_sized(void *block, size_t alignment, size_t size);

/* C23. glibc 2.36 has neither; allocators that have them accept free() as well. */
EXPORT void free_sized(void *block, size_t size)
{
	(void)size;
	free_block(block);
}

EXPORT void free_aligned_sized(void *block, size_t alignment, size_t size)
{
	(void)alignment, (void)size;
	free_block(block);
}

/* ---- by name ---- */

/* Our functions have names of their own, as a malloc of the program's may come before ours. */
#define OWN(name)                                                                                  \
	HIDDEN extern const char hook_##name[];                                                    \
	__asm__(".globl hook_" #name "\n.hidden hook_" #name "\n.set hook_" #name ", " #name);
#define OWN_ALL(X)                                                                                 \
	X(malloc)                                                                                  \
	X(free)                                                                                    \
	X(calloc)                                                                                  \
	X(realloc)                                                                                 \
	X(memalign)                                                                                \
	X(aligned_alloc)                                                                           \
	X(posix_memalign)                                                                          \
	X(valloc)                                                                                  \
	X(pvalloc)
/* The functions that they stand for are only called where an executable has them. */
#define OWN_BESIDE(X)                                                                              \
	X(reallocarray)                                                                            \
	X(free_sized)                                                                              \
	X(free_aligned_sized)                                                                      \
	X(malloc_usable_size)
OWN_ALL(OWN)
OWN_BESIDE(OWN)

const struct hook *hooks_find(const char *name)
{
#define ROW(name)	 {#name, (void *)hook_##name, offsetof(struct real, name)},
#define ROW_BESIDE(name) {#name, (void *)hook_##name, HOOK_BESIDE},
	static const struct hook hooks[] = {OWN_ALL(ROW) OWN_BESIDE(ROW_BESIDE)};
#undef ROW

	if (!strchr("mfcrapv", name[0]))
		return NULL;
	for (size_t i = 0; i < sizeof(hooks) / sizeof(*hooks); i++)
		if (!strcmp(name, hooks[i].name))
			return &hooks[i];
	return NULL;
}

void *hooks_underneath(const struct hook *hook)
{
	void *function;

	if (hook->real == HOOK_BESIDE)
		return own_malloc_function ? own_malloc_function(hook->name) : NULL;
	memcpy(&function, (const char *)&nested_own + hook->real, sizeof(function));
	return function;
}
