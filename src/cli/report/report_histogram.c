/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report_histogram.c: how the blocks of each row are spread over sizes or lifetimes.
 *
 * Each row has a bar for each class, scaled to the row's largest: a histogram is about the shape.
 */
#include "cli/report/report.h"

#include <math.h>

#include "answer/json_views.h"
#include "answer/text_format.h"

/* Bars in ASCII: the denser the character, the higher the bar. */
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

/* value: [classes], of blocks or of bytes. */
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

/* The class with the most bytes, and its share of the row's: "512 B to 1 KiB  62 %". */
static void text_mostly(char *buffer, size_t size, const struct report *r,
			const struct mayfly_histogram *h, const double *bytes)
{
	char percent[FIGURE_TEXT];
	double whole = 0;
	size_t most = 0;

	for (size_t i = 0; i < h->classes; i++) {
		whole += bytes[i];
		if (bytes[i] > bytes[most])
			most = i;
	}
	class_text(buffer, size, r, h, most);
	text_append(buffer, size, "  %s",
		    text_percent(percent, sizeof(percent), bytes[most], whole));
}

static void put_bars(struct table *t, const struct report *r, const double *value, size_t count)
{
	char text[MOST_CLASSES * 4 + 1];

	if (r->out.utf8)
		text_sparkline(text, sizeof(text), &r->out, value, count);
	else
		ascii_bars(text, sizeof(text), value, count);
	table_cell(t, text);
}

static void put_histogram_cells(struct table *t, const struct report *r, const void *answer,
				size_t row)
{
	const struct mayfly_histogram *h = answer;
	double bytes[MOST_CLASSES], blocks[MOST_CLASSES];
	char text[256];

	class_values(h, row, false, bytes);
	class_values(h, row, true, blocks);
	report_put_estimate(
	    t, &(struct column){r->q.query.sort == MAYFLY_SORT_TOTAL ? "TOTAL" : "BYTES", true}, 1,
	    sorted_by(&r->q.query, &h->row[row]), &h->total);
	put_bars(COLUMN(t, "BYTES", false, 0, STYLE_BAR), r, bytes, h->classes);
	put_bars(COLUMN(t, "BLOCKS", false, 3, STYLE_BAR), r, blocks, h->classes);
	text_mostly(text, sizeof(text), r, h, bytes);
	table_cell(COLUMN(t, "MOST BYTES", false, 2), text);
}

/* Explains the columns of the bars. */
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

static int print_histogram(const struct report *r, const struct mayfly_histogram *h)
{
	char metric[256], figure[128];

	report_metric_text(metric, sizeof(metric), r, h->time_ns);
	print_wrapped(&r->out, STYLE_BOLD, 0, "%s by %s, %s: %s%s", metric, report_by_text(r),
		      r->classes == MAYFLY_BY_SIZE ? "sizes" : "lifetimes",
		      text_estimate(figure, sizeof(figure), r->out.utf8, &h->total),
		      r->q.filtered ? ", filtered" : "");
	if (h->classes == 0 || !(h->total.bytes.estimate > 0)) {
		report_print_none(r);
		return cli_finish();
	}
	print_scale(r, h);
	if (!report_print_rows(r,
			       &(struct keyed_rows){h->row, h->rows, h, put_histogram_cells, NULL}))
		return cli_error("out of memory");
	report_print_legend(r);
	return cli_finish();
}

int report_print_histogram(struct report *r)
{
	struct mayfly_histogram *a;

	return REPORT_ANSWER(
	    r,
	    mayfly_histogram_run(r->file.trace, &r->q.query, r->classes, report_rows_wanted(r), &a),
	    json_histogram(&j, r->file.trace, &r->q.query, r->classes, a), print_histogram(r, a),
	    mayfly_histogram_free(a));
}
