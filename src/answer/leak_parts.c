/* SPDX-License-Identifier: Apache-2.0 */
/* What was lost, what was held, and what came later: see leak_parts.h. */
#include "answer/leak_parts.h"

#include "query/grouping.h"

const struct mayfly_picture *leak_parts_picture(const struct mayfly_trace *trace,
						const struct mayfly_query *query)
{
	if (query->min_lifetime_ns > 0 || query->max_lifetime_ns < INT64_MAX ||
	    grouping_of(query->by).flags & GROUPING_BY_FATE)
		return NULL;
	return mayfly_trace_picture(trace);
}

void leak_parts_begin(struct leak_parts *parts, const struct mayfly_query *query,
		      struct mayfly_match ignored, const struct mayfly_picture *picture)
{
	struct mayfly_query *later = &parts->later_query;

	*parts = (struct leak_parts){.lost_query = *query, .later_query = *query};
	parts->lost_query.metric = MAYFLY_IN_PICTURE;
	parts->lost_query.holding = MAYFLY_ONLY_LOST;
	parts->held_query = parts->lost_query;
	parts->held_query.by = MAYFLY_BY_HOLDER;
	parts->held_query.holding = MAYFLY_ONLY_HELD;
	parts->held_query.ignore = ignored;
	if (later->from_ns <= picture->time_ns)
		later->from_ns = picture->time_ns + 1;
	if (later->to_ns < later->from_ns)
		later->to_ns = later->from_ns;
}

int leak_parts_ask(struct leak_parts *parts, const struct mayfly_trace *trace)
{
	int error = mayfly_query_run(trace, &parts->lost_query, &parts->lost);

	if (!error)
		error = mayfly_query_run(trace, &parts->held_query, &parts->held);
	if (!error && !(mayfly_trace_info(trace)->absent & MAYFLY_ABSENT_TIMES))
		error = mayfly_query_run(trace, &parts->later_query, &parts->later);
	return error;
}

void leak_parts_free(struct leak_parts *parts)
{
	mayfly_result_free(parts->lost);
	mayfly_result_free(parts->held);
	mayfly_result_free(parts->later);
}
