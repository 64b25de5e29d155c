/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of CPython's own allocator, pymalloc: see pymalloc.c. */
#ifndef MAYFLY_PYMALLOC_H
#define MAYFLY_PYMALLOC_H

#include <stdbool.h>

/* PyMem_GetAllocator, PyMem_SetAllocator */
struct allocator;
typedef void pymalloc_exchange(int domain, struct allocator *allocator);

/* Puts the wrappers around the allocators, by the interpreter's functions; nothing where they are already,
 * or another allocator is around them. False: others are in place than when they were taken away. */
bool pymalloc_wrap(pymalloc_exchange *get, pymalloc_exchange *set);
/* Again, where they have been taken away since. */
void pymalloc_wrap_again(void);
/* Takes them away, unless another allocator has been put around them: those only forward while the agent is
 * off. */
void pymalloc_unwrap(void);

#endif
