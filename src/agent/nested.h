/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocators whose functions call each other by their public names: calloc calls malloc, realloc
 * calls malloc and free. The inner calls come to the hooks too, so each block would count twice.
 *
 *	program ──> calloc (hook) ──> guard_calloc ──> the allocator's calloc
 *	                                  │                 └──> malloc (hook): passes, uncounted
 *	                                  └─ sets the countdown out of reach, and back afterwards
 *
 * The allocators that are known not to do so (glibc, jemalloc, tcmalloc, mimalloc) get no guard, so
 * the hooks themselves test nothing.
 */
#ifndef MAYFLY_NESTED_H
#define MAYFLY_NESTED_H

#include "agent/agent.h"
#include "agent/real.h"

/* Out of reach; but not what any other part of the agent puts into a countdown. */
#define NESTED_LEFT (1ull << 60)

struct nested_outer {
	uint64_t left;
	void *inside;
};

/* Until nested_leave(), what this thread allocates does not count, and neither does its free of `block`. */
static INLINE struct nested_outer nested_enter(void *block)
{
	struct nested_outer outer = {self.sampler.left, self.inside};

	self.sampler.left = NESTED_LEFT;
	self.inside = block;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	return outer;
}

/* A new countdown may have begun meanwhile (the thread's first event, the agent went off); inner
 * calls have only taken a little from ours. */
static INLINE void nested_leave(struct nested_outer outer)
{
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	self.inside = outer.inside;
	if (self.sampler.left <= NESTED_LEFT && self.sampler.left > NESTED_LEFT / 2)
		self.sampler.left = outer.left;
}

/* The allocator's own functions. */
HIDDEN extern struct real nested_own;

/* Remembers the functions found. Puts guards around them, unless the allocator is known to need none. */
void nested_guard(struct real *found);

#endif
