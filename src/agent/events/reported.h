/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks that the program's own allocator reports (mayfly/mayfly.h, mayfly_allocator_...): recorded
 * as if malloc had handed them out.
 */
#ifndef MAYFLY_REPORTED_H
#define MAYFLY_REPORTED_H

#include "mayfly/mayfly.h"

extern const struct mayfly_agent_allocator mayfly_agent_allocator;

#endif
