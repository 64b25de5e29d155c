/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows over time whose choice depends on what is shown: mayfly_series_run() in <mayfly/trace.h>
 * explains the rest.
 */
#ifndef MAYFLY_SERIES_H
#define MAYFLY_SERIES_H

#include <mayfly/trace.h>

/*
 * As mayfly_series_run(), but with the metric PEAK, the default, rows are sorted by the largest of
 * their own live bytes at the moments that are shown. So what filled the heap after the peak, or in
 * a window without it, has a row, too. Its self and total are still those of the peak.
 */
int series_run_largest(const struct mayfly_trace *trace, const struct mayfly_query *query,
		       size_t points, size_t rows, struct mayfly_series **series);

#endif
