/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that hold nearly everything through one another: see pass_through.h. */
#include "answer/pass_through.h"

#include <stdlib.h>
#include <string.h>

#include "query/calls_tree.h"

#define NEARLY_ALL 0.95 /* so that at most one callee of each node has as much */

static bool is_place(const struct mayfly_row *row, const struct mayfly_place *p, bool by_line)
{
	if (strcmp(row->function, p->function) != 0)
		return false;
	if (!*row->function)
		return row->stack_length && row->stack[0].address == p->address &&
		       strcmp(row->module, p->module) == 0;
	return !by_line || (row->line == p->line && strcmp(row->file, p->file) == 0);
}

bool *find_pass_through(const struct mayfly_trace *trace, const struct mayfly_query *query,
			const struct mayfly_result *result, int *error)
{
	const struct calls_options options = {
	    .fold = true, .least = NEARLY_ALL, .by_line = query->by == MAYFLY_BY_LINE};
	bool *passes;
	struct calls *c;

	*error = calls_run(trace, query, &options, &c);
	if (*error)
		return NULL;
	passes = calloc(result->rows + 1, sizeof(*passes));
	if (!passes)
		*error = MAYFLY_E_MEMORY;
	/* The nodes are one path, and what is too small beside it. */
	for (size_t i = 1; passes && i + 1 < c->nodes && c->node[0].total > 0; i++) {
		const struct calls_node *n = &c->node[i], *next = &c->node[i + 1];

		if (n->place == CALLS_NONE || next->place == CALLS_NONE || next->depth <= n->depth)
			break;
		for (size_t k = 0; k < result->rows; k++)
			passes[k] |=
			    is_place(&result->row[k], &c->place[n->place], options.by_line);
	}
	calls_free(c);
	return passes;
}
