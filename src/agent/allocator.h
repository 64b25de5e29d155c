/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The allocator's own view of its memory: how much it has from the kernel, how much of that is
 * free. Asked for on the sample path, at most about once a second.
 *
 * Asking takes the allocator's locks, which this thread does not hold: the real function has
 * returned or has not been called yet. Only a signal handler may have interrupted it, so none must
 * be on the stack, and none may come while we ask.
 *
 * glibc goes through all its free blocks, and who calls malloc meanwhile waits. What that would
 * take is guessed before, from the blocks that have become fewer since it was asked last.
 */
#ifndef MAYFLY_ALLOCATOR_H
#define MAYFLY_ALLOCATOR_H

#include "agent/agent.h"
#include "agent/spool.h"

extern _Atomic uint64_t allocator_next; /* ticks when it is due */

static inline bool allocator_due(uint64_t ticks)
{
	return UNLIKELY(ticks >= atomic_load_explicit(&allocator_next, memory_order_relaxed));
}

/* The program has so many blocks more, or fewer, as far as is known. Rarely: it is shared. */
void allocator_blocks(int64_t change);

/* Not between a RELEASE for a realloc and what becomes of it. */
void allocator_look(struct writer *w, uint64_t ticks);

/* The program leaves by exit(). */
void allocator_end(struct writer *w);

/* In the child. */
void allocator_forked(void);

#endif
