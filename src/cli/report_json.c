/* SPDX-License-Identifier: Apache-2.0 */
/* report_json.c: an answer as JSON. */
#include "report.h"

static json_t *json_place(const struct mayfly_place *place)
{
	char name[NAME_BYTES];

	place_name(name, sizeof(name), place);
	return json_pack("{s:o, s:o, s:o, s:o, s:b}", "function", json_text(name), "file",
			 json_text_or_null(place->file), "line",
			 place->line ? json_unsigned(place->line) : json_null(), "module",
			 json_text_or_null(place->module), "inlined", (int)place->inlined);
}

static json_t *json_stack(const struct mayfly_row *row)
{
	json_t *list = json_array();

	for (size_t i = 0; list && i < row->stack_length; i++) {
		if (json_array_append_new(list, json_place(&row->stack[i])) != 0) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

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

json_t *report_json_row(const struct report *r, const struct mayfly_row *row)
{
	json_t *self = json_estimate(&row->self), *total = json_estimate(&row->total);
	char name[NAME_BYTES];

	switch (r->q.query.by) {
	case MAYFLY_BY_FUNCTION:
	case MAYFLY_BY_LINE:
		row_name(name, sizeof(name), row);
		return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "function", json_text(name),
				 "file", json_text_or_null(row->file), "line",
				 row->line ? json_unsigned(row->line) : json_null(), "module",
				 json_text_or_null(row->module), "self", self, "total", total);
	case MAYFLY_BY_STACK:
		return json_pack("{s:o, s:o, s:o}", "stack", json_stack(row), "self", self, "total",
				 total);
	case MAYFLY_BY_MODULE:
		return json_pack("{s:o, s:o, s:o}", "module", json_text_or_null(row->module),
				 "self", self, "total", total);
	case MAYFLY_BY_THREAD:
		return json_pack("{s:o, s:o, s:o, s:o}", "thread", json_thread_name(r, row->thread),
				 "tid", json_thread_id(r, row->thread), "self", self, "total",
				 total);
	case MAYFLY_BY_FREEING_THREAD:
		return json_pack("{s:o, s:o, s:o, s:o}", "freeing_thread",
				 json_thread_name(r, row->free_thread), "freeing_tid",
				 json_thread_id(r, row->free_thread), "self", self, "total", total);
	case MAYFLY_BY_THREADS:
		return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "thread",
				 json_thread_name(r, row->thread), "tid",
				 json_thread_id(r, row->thread), "freeing_thread",
				 json_thread_name(r, row->free_thread), "freeing_tid",
				 json_thread_id(r, row->free_thread), "self", self, "total", total);
	case MAYFLY_BY_SIZE:
		return json_pack("{s:{s:o, s:o}, s:o, s:o}", "size", "low", json_bound(row->low),
				 "high", json_bound(row->high), "self", self, "total", total);
	case MAYFLY_BY_LIFETIME:
		return json_pack("{s:{s:o, s:o}, s:o, s:o}", "lifetime", "low_ns",
				 json_bound(row->low), "high_ns", json_bound(row->high), "self",
				 self, "total", total);
	case MAYFLY_BY_HEAP:
		return json_pack("{s:s, s:o, s:o}", "heap", heap_name((uint32_t)row->low), "self",
				 self, "total", total);
	}
	return NULL;
}

static json_t *json_rows(const struct report *r, const struct mayfly_result *result)
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
	object = json_pack("{s:s, s:s, s:s, s:I, s:o, s:o}", "metric",
			   metric_names[r->q.query.metric], "by", by_names[r->q.query.by], "sort",
			   sort_names[r->q.query.sort], "time_ns", (json_int_t)result->time_ns,
			   "total", json_estimate(&result->total), "rows", json_rows(r, result));
	mayfly_result_free(result);
	if (object && !r->q.by_given && !add_context(r, object)) {
		json_decref(object);
		object = NULL;
	}
	return json_print(object);
}
