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

#include "agent/real.h"

/* The allocator's own functions. */
HIDDEN extern struct real nested_own;

/* Remembers the functions found. Puts guards around them, unless the allocator is known to need none. */
void nested_guard(struct real *found);

#endif
