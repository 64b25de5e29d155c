/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The allocator's own figures: how much memory it has from the kernel, and how much of that is
 * free. Asked for on the sample path, at most about once a second.
 *
 * Asking takes the allocator's locks. This thread does not hold them, as the real function has
 * returned or has not been called yet, unless a signal handler has interrupted it: so no handler
 * may be on the stack, and signals are blocked meanwhile.
 *
 * glibc walks all its free blocks, and threads that call malloc meanwhile wait. How long that will
 * take is estimated first, from the decrease in the number of blocks since the last time.
 */
#ifndef MAYFLY_ALLOCATOR_H
#define MAYFLY_ALLOCATOR_H

#include "agent/agent.h"
#include "agent/spool.h"

HIDDEN extern _Atomic uint64_t allocator_next; /* ticks when it is due */

static inline bool allocator_due(uint64_t ticks)
{
	return UNLIKELY(ticks >= atomic_load_explicit(&allocator_next, memory_order_relaxed));
}

/* The program has `change` blocks more. Call it rarely: the count is shared by all threads. */
void allocator_blocks(int64_t change);

/* Asks and writes a record if it is due. Not between the RELEASE of a realloc and the record that
 * tells what became of the block. */
void allocator_look(struct writer *w, uint64_t ticks);

/* The last figures, when the program leaves by exit(). */
void allocator_end(struct writer *w);

/* In the child of a fork. */
void allocator_forked(void);

#endif
