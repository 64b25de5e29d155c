/* SPDX-License-Identifier: Apache-2.0 */
/* report_json.c: an answer as JSON. */
#include "cli/report/report.h"

#include "cli/absent.h"

static json_t *json_bound(int64_t value)
{
	return value == INT64_MAX ? json_null() : json_integer(value);
}

/* Null: nobody. */
static json_t *json_thread_name(const struct report *r, uint32_t index)
{
	const struct mayfly_thread *thread = mayfly_trace_thread(r->file.trace, index);

	return index == UINT32_MAX ? json_null() : json_text(thread ? thread->name : "");
}

static json_t *json_thread_id(const struct report *r, uint32_t index)
{
	const struct mayfly_thread *thread = mayfly_trace_thread(r->file.trace, index);

	return index == UINT32_MAX ? json_null() : json_unsigned(thread ? thread->tid : 0);
}

json_t *report_json_key(const struct report *r, const struct mayfly_row *row)
{
	char name[NAME_BYTES];

	switch (r->q.query.by) {
	case MAYFLY_BY_FUNCTION:
	case MAYFLY_BY_LINE:
		row_name(name, sizeof(name), row);
		return json_pack("{s:o, s:o, s:o, s:o}", "function", json_text(name), "file",
				 json_text_or_null(row->file), "line",
				 row->line ? json_unsigned(row->line) : json_null(), "module",
				 json_text_or_null(row->module));
	case MAYFLY_BY_LABEL:
		return json_pack("{s:o}", "label", json_text_or_null(row->function));
	case MAYFLY_BY_STACK:
		return json_pack("{s:o}", "stack", json_places(row->stack, row->stack_length));
	case MAYFLY_BY_MODULE:
		return json_pack("{s:o}", "module", json_text_or_null(row->module));
	case MAYFLY_BY_THREAD:
		return json_pack("{s:o, s:o}", "thread", json_thread_name(r, row->thread), "tid",
				 json_thread_id(r, row->thread));
	case MAYFLY_BY_FREEING_THREAD:
		return json_pack("{s:o, s:o}", "freeing_thread",
				 json_thread_name(r, row->free_thread), "freeing_tid",
				 json_thread_id(r, row->free_thread));
	case MAYFLY_BY_THREADS:
		return json_pack("{s:o, s:o, s:o, s:o}", "thread", json_thread_name(r, row->thread),
				 "tid", json_thread_id(r, row->thread), "freeing_thread",
				 json_thread_name(r, row->free_thread), "freeing_tid",
				 json_thread_id(r, row->free_thread));
	case MAYFLY_BY_SIZE:
		return json_pack("{s:{s:o, s:o}}", "size", "low", json_bound(row->low), "high",
				 json_bound(row->high));
	case MAYFLY_BY_LIFETIME:
		return json_pack("{s:{s:o, s:o}}", "lifetime", "low_ns", json_bound(row->low),
				 "high_ns", json_bound(row->high));
	case MAYFLY_BY_HEAP:
		return json_pack("{s:s}", "heap", heap_name((uint32_t)row->low));
	}
	return NULL;
}

json_t *report_json_row(const struct report *r, const struct mayfly_row *row)
{
	json_t *object = report_json_key(r, row);

	if (json_object_set_new(object, "self", json_estimate(&row->self)) == 0 &&
	    json_object_set_new(object, "total", json_estimate(&row->total)) == 0)
		return object;
	json_decref(object);
	return NULL;
}

json_t *report_json_rows(const struct report *r, const struct mayfly_result *result)
{
	size_t count = result->rows;
	json_t *list = json_array();

	if (r->top_given && r->top && r->top < count)
		count = r->top;
	for (size_t i = 0; list && i < count; i++) {
		if (json_array_append_new(list, report_json_row(r, &result->row[i])) != 0) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

static bool add_context(const struct report *r, json_t *object)
{
	struct mayfly_summary s;

	return mayfly_trace_summary(r->file.trace, &s) == 0 &&
	       json_object_set_new(object, "summary", json_summary(&s)) == 0 &&
	       json_object_set_new(object, "info",
				   json_info(r->file.trace, &s, trace_stacks(r->file.trace))) == 0;
}

int report_print_json(struct report *r)
{
	struct mayfly_result *result;
	json_t *object;
	int error;

	r->q.query.stack_rows = report_stacks_needed(r, r->top_given ? r->top : 0);
	error = mayfly_query_run(r->file.trace, &r->q.query, &result);
	if (error)
		return report_failed(r, error);
	object =
	    json_pack("{s:s, s:s, s:s, s:I, s:o, s:o}", "metric", metric_names[r->q.query.metric],
		      "by", by_names[r->q.query.by], "sort", sort_names[r->q.query.sort], "time_ns",
		      (json_int_t)result->time_ns, "total", json_estimate(&result->total), "rows",
		      report_json_rows(r, result));
	mayfly_result_free(result);
	if (object && !r->q.by_given && !add_context(r, object)) {
		json_decref(object);
		object = NULL;
	}
	return json_print(json_drop_absent(object, r->file.info->absent));
}
