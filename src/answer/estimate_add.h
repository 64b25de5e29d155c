/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of estimates whose sets of blocks are disjoint, such as what rows allocate themselves. */
#ifndef MAYFLY_ESTIMATE_ADD_H
#define MAYFLY_ESTIMATE_ADD_H

#include <mayfly/trace.h>

/* A sum without samples is replaced. */
void estimate_add(struct mayfly_estimate *sum, const struct mayfly_estimate *e);

#endif
