/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report_histogram.c: how the blocks of each row are spread over sizes or lifetimes.
 *
 * Each row has a bar for each class, scaled by its own largest: the shape is what a histogram is
 * asked for.
 */
#include "cli/report/report.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- text ---- */

/* Bars for terminals without them: the denser the character, the higher. */
static char *ascii_bars(char *buffer, size_t size, const double *value, size_t count)
{
	static const char level[] = " .:-=+*#@";
	double largest = 0;
	size_t used = 0;

	for (size_t i = 0; i < count; i++)
		if (value[i] > largest)
			largest = value[i];
	for (size_t i = 0; i < count && used + 1 < size; i++)
		buffer[used++] = value[i] > 0 ? level[1 + lround(value[i] / largest * 7)] : ' ';
	buffer[used] = 0;
	return buffer;
}

#define MOST_CLASSES 80 /* there are 65 of sizes */

/* [classes], and whether it is of blocks. */
static void class_values(const struct mayfly_histogram *h, size_t row, bool blocks, double *value)
{
	for (size_t i = 0; i < h->classes; i++) {
		const struct mayfly_estimate *e = &h->cell[row * h->classes + i];

		value[i] = blocks ? e->blocks.estimate : e->bytes.estimate;
	}
}

static void class_text(char *buffer, size_t size, const struct report *r,
		       const struct mayfly_histogram *h, size_t class)
{
	struct report by_class = *r;
	struct mayfly_row row = {.low = h->low[class], .high = h->high[class]};

	by_class.q.query.by = r->classes;
	report_row_key(buffer, size, &by_class, &row);
}

/* The class with most bytes, and how many of the row's: "512 B to 1 KB 62 %". */
static void text_mostly(char *buffer, size_t size, const struct report *r,
			const struct mayfly_histogram *h, const double *bytes)
{
	char percent[FIGURE_TEXT];
	double whole = 0;
	size_t most = 0, used;

	for (size_t i = 0; i < h->classes; i++) {
		whole += bytes[i];
		if (bytes[i] > bytes[most])
			most = i;
	}
	class_text(buffer, size, r, h, most);
	used = strlen(buffer);
	snprintf(buffer + used, size - used, "  %s",
		 text_percent(percent, sizeof(percent), bytes[most], whole));
}

static bool put_bars(struct table *t, const struct report *r, const double *value, size_t count)
{
	char text[MOST_CLASSES * 4 + 1];

	if (r->out.utf8)
		text_sparkline(text, sizeof(text), &r->out, value, count);
	else
		ascii_bars(text, sizeof(text), value, count);
	return table_cell(t, text);
}

static bool put_row(struct table *t, const struct report *r, const struct mayfly_histogram *h,
		    size_t row)
{
	bool others = row + 1 == h->rows;
	const struct mayfly_estimate *e = report_sorted_by(r, &h->row[row]);
	double bytes[MOST_CLASSES], blocks[MOST_CLASSES];
	char text[NAME_BYTES];

	class_values(h, row, false, bytes);
	class_values(h, row, true, blocks);
	if (!report_put_estimate(t, r, e, &h->total) || !put_bars(t, r, bytes, h->classes) ||
	    !put_bars(t, r, blocks, h->classes))
		return false;
	text_mostly(text, sizeof(text), r, h, bytes);
	if (!table_cell(t, text))
		return false;
	if (r->q.query.by == MAYFLY_BY_STACK && !others)
		snprintf(text, sizeof(text), "%zu.", row + 1);
	else
		report_full_key(text, sizeof(text), r, &h->row[row], others);
	return table_cell(t, text);
}

/* With totals, what the others have is not a sum that anybody could check. */
static bool is_shown(const struct report *r, const struct mayfly_histogram *h, size_t row)
{
	if (row + 1 == h->rows && r->q.query.sort == MAYFLY_SORT_TOTAL)
		return false;
	return report_sorted_by(r, &h->row[row])->bytes.estimate > 0;
}

static bool print_rows(const struct report *r, const struct mayfly_histogram *h)
{
	bool stacks = r->q.query.by == MAYFLY_BY_STACK;
	struct column columns[] = {
	    {r->q.query.sort == MAYFLY_SORT_TOTAL ? "TOTAL" : "BYTES", true, 0, STYLE_PLAIN, false},
	    {"", false, 0, STYLE_DIM, true},
	    {"%", true, 1, STYLE_PLAIN, false},
	    {"BYTES", false, 0, STYLE_BAR, false},
	    {"BLOCKS", false, 3, STYLE_BAR, false},
	    {"MOST BYTES", false, 2, STYLE_PLAIN, false},
	    {stacks ? "STACK" : report_key_title(r), false, 0, STYLE_PLAIN, false}};
	struct table *t = table_new(columns, sizeof(columns) / sizeof(*columns));
	bool done = t != NULL;

	for (size_t i = 0; done && i < h->rows; i++)
		if (is_shown(r, h, i))
			done = put_row(t, r, h, i);
	if (done)
		table_print(t, &r->out, 0);
	table_free(t);
	if (done && stacks)
		report_print_numbered_stacks(r, h->row, h->rows - 1);
	return done;
}

/* What the columns of the bars are. */
static void print_scale(const struct report *r, const struct mayfly_histogram *h)
{
	bool never = h->high[h->classes - 1] == INT64_MAX && r->classes == MAYFLY_BY_LIFETIME;
	size_t finite = h->classes - never;
	char first[FIGURE_TEXT], last[FIGURE_TEXT];

	if (finite == 0)
		return;
	if (r->classes == MAYFLY_BY_SIZE) {
		text_bytes(first, sizeof(first), (double)h->low[0]);
		text_bytes(last, sizeof(last), (double)h->high[finite - 1]);
	} else {
		text_duration(first, sizeof(first), (double)h->low[0]);
		text_duration(last, sizeof(last), (double)h->high[finite - 1]);
	}
	print_wrapped(&r->out, STYLE_DIM, 2, "a bar for each power of %s from %s to %s%s",
		      r->classes == MAYFLY_BY_SIZE ? "two" : "ten", first, last,
		      never ? "; the last one: never freed" : "");
}

static int print_text(const struct report *r, const struct mayfly_histogram *h)
{
	char metric[256], figure[128];

	report_metric_text(metric, sizeof(metric), r, h->time_ns);
	print_wrapped(&r->out, STYLE_BOLD, 0, "%s by %s, %s: %s%s", metric, report_by_text(r),
		      r->classes == MAYFLY_BY_SIZE ? "sizes" : "lifetimes",
		      report_say_figure(figure, sizeof(figure), &r->out, &h->total),
		      r->q.filtered ? ", filtered" : "");
	if (h->classes == 0 || !(h->total.bytes.estimate > 0)) {
		puts("  No block fits these options.");
		return cli_finish();
	}
	print_scale(r, h);
	if (!print_rows(r, h))
		return cli_error("out of memory");
	report_print_legend(r);
	return cli_finish();
}

/* ---- JSON ---- */

static json_t *json_classes(const struct report *r, const struct mayfly_histogram *h)
{
	bool size = r->classes == MAYFLY_BY_SIZE;
	json_t *list = json_array();

	for (size_t i = 0; list && i < h->classes; i++) {
		json_t *class =
		    json_pack("{s:o, s:o}", size ? "low" : "low_ns", json_integer(h->low[i]),
			      size ? "high" : "high_ns",
			      h->high[i] == INT64_MAX ? json_null() : json_integer(h->high[i]));

		if (json_array_append_new(list, class) != 0) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

/* A row's numbers, one for each class. */
static json_t *add_cells(json_t *object, const struct mayfly_histogram *h, size_t row)
{
	json_t *bytes = json_array(), *error = json_array(), *blocks = json_array();
	json_t *samples = json_array();

	for (size_t i = 0; i < h->classes; i++) {
		const struct mayfly_estimate *e = &h->cell[row * h->classes + i];

		json_array_append_new(bytes, json_integer(llround(e->bytes.estimate)));
		json_array_append_new(error, json_integer(llround(e->bytes.stderror)));
		json_array_append_new(blocks, json_integer(llround(e->blocks.estimate)));
		json_array_append_new(samples, json_unsigned(e->samples));
	}
	if (object && json_array_size(samples) == h->classes &&
	    json_object_set_new(object, "bytes", bytes) == 0 &&
	    json_object_set_new(object, "bytes_stderr", error) == 0 &&
	    json_object_set_new(object, "blocks", blocks) == 0 &&
	    json_object_set_new(object, "samples", samples) == 0)
		return object;
	json_decref(object);
	return NULL;
}

static json_t *json_rows(const struct report *r, const struct mayfly_histogram *h)
{
	json_t *list = json_array();

	for (size_t i = 0; list && i + 1 < h->rows; i++) {
		json_t *row = add_cells(report_json_row(r, &h->row[i]), h, i);

		if (json_array_append_new(list, row) != 0) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

static int print_json(const struct report *r, const struct mayfly_histogram *h)
{
	return json_print(json_pack("{s:s, s:s, s:s, s:s, s:I, s:o, s:o, s:o, s:o}", "metric",
				    metric_names[r->q.query.metric], "by", by_names[r->q.query.by],
				    "sort", sort_names[r->q.query.sort], "histogram",
				    by_names[r->classes], "time_ns", (json_int_t)h->time_ns,
				    "total", json_estimate(&h->total), "classes",
				    json_classes(r, h), "rows", json_rows(r, h), "others",
				    add_cells(json_object(), h, h->rows - 1)));
}

int report_print_histogram(struct report *r)
{
	struct mayfly_histogram *h;
	size_t rows = r->top ? r->top : SIZE_MAX;
	int error, status;

	r->q.query.stack_rows = report_stacks_needed(r, r->top);
	error = mayfly_histogram_run(r->file.trace, &r->q.query, r->classes, rows, &h);
	if (error)
		return report_failed(r, error);
	status = r->json ? print_json(r, h) : print_text(r, h);
	mayfly_histogram_free(h);
	return status;
}
