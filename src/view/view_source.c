/* SPDX-License-Identifier: Apache-2.0 */
/* A source file: its text, and what each of its lines allocated. */
#include <stdlib.h>
#include <string.h>

#include "answer/json_parts.h"
#include "view/answers.h"

/* Only blocks of stacks through the file can have rows in it, but rows are of all files. */
static void put_lines(struct json *j, const struct request *r, const struct mayfly_result *result)
{
	json_array(j, "lines");
	for (size_t i = 0; i < result->rows; i++) {
		const struct mayfly_row *row = &result->row[i];

		if (!row->file || strcmp(row->file, r->file) != 0)
			continue;
		json_object(j, NULL);
		json_row(j, r->trace, MAYFLY_BY_LINE, row);
		json_end(j);
	}
	json_end(j);
}

static void put_text(struct json *j, const struct request *r)
{
	struct bytes text = {0};

	if (r->view->source && r->view->source(r->view->source_context, r->file, &text)) {
		bytes_put(&text, "", 1);
		if (text.failed)
			j->bytes.failed = true;
		else
			json_text(j, "text", (const char *)text.at);
	} else {
		json_null(j, "text");
	}
	bytes_free(&text);
}

int view_source(struct request *r, struct json *j)
{
	struct mayfly_result *result;
	int error;

	if (!r->file)
		r->file = "";
	r->q.query.by = MAYFLY_BY_LINE;
	error = mayfly_query_run(r->trace, &r->q.query, &result);
	if (error)
		return error;
	json_text(j, "file", r->file);
	json_integer(j, "time_ns", result->time_ns);
	json_estimate(j, "total", &result->total);
	put_lines(j, r, result);
	put_text(j, r);
	mayfly_result_free(result);
	return 0;
}
