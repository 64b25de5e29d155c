/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks of the program's own allocators (mayfly/mayfly.h, MAYFLY_POOL): sampled by the same
 * countdown and kept in the same table as those of malloc. As a pool's block may begin where a
 * block of malloc does, its address is marked by a bit that no address of a program has.
 */
#ifndef MAYFLY_POOLS_H
#define MAYFLY_POOLS_H

#include <stddef.h>

#include "mayfly/mayfly.h"

void pools_alloc(const struct mayfly_pool *pool, const void *block, size_t size);
void pools_free(const struct mayfly_pool *pool, const void *block);

#endif
