/* SPDX-License-Identifier: Apache-2.0 */
/* report_json.c: an answer as JSON. */
#include "cli/report/report.h"

#include "answer/absent.h"
#include "answer/json_parts.h"

void report_json_rows(struct json *j, const struct report *r, const struct mayfly_result *result)
{
	json_result_rows(j, "rows", r->file.trace, r->q.query.by, result,
			 r->top_given && r->top ? r->top : SIZE_MAX);
}

struct json report_document(uint32_t absent)
{
	struct json j = json_document();

	if (absent) {
		j.is_null = absent_key;
		j.null_context = absent;
	}
	return j;
}

void report_json_info(struct json *j, const char *key, const struct report *r,
		      const struct mayfly_summary *s)
{
	json_object(j, key);
	json_info(j, r->file.trace, s, r->file.info->file_bytes);
	json_end(j);
}

/* Without --by, as in the overview, also about the trace as a whole. */
static void put_context(struct json *j, const struct report *r)
{
	struct mayfly_summary s;

	if (mayfly_trace_summary(r->file.trace, &s) != 0) {
		j->bytes.failed = true;
		return;
	}
	json_object(j, "summary");
	json_summary(j, &s);
	json_end(j);
	report_json_info(j, "info", r, &s);
}

int report_print_json(struct report *r)
{
	struct mayfly_result *result;
	struct json j;
	int error;

	r->q.query.stack_rows = report_stacks_needed(r, r->top_given ? r->top : 0);
	error = mayfly_query_run(r->file.trace, &r->q.query, &result);
	if (error)
		return report_failed(r, error);
	j = report_document(r->file.info->absent);
	json_question(&j, &r->q.query, true);
	json_integer(&j, "time_ns", result->time_ns);
	json_estimate(&j, "total", &result->total);
	report_json_rows(&j, r, result);
	mayfly_result_free(result);
	if (!r->q.by_given)
		put_context(&j, r);
	return json_print(&j);
}
