/* SPDX-License-Identifier: Apache-2.0 */
/* Two answers from one pass over a trace, for callers that show both. */
#ifndef MAYFLY_QUERY_TWO_H
#define MAYFLY_QUERY_TWO_H

#include <mayfly/trace.h>

/* The two questions may differ only in the number of rows and in the grouping, which must be by
 * node; their sums are computed once. */
int query_run_two(const struct mayfly_trace *trace, const struct mayfly_query query[2],
		  struct mayfly_result *result[2]);

#endif
