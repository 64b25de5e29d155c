/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows over time whose choice depends on what is shown: mayfly_series_run() in <mayfly/trace.h>
 * explains the rest.
 */
#ifndef MAYFLY_SERIES_H
#define MAYFLY_SERIES_H

#include <mayfly/trace.h>

#include "query/live_curve.h"

/*
 * As mayfly_series_run(), but with the metric PEAK, the default, rows are sorted by the largest of
 * their own live bytes at the moments that are shown. So what filled the heap after the peak, or in
 * a window without it, has a row, too. Its self and total are still those of the peak.
 *
 * point: the moments, which ascend: those of live_curve_points(), so that all rows together go
 * through the least and the most of each step. NULL: `points` evenly spaced ones.
 */
int series_run_largest(const struct mayfly_trace *trace, const struct mayfly_query *query,
		       const struct live_point *point, size_t points, size_t rows,
		       struct mayfly_series **series);

#endif
