/* SPDX-License-Identifier: Apache-2.0 */
/* Rows: tables, series, histograms, leaks. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "answer/json_parts.h"
#include "answer/json_views.h"
#include "answer/leak_parts.h"
#include "answer/named_caller.h"
#include "answer/suppressions.h"
#include "answer/trace_facts.h"
#include "query/grown.h"
#include "query/leak_times.h"
#include "query/live_curve.h"
#include "query/series.h"
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
	JSON_ROWS_WHERE(j, "rows", i, i < result->rows && (!end || i < end), i >= r->skip)
		json_row(j, r->trace, r->q.query.by, &result->row[i]);
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

/* One for each row, in their order; null where the trace has no times. */
static int put_leak_times(struct request *r, struct json *j)
{
	size_t rows = rows_needed(r);
	struct leak_times *times;
	int error = leak_times_run(r->trace, &r->q.query, rows ? rows : SIZE_MAX, &times);

	if (error == MAYFLY_E_ABSENT) {
		json_null(j, "over_time");
		return 0;
	}
	if (error)
		return error;
	json_object(j, "over_time");
	JSON_LIST(j, "times_ns", i, i < LEAK_TIMES_POINTS,
		  json_integer(j, NULL, times->time_ns[i]));
	JSON_ROWS_WHERE(j, "rows", i, i < times->rows, i >= r->skip) {
		const struct leak_time *row = &times->row[i];
		bool known = row->first_ns >= 0;

		json_bound(j, "first_ns", known ? row->first_ns : INT64_MAX);
		json_bound(j, "last_ns", known ? row->last_ns : INT64_MAX);
		json_real(j, "growth", row->growth);
		json_bool(j, "growing", row->growing);
		json_rounded_all(j, "live_bytes", row->live_bytes, LEAK_TIMES_POINTS);
	}
	json_end(j);
	leak_times_free(times);
	return 0;
}

static int put_all_leaks(struct request *r, struct json *j)
{
	int error = view_rows(r, j);

	return error ? error : put_leak_times(r, j);
}

static void put_leak_part(struct json *j, struct request *r, const char *key,
			  const struct mayfly_query *query, const struct mayfly_result *result)
{
	r->q.query = *query;
	json_object(j, key);
	json_text(j, "by", by_names[query->by]);
	json_estimate(j, "total", &result->total);
	put_rows(j, r, result);
	json_end(j);
}

static int put_leak_parts(struct request *r, struct json *j, struct mayfly_match ignored,
			  const struct mayfly_picture *p)
{
	struct leak_parts parts;
	int error;

	limit_stacks(r);
	leak_parts_begin(&parts, &r->q.query, ignored, p);
	error = leak_parts_ask(&parts, r->trace);
	if (!error) {
		json_text(j, "metric", metric_names[MAYFLY_IN_PICTURE]);
		json_integer(j, "time_ns", parts.lost->time_ns);
		put_leak_part(j, r, "held", &parts.held_query, parts.held);
		put_leak_part(j, r, "lost", &parts.lost_query, parts.lost);
		if (parts.later)
			json_estimate(j, "allocated_later", &parts.later->total);
		else
			json_null(j, "allocated_later");
	}
	leak_parts_free(&parts);
	return error;
}

/* Afterwards, the question is the one whose answer is without what is suppressed. */
static int put_leaks(struct request *r, struct json *j, struct mayfly_match ignored)
{
	const struct mayfly_picture *p = leak_parts_picture(r->trace, &r->q.query);

	if (p)
		return put_leak_parts(r, j, ignored, p);
	return question_asks_picture(&r->q) ? MAYFLY_E_ABSENT : put_all_leaks(r, j);
}

int view_leaks(struct request *r, struct json *j)
{
	struct suppressions s = {.also = r->q.query.ignore};
	struct suppression_line bad;
	int error = MAYFLY_E_MEMORY;

	if (!question_asks_picture(&r->q))
		r->q.query.metric = MAYFLY_LEAKED;
	if (!r->q.by_given)
		r->q.query.by = MAYFLY_BY_STACK;
	if (!suppressions_add(&s, suppressions_default, strlen(suppressions_default), NULL, &bad))
		goto done;
	r->q.query.ignore = suppressions_match(&s);
	error = put_leaks(r, j, s.also);
	if (!error)
		error = suppressions_account(&s, r->trace, &r->q.query);
	if (!error)
		json_suppressed(j, "suppressed", &s);
	if (!error && r->info->python_end_ns && !r->info->snapshot_ns)
		json_integer(j, "python_end_ns", r->info->python_end_ns);
done:
	suppressions_free(&s);
	return error;
}

/* The moments with the least and the most live bytes in each step. */
static int find_extremes(const struct request *r, struct live_point **point, size_t *points)
{
	struct live_step *step = calloc(r->points, sizeof(*step));
	int error;

	*points = 0;
	*point = calloc(r->points, 2 * sizeof(**point));
	error = step && *point ? live_curve_run(r->trace, &r->q.query, r->points, step)
			       : MAYFLY_E_MEMORY;
	if (!error)
		*points = live_curve_points(step, r->points, *point);
	free(step);
	return error;
}

int view_curve(struct request *r, struct json *j)
{
	struct live_point *point;
	size_t points;
	int error = find_extremes(r, &point, &points);

	if (!error) {
		JSON_LIST(j, "times_ns", i, i < points, json_integer(j, NULL, point[i].at.time_ns));
		JSON_LIST(j, "live_bytes", i, i < points, json_rounded(j, NULL, point[i].bytes));
	}
	free(point);
	return error;
}

/* For each row the nearest named caller of its function without a name, or null. */
static void put_callers(const struct request *r, struct json *j,
			const struct mayfly_row *const *row, size_t rows)
{
	const char **caller = named_callers(r->trace, &r->q.query, row, rows);

	json_array(j, "callers");
	for (size_t i = 0; i < rows; i++)
		if (caller && caller[i])
			json_text(j, NULL, caller[i]);
		else
			json_null(j, NULL);
	json_end(j);
	free(caller);
}

static void put_series_callers(const struct request *r, struct json *j,
			       const struct mayfly_series *s)
{
	const struct mayfly_row **row = calloc(s->rows, sizeof(*row));

	if (!row) {
		j->bytes.failed = true;
		return;
	}
	for (size_t i = 0; i + 1 < s->rows; i++)
		row[i] = &s->row[i];
	put_callers(r, j, row, s->rows - 1);
	free(row);
}

static int put_series(struct request *r, struct json *j, const struct live_point *point,
		      size_t points)
{
	struct mayfly_series *s;
	int error = series_run_largest(r->trace, &r->q.query, point, points,
				       r->top ? r->top : SIZE_MAX, &s);

	if (error)
		return error;
	json_series(j, r->trace, &r->q.query, s);
	put_series_callers(r, j, s);
	mayfly_series_free(s);
	return 0;
}

int view_series(struct request *r, struct json *j)
{
	struct live_point *point;
	size_t points;
	int error;

	limit_stacks(r);
	if (!r->extremes)
		return put_series(r, j, NULL, r->points);
	error = find_extremes(r, &point, &points);
	if (!error)
		error = put_series(r, j, point, points);
	free(point);
	return error;
}

static void put_grown_row(const struct request *r, struct json *j, const struct grown_row *row)
{
	json_row_key(j, r->trace, r->q.query.by, row->key);
	json_estimate(j, "before", &row->before);
	json_estimate(j, "survived", &row->survived);
	json_estimate(j, "freed", &row->freed);
	json_real(j, "change", row->change);
}

int view_grown(struct request *r, struct json *j)
{
	struct grown *g;
	int error = grown_run(r->trace, &r->q.query, &g);

	if (error)
		return error;
	json_text(j, "by", by_names[r->q.query.by]);
	json_integer(j, "from_ns", g->from_ns);
	json_integer(j, "to_ns", g->to_ns);
	json_estimate(j, "before", &g->before);
	json_estimate(j, "after", &g->after);
	json_estimate(j, "survived", &g->survived);
	json_estimate(j, "freed", &g->freed);
	json_unsigned(j, "rows_count", g->rows);
	JSON_ROWS(j, "rows", i, i < g->rows && (!r->top || i < r->top))
		put_grown_row(r, j, &g->row[i]);
	grown_free(g);
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
