/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Size by lifetime: the blocks that a query keeps, in the classes of MAYFLY_BY_SIZE and
 * MAYFLY_BY_LIFETIME at once.
 *
 *	lifetime	10 us	100 us	1 ms	never freed
 *	33-64 bytes	 cell	 cell	 cell	  cell		| size[]
 *	65-128 bytes	 cell	 cell	 cell	  cell		|
 *	lifetime[]	 ----	 ----	 ----	  ----		  total
 */
#ifndef MAYFLY_HEAT_H
#define MAYFLY_HEAT_H

#include <mayfly/trace.h>

struct heat_class {
	int64_t low, high; /* as in struct mayfly_row */
	struct mayfly_estimate sum;
};

struct heat {
	int64_t time_ns; /* as in struct mayfly_result */
	struct mayfly_estimate total;
	/* Each from the first to the last class that has a block; if blocks are never freed, the last
	 * lifetime stands for them, and follows the others at once. */
	size_t sizes, lifetimes;
	const struct heat_class *size, *lifetime;
	const struct mayfly_estimate *cell; /* [sizes][lifetimes] */
};

/* `by` and `sort` of the query are not used. MAYFLY_E_ABSENT for traces of snapshots, and for those
 * that do not have sizes or lifetimes. */
int heat_run(const struct mayfly_trace *trace, const struct mayfly_query *query,
	     struct heat **heat);
void heat_free(struct heat *heat);

#endif
