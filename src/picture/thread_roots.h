/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What threads hold: the words of their stacks, by function, their registers, and their thread-local
 * variables. Below a stack pointer, and on the stacks of threads that have ended, nothing is looked at.
 *
 *	 mapping of a thread's stack
 *	| not used | frame of f | of g | of its start | ... thread-local blocks | what libc keeps of it |
 *	           ^ stack pointer                                              ^ thread pointer
 */
#ifndef MAYFLY_THREAD_ROOTS_H
#define MAYFLY_THREAD_ROOTS_H

#include "picture/holder_list.h"
#include "symbols/symbols.h"

/* False: out of memory. */
bool thread_roots_find(struct holder_list *l, struct memory_source *s,
		       const struct loaded_modules *m, struct demangle *names,
		       struct symbols *functions);

#endif
