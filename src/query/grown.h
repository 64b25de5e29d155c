/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What grew between two moments, by row:
 *
 *	live at `from`	 aaaaaaaaabbbbb
 *	live at `to`		  bbbbbcccccc	a: freed   c: survived, of what was allocated between
 *
 * A row changes by c - a. Blocks that were allocated and freed between the moments are in neither.
 */
#ifndef MAYFLY_GROWN_H
#define MAYFLY_GROWN_H

#include <mayfly/trace.h>

struct grown_row {
	const struct mayfly_row *key;
	struct mayfly_estimate before, survived, freed; /* as the query sorts: self or total */
	double change;					/* bytes */
};

struct grown {
	int64_t from_ns, to_ns;
	/* Sums over all rows; after is before, without freed, with survived. */
	struct mayfly_estimate before, after, survived, freed;
	size_t rows;
	const struct grown_row *row; /* the largest change first; those without one are left out */
};

/*
 * Between the window's ends, within the recording; metric and moment of the query are not used. What
 * is live at a moment includes what was allocated at it. 0 or a negative enum mayfly_error;
 * MAYFLY_E_ABSENT as for MAYFLY_LIVE at a time.
 */
int grown_run(const struct mayfly_trace *trace, const struct mayfly_query *query,
	      struct grown **grown);
void grown_free(struct grown *grown);

#endif
