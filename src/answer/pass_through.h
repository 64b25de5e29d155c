/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows that hold nearly everything only through one another, on the way from the entry. Ranked by
 * total, they would fill the first screen:
 *
 *	_start, __libc_start_main, main, run     pass-through: the next one holds it, too
 *	load				99 %	 the innermost: kept
 *	  index, parse			60, 38 %
 */
#ifndef MAYFLY_PASS_THROUGH_H
#define MAYFLY_PASS_THROUGH_H

#include <mayfly/trace.h>

/* For each row of an answer by function or line whether it only passes on; the caller frees the
 * array. NULL: *error is not 0. */
bool *find_pass_through(const struct mayfly_trace *trace, const struct mayfly_query *query,
			const struct mayfly_result *result, int *error);

#endif
