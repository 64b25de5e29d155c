/* SPDX-License-Identifier: Apache-2.0 */
/* Two answers from one pass over a trace, for who shows both. */
#ifndef MAYFLY_QUERY_TWO_H
#define MAYFLY_QUERY_TWO_H

#include <mayfly/trace.h>

/* Two questions that differ in nothing but in the kind of rows, of those that are by node, and how
 * many: their sums are made once. */
int query_run_two(const struct mayfly_trace *trace, const struct mayfly_query query[2],
		  struct mayfly_result *result[2]);

#endif
