/* SPDX-License-Identifier: Apache-2.0 */
/* report_series.c: rows over time. */
#include "cli/report/report.h"

#include <string.h>

#include "answer/json_views.h"

/*
 * Each row is scaled to its own largest value, which stands before it: a series is about the shape,
 * and one scale for rows of very different size would leave most of them empty.
 */
static double largest_of(const struct mayfly_series *s, size_t row)
{
	double largest = 0;

	for (size_t i = 0; i < s->points; i++)
		if (s->live_bytes[row * s->points + i] > largest)
			largest = s->live_bytes[row * s->points + i];
	return largest;
}

#define SERIES_OTHERS 60 /* columns of the line besides the moments */

/* Bars need a terminal that has them, and room. */
static bool has_bars(const struct report *r)
{
	return r->out.utf8 && (r->out.wide || r->moments + SERIES_OTHERS <= (size_t)r->out.width);
}

struct series_table {
	const struct report *r;
	const struct mayfly_series *s;
};

static void put_series_cells(struct table *t, const void *context, size_t row)
{
	const struct series_table *c = context;
	const double *live = c->s->live_bytes + row * c->s->points;
	double largest = largest_of(c->s, row);
	char text[MOST_MOMENTS * 4 + 1];

	if (!(largest > 0))
		return;
	table_bytes(COLUMN(t, "LARGEST", true), largest);
	table_cell(COLUMN(t, "LIVE", false, 0, STYLE_BAR),
		   text_sparkline(text, sizeof(text), &c->r->out, live, c->s->points));
	table_bytes(COLUMN(t, "LAST", true, 1), live[c->s->points - 1]);
	report_put_key(t, c->r, &c->s->row[row], row + 1 == c->s->rows);
}

/* Numbers, filled into lines. */
static void print_numbers(const struct report *r, const double *value, size_t count)
{
	char bytes[FIGURE_TEXT];
	int column = 0;

	for (size_t i = 0; i < count; i++) {
		const char *comma = i + 1 < count ? "," : "";
		int columns =
		    (int)strlen(text_bytes(bytes, sizeof(bytes), value[i])) + (int)strlen(comma);

		if (column > 0 && column + 1 + columns > r->out.width) {
			putchar('\n');
			column = 0;
		}
		printf("%*s%s%s", column ? 1 : STACK_INDENT, "", bytes, comma);
		column += columns + (column ? 1 : STACK_INDENT);
	}
	putchar('\n');
}

/* A stack, or a row without room for bars: a line of its own, then its live bytes. */
static void print_series_row(const struct report *r, const struct mayfly_series *s, size_t row)
{
	const double *live = s->live_bytes + row * s->points;
	bool stack = r->q.query.by == MAYFLY_BY_STACK && row + 1 < s->rows;
	char name[NAME_BYTES] = "", fitted[NAME_BYTES], number[32], figures[256];
	char line[MOST_MOMENTS * 4 + 1], largest[FIGURE_TEXT], last[FIGURE_TEXT];

	snprintf(number, sizeof(number), "%3zu. ", row + 1);
	print_styled(&r->out, STYLE_BOLD, number);
	snprintf(figures, sizeof(figures), "at most %s, last %s  ",
		 text_bytes(largest, sizeof(largest), largest_of(s, row)),
		 text_bytes(last, sizeof(last), live[s->points - 1]));
	print_styled(&r->out, STYLE_BOLD, figures);
	if (!stack)
		report_full_key(name, sizeof(name), r, &s->row[row], row + 1 == s->rows);
	if (has_bars(r))
		print_styled(&r->out, STYLE_BAR,
			     text_sparkline(line, sizeof(line), &r->out, live, s->points));
	else
		fputs(name_fit(fitted, sizeof(fitted), &r->out, name,
			       (size_t)r->out.width > strlen(figures) + 6
				   ? (size_t)r->out.width - strlen(figures) - 6
				   : 1),
		      stdout);
	printf("%s%s\n", has_bars(r) && *name ? "  " : "", has_bars(r) ? name : "");
	if (!has_bars(r))
		print_numbers(r, live, s->points);
	if (stack)
		print_stack(&r->out, s->row[row].stack, s->row[row].stack_length, r->depth);
}

static void print_series_title(const struct report *r, const struct mayfly_series *s)
{
	char first[FIGURE_TEXT], last[FIGURE_TEXT];
	bool one = s->points == 1;

	text_duration(first, sizeof(first), (double)s->time_ns[0]);
	text_duration(last, sizeof(last), (double)s->time_ns[s->points - 1]);
	print_wrapped(&r->out, STYLE_BOLD, 0, "Live by %s at %zu %s, %s%s%s; sorted by %s%s",
		      report_by_text(r), s->points, one ? "moment" : "moments", first,
		      one ? "" : " to ", one ? "" : last, metric_names[r->q.query.metric],
		      r->q.filtered ? "; filtered" : "");
}

static int print_series_text(const struct report *r, const struct mayfly_series *s)
{
	bool any = false;

	print_series_title(r, s);
	for (size_t i = 0; i < s->rows; i++)
		any |= largest_of(s, i) > 0;
	if (!any)
		puts("  Nothing was live at these moments.");
	else if (has_bars(r) && r->q.query.by != MAYFLY_BY_STACK) {
		if (!table_print_rows(&r->out, s->rows, put_series_cells,
				      &(struct series_table){r, s}))
			return cli_error("out of memory");
		any = false;
	}
	for (size_t i = 0; any && i < s->rows; i++) {
		if (largest_of(s, i) > 0)
			print_series_row(r, s, i);
	}
	return cli_finish();
}

int report_print_series(struct report *r)
{
	struct mayfly_series *a;

	return REPORT_ANSWER(
	    r, mayfly_series_run(r->file.trace, &r->q.query, r->moments, report_rows_wanted(r), &a),
	    json_series(&j, r->file.trace, &r->q.query, a), print_series_text(r, a),
	    mayfly_series_free(a));
}
