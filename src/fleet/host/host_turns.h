/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In which order processes are pushed, so that no user makes the others wait: the first one of each user,
 * then the second one of each, and so on; those of a user that have waited longest come first. A user with few
 * processes is done early in each round, and one with hundreds gets what is left of it.
 */
#ifndef MAYFLY_HOST_TURNS_H
#define MAYFLY_HOST_TURNS_H

#include "fleet/host/host_process.h"

/* `count` processes, for the caller to free; NULL: out of memory. */
struct host_process **host_turns(struct host_process *const *process, size_t count);

#endif
