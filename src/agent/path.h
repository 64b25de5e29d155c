/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entering and leaving the sample path: the part of a call in which the thread works for the
 * agent. While self.busy is set, a signal handler that allocates or frees does not get in.
 */
#ifndef MAYFLY_PATH_H
#define MAYFLY_PATH_H

#include "agent/agent.h"
#include "agent/cpu/cpu.h"
#include "agent/live.h"
#include "agent/spool.h"
#include "agent/unwind/walk.h"

/* False: this is a signal handler, and its thread is on the path already. */
static inline bool path_enter(void)
{
	if (UNLIKELY(self.busy))
		return false;
	self.busy = BUSY_SAMPLING;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	return true;
}

/* Handles the blocks that signal handlers have freed meanwhile; gives a borrowed writer back. */
void path_finish(void);
void path_give_back_writer(void);

static inline bool path_has_work(void)
{
	return UNLIKELY(self.deferred_count || self.state == THREAD_EXITING);
}

static inline void path_leave_quietly(void)
{
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	self.busy = BUSY_NOT;
}

static inline void path_leave(void)
{
	if (path_has_work())
		path_finish();
	path_leave_quietly();
}

static inline struct writer *path_writer(void)
{
	if (UNLIKELY(!self.writer))
		self.writer = spool_acquire();
	return self.writer;
}

/* True: the countdown covers the block, and nothing else is to be done. */
static inline bool path_covered(size_t size)
{
	uint64_t left;

	if (LIKELY(cpu_count_down(&self.sampler.left, size)))
		return true;
	/* Put back. A handler that came meanwhile may have used up more than there was. */
	left = self.sampler.left + size;
	self.sampler.left = left <= INT64_MAX ? left : 0;
	return false;
}

/* True: the block is a pool's. The allocator is not asked for its figures then, because the pool
 * may hold any lock. */
static inline bool path_is_pool(uintptr_t block)
{
	return block & (SPOOL_ADDRESS_POOL | SPOOL_ADDRESS_POOL_MAPPED);
}

/* A block was allocated by a handler that did not get in. */
void path_count_nested(size_t size);

/* A block is freed by a handler that did not get in; `handle` is called for it when the path ends.
 * False: there are too many. */
bool path_defer_free(void *block, void (*handle)(const struct deferred_free *free));

/* A block that is being resized, from before the allocator's function until after it. */
struct resize {
	void *block;
	bool nested;   /* exact: by a handler that did not get in */
	bool released; /* exact: a RELEASE was written; nested: the free was deferred */
	bool was_live; /* sampled: it was a live sample */
	struct live_block old;
};

#endif
