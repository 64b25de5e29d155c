/* SPDX-License-Identifier: Apache-2.0 */
/* Answers that cost less than whole ones: several from one pass over a trace, and totals without rows. */
#ifndef MAYFLY_QUERY_TWO_H
#define MAYFLY_QUERY_TWO_H

#include <mayfly/trace.h>

/* The two questions may differ only in the number of rows and in the grouping, which must be by
 * node; their sums are computed once. */
int query_run_two(const struct mayfly_trace *trace, const struct mayfly_query query[2],
		  struct mayfly_result *result[2]);

/* The total of a question. It does not depend on the grouping; by node it is found fastest. */
int query_total(const struct mayfly_trace *trace, const struct mayfly_query *query,
		struct mayfly_estimate *total, int64_t *time_ns);

/* The totals of what is live (the question's metric) at each of these moments, in any order. The events of
 * an exact trace are read once. */
int query_live_totals(const struct mayfly_trace *trace, const struct mayfly_query *query,
		      const int64_t *at_ns, size_t moments, struct mayfly_estimate *total);

#endif
