/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of CPython's own allocator, pymalloc: see pymalloc.c. */
#ifndef MAYFLY_PYMALLOC_H
#define MAYFLY_PYMALLOC_H

/* PyMem_GetAllocator, PyMem_SetAllocator */
struct allocator;
typedef void pymalloc_exchange(int domain, struct allocator *allocator);

/* Puts the wrappers around the allocators, by the interpreter's functions. */
void pymalloc_wrap(pymalloc_exchange *get, pymalloc_exchange *set);
/* Again, where they have been taken away since. */
void pymalloc_wrap_again(void);
/* Takes them away, unless another allocator has been put around them. */
void pymalloc_unwrap(void);

#endif
