/* SPDX-License-Identifier: Apache-2.0 */
/* The table of an allocator inside the program: see reported.h. Each call keeps errno. */
#include "agent/events/reported.h"

#include <errno.h>

#include "agent/blocks.h"

_Static_assert(sizeof(struct resize) <= sizeof(struct mayfly_resize), "mayfly.h: too small");

static COLD void slow_alloc(void *block, size_t size)
{
	WALK_CALLER(at);
	int error = errno;

	blocks_allocated(block, size, &at);
	errno = error;
}

/* A tail call, so that the caller's frame is the program's. */
static void report_alloc(const void *block, size_t size)
{
	if (LIKELY(block) && UNLIKELY(!path_covered(size)))
		slow_alloc((void *)block, size);
}

static void report_free(const void *block)
{
	int error = errno;

	blocks_freed((void *)block);
	errno = error;
}

static void report_resize_begin(struct mayfly_resize *resize, const void *block)
{
	int error = errno;

	blocks_resize_begin((struct resize *)resize->words, (void *)block);
	errno = error;
}

static void report_resize_end(const struct mayfly_resize *resize, const void *result, size_t size)
{
	WALK_CALLER(at);
	int error = errno;

	blocks_resize_end((const struct resize *)resize->words, (void *)result, size, &at);
	errno = error;
}

EXPORT const struct mayfly_agent_allocator mayfly_agent_allocator = {
    .size = sizeof(struct mayfly_agent_allocator),
    .alloc = report_alloc,
    .free = report_free,
    .resize_begin = report_resize_begin,
    .resize_end = report_resize_end,
};
