/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The labels of each node's blocks: shares of the sums of one or two queries, for formats that show
 * labels with stacks.
 *
 *	node 7: 3 MiB	{request=page} 2 MiB   {request=search} 1 MiB	shares 2/3 and 1/3
 *
 * The sums come from the queries; only the shares are computed here, from the weights of the blocks
 * that the queries are about.
 */
#ifndef MAYFLY_LABEL_SUMS_H
#define MAYFLY_LABEL_SUMS_H

#include "answer/shown_stacks.h"
#include "base/interner.h"

struct label_weights {
	double bytes, blocks;
};

struct label_sum {
	uint32_t node, set;
	struct label_weights of[STACK_COLUMNS]; /* as in struct stack_sums */
};

struct label_sums {
	struct label_sum *sum; /* by ascending node, then set */
	size_t count, room;
	size_t at; /* position of label_sums_of() */
	struct interner pairs;
};

/* asked: the queries of the columns, whose answers are in `sums`. 0 or a negative enum
 * mayfly_error; call label_sums_end() in both cases. Not for snapshots. */
int label_sums_begin(struct label_sums *l, const struct mayfly_trace *trace,
		     const struct mayfly_query *const asked[STACK_COLUMNS],
		     const struct stack_sums *sums);
void label_sums_end(struct label_sums *l);

/* The sets of a node, an array of *count. Call it with ascending nodes. */
const struct label_sum *label_sums_of(struct label_sums *l, uint32_t node, size_t *count);

#endif
