/* SPDX-License-Identifier: Apache-2.0 */
/* What changed from the base to the trace. */
#include "answer/summary_changes.h"
#include "view/answers.h"

/* The changes of the traces as a whole. */
int view_changes(struct request *r, struct json *j)
{
	const struct mayfly_trace *base = r->view->base;
	struct json_diff c = {
	    .before = base, .after = r->trace, .query = &r->q.query, .per = {1, 1}};

	if (!base)
		return MAYFLY_E_RANGE;
	c.absent = r->info->absent | mayfly_trace_info(base)->absent;
	return json_summary_changes(j, &c);
}

int view_diff(struct request *r, struct json *j)
{
	const struct mayfly_trace *base = r->view->base;
	struct trace_diff *d;
	struct json_diff c;
	int error;

	if (!base)
		return MAYFLY_E_RANGE;
	c = (struct json_diff){.before = base,
			       .after = r->trace,
			       .query = &r->q.query,
			       .per = {1, 1},
			       .absent = r->info->absent | mayfly_trace_info(base)->absent};
	error = trace_diff_run(base, r->trace, &r->q.query, c.per, &d);
	if (error)
		return error;
	error = json_diff(j, &c, d, r->top);
	trace_diff_free(d);
	return error;
}
