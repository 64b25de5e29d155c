/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks of threads that have ended. The C library keeps them, with all that was on them, for threads that
 * begin later. That means nothing any more, so nobody may hold by it.
 *
 *	lists of thread descriptors:	used <-> ... <-> used		of threads that run
 *					user <-> first thread <-> user
 *					cache <-> ended <-> ended <-> cache
 *
 * The heads of the lists have no names that can be found, but lie side by side.
 */
#ifndef MAYFLY_ENDED_THREADS_H
#define MAYFLY_ENDED_THREADS_H

#include "picture/holder_list.h"

/* Claims them for nobody. False: out of memory. */
bool ended_threads_claim(struct holder_list *l, struct memory_source *s);

#endif
