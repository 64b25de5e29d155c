/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The heap over time, for formats that draw it:
 *
 *	bytes                 ___* peak (a point of its own)
 *	          ___________|   |___
 *	   ______|                   |______
 *	  |  step  |  step  |  step  |  step  |
 *	  t0       t1       t2       t3       t4
 *
 * `largest` of a step is the most that was live at any time in it, so that no spike is lost however
 * few steps there are; where the trace cannot say (a question about a part of the blocks), it is
 * the larger one of both ends. What is live and was allocated in all stands at the end of each
 *step.
 */
#ifndef MAYFLY_CURVE_H
#define MAYFLY_CURVE_H

#include <mayfly/trace.h>

struct curve_step {
	int64_t from_ns, to_ns;
	double largest;				  /* live bytes */
	double live_bytes, live_blocks;		  /* at to_ns */
	double allocated_bytes, allocated_blocks; /* up to to_ns */
};

struct curve {
	size_t steps;
	struct curve_step *step;
	struct mayfly_series *series; /* the same moments, by the functions that have the most */
	struct mayfly_estimate peak;
	int64_t peak_ns;
};

/* Filters and window are the query's. rows: how many functions. Of a trace without any allocations
 * there are no steps, and no series. */
int curve_make(const struct mayfly_trace *trace, const struct mayfly_query *query, size_t steps,
	       size_t rows, struct curve *curve);
void curve_free(struct curve *curve);

/* What a row by function is called: the function, or its address when that is unknown. */
const char *curve_function_name(const struct mayfly_row *row, char *buffer, size_t size);
/* The same for a row of the series: distinct, and one for the others. */
const char *curve_row_name(const struct curve *curve, size_t row, char *buffer, size_t size);

#endif
