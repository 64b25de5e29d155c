/* SPDX-License-Identifier: Apache-2.0 */
/* A source file: its text, and what each of its lines allocated. */
#include <stdlib.h>
#include <string.h>

#include "answer/estimate_add.h"
#include "answer/json_parts.h"
#include "answer/texts.h"
#include "view/answers.h"

/* Only blocks of stacks through the file can have rows in it, but rows are of all files. */
static void put_lines(struct json *j, const struct request *r, const struct mayfly_result *result)
{
	const struct mayfly_row *row = result->row;

	JSON_ROWS_WHERE(j, "lines", i, i < result->rows,
			row[i].file && strcmp(row[i].file, r->file) == 0)
		json_row(j, r->trace, MAYFLY_BY_LINE, &row[i]);
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

/* ---- the list of files ---- */

struct file_sum {
	const char *file;
	struct mayfly_estimate self; /* blocks are allocated in one line each: a sum */
	struct mayfly_estimate most; /* of a line: what several lines call is in each one's total */
};

static int compare_files(const void *a, const void *b)
{
	const struct file_sum *x = a, *y = b;

	if (x->self.bytes.estimate != y->self.bytes.estimate)
		return x->self.bytes.estimate > y->self.bytes.estimate ? -1 : 1;
	if (x->most.bytes.estimate != y->most.bytes.estimate)
		return x->most.bytes.estimate > y->most.bytes.estimate ? -1 : 1;
	return strcmp(x->file, y->file);
}

static void add_line(struct file_sum *f, const struct mayfly_row *row)
{
	f->file = row->file;
	if (row->self.samples)
		estimate_add(&f->self, &row->self);
	if (row->total.bytes.estimate >= f->most.bytes.estimate)
		f->most = row->total;
}

/* sum: as many as rows. Returns the number of files, or TEXTS_FAILED. */
static uint32_t sum_files(struct file_sum *sum, const struct mayfly_result *result)
{
	struct texts files = {0};
	uint32_t count = 0;

	for (size_t i = 0; i < result->rows && count != TEXTS_FAILED; i++) {
		const struct mayfly_row *row = &result->row[i];
		uint32_t number;

		if (!row->file || !*row->file || !row->line)
			continue;
		number = texts_number(&files, row->file);
		if (number == count)
			sum[count++].self = result->nothing;
		if (number == TEXTS_FAILED)
			count = number;
		else
			add_line(&sum[number], row);
	}
	texts_free(&files);
	return count;
}

static int put_files(struct json *j, const struct mayfly_result *result)
{
	struct file_sum *sum = calloc(result->rows + 1, sizeof(*sum));
	uint32_t count = sum ? sum_files(sum, result) : TEXTS_FAILED;

	if (count == TEXTS_FAILED) {
		free(sum);
		return MAYFLY_E_MEMORY;
	}
	qsort(sum, count, sizeof(*sum), compare_files);
	JSON_ROWS(j, "files", i, i < count) {
		json_text(j, "file", sum[i].file);
		json_estimate(j, "self", &sum[i].self);
		json_estimate(j, "most", &sum[i].most);
	}
	free(sum);
	return 0;
}

int view_source(struct request *r, struct json *j)
{
	struct mayfly_result *result;
	int error;

	r->q.query.by = MAYFLY_BY_LINE;
	error = mayfly_query_run(r->trace, &r->q.query, &result);
	if (error)
		return error;
	json_text_or_null(j, "file", r->file ? r->file : "");
	json_integer(j, "time_ns", result->time_ns);
	json_estimate(j, "total", &result->total);
	if (r->file) {
		put_lines(j, r, result);
		put_text(j, r);
	} else {
		error = put_files(j, result);
	}
	mayfly_result_free(result);
	return error;
}
