/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What sampling would give: from the events of an exact trace, the number of samples and the
 * standard errors to expect at each interval.
 *
 * Nothing is simulated. Both samplers have a variance that follows from the sequence of allocations
 * (doc/INTERNALS.md, "Planning"). The result is the true standard error over repeated sampling of
 * this very sequence; for the stratified sampler it is correct to some percent.
 */
#ifndef MAYFLY_PLAN_H
#define MAYFLY_PLAN_H

#include <mayfly/trace.h>

#define PLAN_FIRST_LOG2 12 /* 4 KiB */
#define PLAN_LEVELS	13 /* up to 16 MiB */
#define PLAN_ROWS	20 /* at most 30: rows are bits of a word */

/* Rows with less than this share of the first row's bytes are left out. */
#define PLAN_LEAST_SHARE 0.01

/* One interval with one sampler, without a sample budget. Variances are of estimates of bytes. */
struct plan_scheme {
	double samples; /* expected; includes blocks recorded because of their size */
	double allocated_variance, peak_variance;
	double row_variance[PLAN_ROWS];
};

struct plan {
	uint64_t blocks, allocated_bytes;
	uint64_t peak_blocks, peak_bytes;
	int64_t peak_ns;
	const struct mayfly_result *result; /* the query's answer, freed with the plan */
	size_t rows;
	uint64_t row_bytes[PLAN_ROWS];		   /* exact bytes of the query's rows */
	struct plan_scheme scheme[PLAN_LEVELS][2]; /* [..][enum mayfly_sampler] */
};

/*
 * The query must have the metric PEAK or ALLOCATED and no filter except `hide`, and its rows must not
 * depend on how blocks end. The plan covers the first PLAN_ROWS rows of its answer: their `self`, or
 * with MAYFLY_SORT_TOTAL their `total`. MAYFLY_E_RANGE for another query, MAYFLY_E_ABSENT when the
 * trace is not exact.
 */
int plan_make(const struct mayfly_trace *trace, const struct mayfly_query *query,
	      struct plan **plan);
void plan_free(struct plan *plan);

#endif
