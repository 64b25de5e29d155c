/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What sampling would give: from the events of an exact trace, the number of samples and the
 * standard errors to expect at each interval.
 *
 * Nothing is simulated. Both samplers have a variance that can be written down when the whole
 * sequence of allocations is known (doc/INTERNALS.md, "Planning"), so what comes out is the true
 * standard error over repeated sampling of just this sequence; of the stratified sampler to some
 * percent.
 */
#ifndef MAYFLY_PLAN_H
#define MAYFLY_PLAN_H

#include <mayfly/trace.h>

#define PLAN_FIRST_LOG2 12 /* 4 KiB */
#define PLAN_LEVELS	13 /* up to 16 MiB */
#define PLAN_ROWS	20 /* at most 30: a row is a bit */

/* Rows with less than this share of the first one's bytes are not planned for. */
#define PLAN_LEAST_SHARE 0.01

/* One interval under one sampler, without a budget. Variances are of estimates of bytes. */
struct plan_scheme {
	double samples; /* expected, blocks that are recorded for their size too */
	double allocated_variance, peak_variance;
	double row_variance[PLAN_ROWS];
};

struct plan {
	uint64_t blocks, allocated_bytes;
	uint64_t peak_blocks, peak_bytes;
	int64_t peak_ns;
	size_t rows;
	uint64_t row_bytes[PLAN_ROWS];		   /* as the query's rows have them */
	struct plan_scheme scheme[PLAN_LEVELS][2]; /* [..][enum mayfly_sampler] */
};

/*
 * result: what mayfly_query_run() answered to `query`, whose metric is PEAK or ALLOCATED, which
 * has no filters but `hide`, and is not BY_LIFETIME. Its first PLAN_ROWS rows are planned for:
 * their `self`, or with MAYFLY_SORT_TOTAL their `total`. MAYFLY_E_RANGE for another query,
 * MAYFLY_E_ABSENT when the trace is not exact.
 */
int plan_make(const struct mayfly_trace *trace, const struct mayfly_query *query,
	      const struct mayfly_result *result, struct plan *plan);

#endif
