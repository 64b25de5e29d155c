/* SPDX-License-Identifier: Apache-2.0 */
/* top_stacks.c: the stacks of one row. */
#include "cli/top/top.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "answer/trace_names.h"

#define SEARCHED_STACKS 2000 /* the largest of an exact trace, which has very many */

static int matches_text(void *context, const char *text)
{
	return strcmp(context, text) == 0;
}

/* Whether a stack begins, at its leaf, with what the row is. */
static bool begins_with(enum mayfly_by by, const struct mayfly_row *stack,
			const struct mayfly_row *of)
{
	const struct mayfly_place *leaf = stack->stack;
	static char name[NAME_BYTES], leaf_name[NAME_BYTES];

	if (by == MAYFLY_BY_THREAD || by == MAYFLY_BY_LABEL)
		return true; /* the question has asked for it */
	if (!stack->stack_length)
		return false;
	if (by == MAYFLY_BY_MODULE)
		return strcmp(leaf->module, of->module) == 0;
	if (by == MAYFLY_BY_LINE && leaf->line != of->line)
		return false;
	return strcmp(row_function(name, sizeof(name), of),
		      place_function(leaf_name, sizeof(leaf_name), leaf)) == 0;
}

/* False: rows of this kind cannot be asked for. */
static bool restrict_to(const struct top *t, struct mayfly_query *q, const struct mayfly_row *of,
			char *text, size_t size)
{
	const struct mayfly_thread *thread = mayfly_trace_thread(t->r.file.trace, of->thread);

	switch (q->by) {
	case MAYFLY_BY_FUNCTION:
	case MAYFLY_BY_LINE:
		return true;
	case MAYFLY_BY_MODULE:
		q->fold = (struct mayfly_fold){0}; /* libraries are rows here */
		return true;
	case MAYFLY_BY_THREAD:
		snprintf(text, size, "%" PRIu32, thread ? thread->tid : 0);
		q->thread = (struct mayfly_match){matches_text, text};
		return thread != NULL;
	case MAYFLY_BY_LABEL:
		if (!q->label_key || !*of->function)
			return false;
		snprintf(text, size, "%s=%s", q->label_key, of->function);
		q->label = (struct mayfly_match){matches_text, text};
		return true;
	case MAYFLY_BY_STACK:
	case MAYFLY_BY_SIZE:
	case MAYFLY_BY_LIFETIME:
	case MAYFLY_BY_HEAP:
	case MAYFLY_BY_FREEING_THREAD:
	case MAYFLY_BY_THREADS:
	case MAYFLY_BY_HOLDER:
	case MAYFLY_BY_TYPE:
		break;
	}
	return false;
}

int top_stacks_ask(struct top *t, const struct mayfly_row *of, struct top_stacks *s)
{
	struct mayfly_query q = top_column_query(t, t->facts.sorted);
	enum mayfly_by by = q.by;
	static char text[NAME_BYTES];
	int error;

	*s = (struct top_stacks){0};
	if (!restrict_to(t, &q, of, text, sizeof(text)))
		return MAYFLY_E_ABSENT;
	q.by = MAYFLY_BY_STACK;
	q.stack_rows = report_stacks_needed(&t->r, SEARCHED_STACKS);
	error = mayfly_query_run(t->r.file.trace, &q, &s->result);
	if (error)
		return error;
	s->row = calloc(s->result->rows + 1, sizeof(*s->row));
	if (!s->row) {
		top_stacks_free(s);
		return MAYFLY_E_MEMORY;
	}
	for (size_t i = 0; i < s->result->rows; i++)
		if (s->result->row[i].self.bytes.estimate > 0 &&
		    begins_with(by, &s->result->row[i], of))
			s->row[s->rows++] = &s->result->row[i];
	return 0;
}

void top_stacks_free(struct top_stacks *s)
{
	mayfly_result_free(s->result);
	free(s->row);
	*s = (struct top_stacks){0};
}
