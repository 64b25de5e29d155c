/* SPDX-License-Identifier: Apache-2.0 */
/* Rows: tables, series, histograms, leaks. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "answer/json_parts.h"
#include "answer/json_views.h"
#include "answer/suppressions.h"
#include "answer/trace_facts.h"
#include "query/grouping.h"
#include "view/answers.h"

/* How many rows the question must give: r->skip and the r->top after them; 0: all. */
static size_t rows_needed(const struct request *r)
{
	return !r->top || r->top > SIZE_MAX - r->skip ? 0 : r->skip + r->top;
}

/* An exact trace has very many stacks. */
static void limit_stacks(struct request *r)
{
	r->q.query.stack_rows = trace_is_exact(r->info) ? rows_needed(r) : 0;
}

static void put_rows(struct json *j, const struct request *r, const struct mayfly_result *result)
{
	size_t end = rows_needed(r);

	json_unsigned(j, "rows_count", result->all_rows);
	json_array(j, "rows");
	for (size_t i = r->skip; i < result->rows && (!end || i < end); i++) {
		json_object(j, NULL);
		json_row(j, r->trace, r->q.query.by, &result->row[i]);
		json_end(j);
	}
	json_end(j);
}

int view_rows(struct request *r, struct json *j)
{
	struct mayfly_result *result;
	int error;

	limit_stacks(r);
	error = mayfly_query_run(r->trace, &r->q.query, &result);
	if (error)
		return error;
	json_question(j, &r->q.query, true);
	json_integer(j, "time_ns", result->time_ns);
	json_estimate(j, "total", &result->total);
	put_rows(j, r, result);
	mayfly_result_free(result);
	return 0;
}

int view_leaks(struct request *r, struct json *j)
{
	struct suppressions s = {0};
	struct suppression_line bad;
	struct mayfly_query unsuppressed;
	int error = MAYFLY_E_MEMORY;

	r->q.query.metric = MAYFLY_LEAKED;
	if (!r->q.by_given)
		r->q.query.by = MAYFLY_BY_STACK;
	unsuppressed = r->q.query;
	if (!r->q.query.ignore.matches) {
		if (!suppressions_add(&s, suppressions_default, strlen(suppressions_default), NULL,
				      &bad))
			goto done;
		r->q.query.ignore = suppressions_match(&s);
	}
	error = view_rows(r, j);
	if (!error && s.count)
		error = suppressions_account(&s, r->trace, &unsuppressed);
	if (!error)
		json_suppressed(j, "suppressed", &s);
done:
	suppressions_free(&s);
	return error;
}

/* Everything, over the whole time: the counters of the trace suffice. */
static int put_whole_curve(struct request *r, struct json *j)
{
	double *live = malloc(r->points * sizeof(*live));
	int error = live ? mayfly_timeline(r->trace, r->points, live) : MAYFLY_E_MEMORY;

	if (!error) {
		json_array(j, "times_ns");
		for (size_t i = 0; i < r->points; i++)
			json_integer(j, NULL,
				     llround((double)r->info->duration_ns * (double)(i + 1) /
					     (double)r->points));
		json_end(j);
		json_rounded_all(j, "live_bytes", live, r->points);
	}
	free(live);
	return error;
}

/* What the filters keep: a series without rows but the last. */
int view_curve(struct request *r, struct json *j)
{
	struct mayfly_series *s;
	int error;

	if (!r->q.chooses_blocks && !r->q.window_given)
		return put_whole_curve(r, j);
	if (!(grouping_of(r->q.query.by).flags & GROUPING_BY_NODE))
		r->q.query.by = MAYFLY_BY_FUNCTION;
	error = mayfly_series_run(r->trace, &r->q.query, r->points, 0, &s);
	if (error)
		return error;
	json_array(j, "times_ns");
	for (size_t i = 0; i < s->points; i++)
		json_integer(j, NULL, s->time_ns[i]);
	json_end(j);
	json_rounded_all(j, "live_bytes", s->live_bytes, s->points);
	mayfly_series_free(s);
	return 0;
}

int view_series(struct request *r, struct json *j)
{
	struct mayfly_series *s;
	int error;

	limit_stacks(r);
	error = mayfly_series_run(r->trace, &r->q.query, r->points, r->top ? r->top : SIZE_MAX, &s);
	if (error)
		return error;
	json_series(j, r->trace, &r->q.query, s);
	mayfly_series_free(s);
	return 0;
}

int view_histogram(struct request *r, struct json *j)
{
	enum mayfly_by classes = r->classes ? MAYFLY_BY_LIFETIME : MAYFLY_BY_SIZE;
	struct mayfly_histogram *h;
	int error;

	limit_stacks(r);
	error =
	    mayfly_histogram_run(r->trace, &r->q.query, classes, r->top ? r->top : SIZE_MAX, &h);
	if (error)
		return error;
	json_histogram(j, r->trace, &r->q.query, classes, h);
	mayfly_histogram_free(h);
	return 0;
}
