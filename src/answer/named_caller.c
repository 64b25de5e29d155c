/* SPDX-License-Identifier: Apache-2.0 */
/* Callers that have a name: see named_caller.h. */
#include "answer/named_caller.h"

#include <stdlib.h>
#include <string.h>

#define SEARCHED_STACKS 4096u /* the largest */

/* A row of an unknown function has one place, which stands for its frame. */
static bool is_unnamed(const struct mayfly_row *row)
{
	return row->stack_length && !*row->stack[0].function &&
	       row->stack[0].kind == MAYFLY_FRAME_CODE;
}

static bool is_same_place(const struct mayfly_place *a, const struct mayfly_place *b)
{
	return a->address == b->address && !*b->function && strcmp(a->module, b->module) == 0;
}

static const char *caller_in(const struct mayfly_row *stack)
{
	for (size_t i = 1; i < stack->stack_length; i++)
		if (*stack->stack[i].function && stack->stack[i].kind == MAYFLY_FRAME_CODE)
			return stack->stack[i].function;
	return NULL;
}

static int find_callers(const struct mayfly_trace *trace, const struct mayfly_query *query,
			const struct mayfly_row *const *row, size_t rows, const char **caller)
{
	struct mayfly_query q = *query;
	struct mayfly_result *result;
	int error;

	q.metric = MAYFLY_ALLOCATED;
	q.by = MAYFLY_BY_STACK;
	q.sort = MAYFLY_SORT_SELF;
	q.from_ns = 0;
	q.to_ns = INT64_MAX;
	q.stack_rows = SEARCHED_STACKS;
	error = mayfly_query_run(trace, &q, &result);
	if (error)
		return error;
	for (size_t i = 0; i < result->rows; i++)
		for (size_t k = 0; k < rows; k++)
			if (!caller[k] && is_unnamed(row[k]) && result->row[i].stack_length &&
			    is_same_place(&row[k]->stack[0], &result->row[i].stack[0]))
				caller[k] = caller_in(&result->row[i]);
	mayfly_result_free(result);
	return 0;
}

const char **named_callers(const struct mayfly_trace *trace, const struct mayfly_query *query,
			   const struct mayfly_row *const *row, size_t rows)
{
	const char **caller = calloc(rows + 1, sizeof(*caller));
	bool unnamed = false;

	for (size_t i = 0; i < rows; i++)
		unnamed |= is_unnamed(row[i]);
	if (caller && unnamed && find_callers(trace, query, row, rows, caller)) {
		free(caller);
		caller = NULL;
	}
	return caller;
}
