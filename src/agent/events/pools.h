/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks of the program's own allocators (mayfly/mayfly.h, MAYFLY_POOL): on the same line of bytes
 * as those of malloc, with the same table of what is live. Their address has a bit that no address
 * of a program has, as a pool's block may begin where a block of malloc does.
 */
#ifndef MAYFLY_POOLS_H
#define MAYFLY_POOLS_H

#include <stddef.h>

#include "mayfly/mayfly.h"

void pools_alloc(const struct mayfly_pool *pool, const void *block, size_t size);
void pools_free(const struct mayfly_pool *pool, const void *block);

#endif
