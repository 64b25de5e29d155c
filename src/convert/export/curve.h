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
 * few steps there are. If the trace cannot tell (for a query about only some blocks), it is the
 * larger value of both ends. All other figures are those at the end of the step.
 *
 * `peak` is the report's figure. In an exact trace it is the largest value of all steps; in a trace
 * of samples it is a little below or above that, as not all samples count at one moment.
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
	struct mayfly_series *series; /* the same moments, for the largest functions */
	struct mayfly_estimate peak;
	int64_t peak_ns;
};

/* Filters and window come from the query. rows: the number of functions. A trace without any
 * allocations has no steps, and no series. */
int curve_make(const struct mayfly_trace *trace, const struct mayfly_query *query, size_t steps,
	       size_t rows, struct curve *curve);
void curve_free(struct curve *curve);

/* The name of a row by function: the function, or its address if it is unknown. */
const char *curve_function_name(const struct mayfly_row *row, char *buffer, size_t size);
/* The same for a row of the series: names are distinct, and the row of all others has one too. */
const char *curve_row_name(const struct curve *curve, size_t row, char *buffer, size_t size);

#endif
