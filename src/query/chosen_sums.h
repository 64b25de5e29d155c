/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sums of sets of stacks that the caller chooses, without names, rows and quantiles: for callers with
 * names of their own, and very many stacks.
 *
 *	node with blocks ── set_of() ──> number of a set ──> its sum
 */
#ifndef MAYFLY_CHOSEN_SUMS_H
#define MAYFLY_CHOSEN_SUMS_H

#include "query/estimate.h"

#define CHOSEN_NO_MEMORY UINT32_MAX

struct chosen_sums {
	struct tally_brief total;
	struct tally_brief *of; /* by number of the set; all zero: it has no blocks */
	size_t count;		/* those above have none */
};

/* set_of: the set that a node of the tree is in, or CHOSEN_NO_MEMORY. The grouping of the question does not
 * count. 0 or a negative enum mayfly_error; then *sums is empty. */
int chosen_sums_run(const struct mayfly_trace *trace, const struct mayfly_query *query,
		    uint32_t (*set_of)(void *context, uint32_t node), void *context,
		    struct chosen_sums *sums);
void chosen_sums_free(struct chosen_sums *sums);

#endif
