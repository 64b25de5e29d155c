/* SPDX-License-Identifier: Apache-2.0 */
/* Functions without a name are told apart by whom they are called from. */
#ifndef MAYFLY_NAMED_CALLER_H
#define MAYFLY_NAMED_CALLER_H

#include <mayfly/trace.h>

/*
 * For each row by function or by stack without a name: the nearest caller that has one, on the stack
 * where it allocated the most; NULL for all other rows. The names are the trace's; the caller frees
 * the array. NULL: out of memory, or the trace cannot answer.
 */
const char **named_callers(const struct mayfly_trace *trace, const struct mayfly_query *query,
			   const struct mayfly_row *const *row, size_t rows);

#endif
