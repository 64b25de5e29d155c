/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks that another function than the hooks' hands out: the allocators' own entries (entries.c),
 * an allocator inside the program (events/reported.c). Each works in both modes, and costs what a
 * hook costs when the block is not sampled. No block may be NULL, but for a resize.
 */
#ifndef MAYFLY_BLOCKS_H
#define MAYFLY_BLOCKS_H

#include "agent/exact.h"
#include "agent/live_filter.h"
#include "agent/path.h"
#include "agent/sampled.h"

/* Once the block exists, before anybody else knows it. */
static INLINE void blocks_allocated(void *block, size_t size, const struct walk_start *at)
{
	if (!block || LIKELY(path_covered(size)))
		return;
	if (agent_exact)
		exact_block(block, size, at, 0);
	else
		sampled_block(block, size, at, 0, 0);
}

/* Before the block can be handed out again. */
static INLINE void blocks_freed(void *block)
{
	if (!block || LIKELY(!live_maybe(block)))
		return;
	if (agent_exact)
		exact_free_block(block);
	else
		sampled_free_block(block);
}

/* Before and after it gets another size, and perhaps another address. result NULL: it failed, and
 * the block is as it was; with size 0: it is gone. */
static INLINE void blocks_resize_begin(struct resize *resize, void *block)
{
	if (agent_exact)
		exact_resize_begin(resize, block);
	else
		sampled_resize_begin(resize, block);
}

static INLINE void blocks_resize_end(const struct resize *resize, void *result, size_t size,
				     const struct walk_start *at)
{
	if (agent_exact)
		exact_resize_end(resize, result, size, at);
	else
		sampled_resize_end(resize, result, size, at);
}

#endif
