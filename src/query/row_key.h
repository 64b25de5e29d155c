/* SPDX-License-Identifier: Apache-2.0 */
/* Which rows of two answers to one trace are the same: those whose keys are equal. */
#ifndef MAYFLY_ROW_KEY_H
#define MAYFLY_ROW_KEY_H

#include <mayfly/trace.h>

/*
 * For each row of `a` the index of the row of `b` with its key, or SIZE_MAX; the caller frees the
 * array. NULL: out of memory. Both answers are of one trace and one grouping.
 */
size_t *rows_pair(const struct mayfly_row *a, size_t a_rows, const struct mayfly_row *b,
		  size_t b_rows, enum mayfly_by by);

#endif
