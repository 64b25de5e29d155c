/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks through musl's functions: see musl_calls.c. */
#ifndef MAYFLY_MUSL_CALLS_H
#define MAYFLY_MUSL_CALLS_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/unwind/walk.h"

/* The state in the caller of the musl function that this thread is in at stack pointer sp. What is
 * above sp can be read up to high. False: not known. */
bool musl_find_caller(uintptr_t sp, uintptr_t high, struct walk_start *outside);

/* dlopen, for a hook that jumps here. */
void *musl_dlopen(const char *file, int mode);

#endif
