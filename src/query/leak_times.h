/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When leaks arose: for each of the first rows of a question its live bytes over time, the first and
 * the last allocation of a block that was never freed, and whether it still grew at the end.
 *
 *	live		     ___,--'	growing: its live bytes rose in both of the last quarters
 *		 ___,---'---'
 *	     ---'	     |	|
 *	     first	  last  end	growth: what the second half of the time added, a second
 */
#ifndef MAYFLY_LEAK_TIMES_H
#define MAYFLY_LEAK_TIMES_H

#include <mayfly/trace.h>

#define LEAK_TIMES_POINTS 64u /* of a curve: a multiple of 4 */

struct leak_time {
	int64_t first_ns, last_ns; /* -1: no single blocks are known */
	double growth;		   /* bytes a second; negative: it shrank */
	bool growing;
	const double *live_bytes; /* [LEAK_TIMES_POINTS] */
};

struct leak_times {
	const int64_t *time_ns; /* [LEAK_TIMES_POINTS] */
	size_t rows;
	const struct leak_time *row; /* as mayfly_query_run() sorts them */
};

/* At most so many rows. MAYFLY_E_ABSENT: the trace has no times, or does not know what is live. */
int leak_times_run(const struct mayfly_trace *trace, const struct mayfly_query *query, size_t rows,
		   struct leak_times **times);
void leak_times_free(struct leak_times *times);

#endif
