/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of CPython's own allocator, pymalloc: see pymalloc.c. */
#ifndef MAYFLY_PYMALLOC_H
#define MAYFLY_PYMALLOC_H

#include <stdbool.h>

/* Puts the wrappers around the allocators. With `again`, only if they have been taken away since.
 * The interpreter is not initialised yet, or its lock is held. */
void pymalloc_wrap(bool again);
/* Takes them away, unless another allocator has been put around them. */
void pymalloc_unwrap(void);

#endif
