/* SPDX-License-Identifier: Apache-2.0 */
/* What grew from picture to picture, as text. */
#include "cli/heap/heap_growth_print.h"

#include <stdlib.h>

#include "answer/text_format.h"
#include "terminal/message.h"

#define WHERE_COLUMNS 24
#define CURVE_COLUMNS 16
#define CURVE_TEXT    (4 * CURVE_COLUMNS + 1)

/* ---- sentences ---- */

static void print_pictures(const struct heap_growth *g, const struct output *o)
{
	const struct heap_moment *first = &g->moment[0], *last = &g->moment[g->moments - 1];
	char bytes[2][FIGURE_TEXT], blocks[2][FIGURE_TEXT], time[FIGURE_TEXT], stop[FIGURE_TEXT];
	int64_t longest = 0;

	for (size_t i = 0; i < g->moments; i++)
		if (g->moment[i].stopped_ns > longest)
			longest = g->moment[i].stopped_ns;
	text_bytes(bytes[0], FIGURE_TEXT, (double)first->bytes);
	text_bytes(bytes[1], FIGURE_TEXT, (double)last->bytes);
	text_count(blocks[0], FIGURE_TEXT, (double)first->blocks);
	text_count(blocks[1], FIGURE_TEXT, (double)last->blocks);
	text_duration(time, sizeof(time), (double)last->at_ns);
	text_duration(stop, sizeof(stop), (double)longest);
	if (g->moments == 1)
		print_wrapped(o, STYLE_BOLD, 2,
			      "One picture of %s, too few to show growth: %s in %s blocks of "
			      "malloc; the program was stopped for %s",
			      g->program, bytes[0], blocks[0], stop);
	else
		print_wrapped(
		    o, STYLE_BOLD, 2,
		    "%zu pictures of %s in %s: from %s in %s blocks of malloc to %s in %s; "
		    "the longest stop took %s",
		    g->moments, g->program, time, bytes[0], blocks[0], bytes[1], blocks[1], stop);
}

static char *text_words(char *buffer, size_t size, const struct heap_growth *g,
			const struct heap_series *s)
{
	char rate[FIGURE_TEXT];

	if (g->moments < 2)
		return text_format(buffer, size, "%s", "");
	if (!heap_series_growing(g, s))
		return text_format(buffer, size, "stopped growing");
	return text_format(buffer, size, "still growing, %s/min",
			   text_bytes(rate, sizeof(rate), 60 * heap_series_rate(g, s)));
}

/* ---- tables ---- */

struct growth_row {
	const struct heap_series *series;
	double grown;
	uint64_t last;
};

static int compare_rows(const void *a, const void *b)
{
	const struct growth_row *x = a, *y = b;

	if (x->grown != y->grown)
		return (x->grown < y->grown) - (x->grown > y->grown);
	return (x->last < y->last) - (x->last > y->last);
}

/* As many values as fit, the first and the last among them. */
static char *text_curve(char *buffer, size_t size, const struct output *o,
			const struct heap_growth *g, const struct heap_series *s)
{
	size_t columns = g->moments < CURVE_COLUMNS ? g->moments : CURVE_COLUMNS;
	double value[CURVE_COLUMNS];

	for (size_t i = 0; i < columns; i++) {
		size_t moment = columns > 1 ? i * (g->moments - 1) / (columns - 1) : 0;

		value[i] = (double)heap_series_at(s, moment).bytes;
	}
	return text_sparkline(buffer, size, o, value, columns);
}

static void put_row(struct table *t, const struct heap_growth *g, const struct heap_view *view,
		    bool types, const struct growth_row *row)
{
	const struct heap_series *s = row->series;
	char curve[CURVE_TEXT], words[2 * FIGURE_TEXT], bytes[FIGURE_TEXT];

	table_row(t);
	heap_put_name(COLUMN(t, types ? "TYPE OR SIZE" : "HELD BY"), view, s->name,
		      HEAP_NAME_COLUMNS);
	heap_put_name(COLUMN(t, "", false, 3, STYLE_DIM), view, s->where, WHERE_COLUMNS);
	COLUMN(t, "GREW", true, 0, STYLE_MORE);
	if (row->grown > 0)
		table_format(t, "+%s", text_bytes(bytes, sizeof(bytes), row->grown));
	else
		table_cell(t, "");
	table_bytes(COLUMN(t, "FROM", true, 2), (double)heap_series_at(s, 0).bytes);
	table_bytes(COLUMN(t, "TO", true), (double)row->last);
	table_cell(COLUMN(t, "", false, 1, STYLE_BAR),
		   text_curve(curve, sizeof(curve), &view->out, g, s));
	table_cell(COLUMN(t, "", false, 4, STYLE_DIM), text_words(words, sizeof(words), g, s));
}

static bool print_rows(const struct heap_growth *g, const struct heap_view *view, bool types,
		       struct growth_row *row, size_t rows)
{
	struct table *t = table_new(&view->out);
	bool any = false;

	if (rows)
		qsort(row, rows, sizeof(*row), compare_rows);
	for (size_t i = 0; i < rows && i < view->top; i++)
		if (g->moments == 1 || row[i].grown > 0) {
			put_row(t, g, view, types, &row[i]);
			any = true;
		}
	puts("");
	if (!any)
		print_wrapped(&view->out, STYLE_PLAIN, 2, "No %s grew.", types ? "type" : "holder");
	return table_end(t, 2);
}

static bool print_series(const struct heap_growth *g, const struct heap_view *view, bool types)
{
	struct growth_row *row = calloc(g->count + 1, sizeof(*row));
	size_t rows = 0;
	bool good;

	for (size_t i = 0; row && i < g->count; i++)
		if ((g->series[i].kind == HEAP_SERIES_TYPE) == types)
			row[rows++] = (struct growth_row){
			    .series = &g->series[i],
			    .grown = heap_series_grown(g, &g->series[i]),
			    .last = heap_series_at(&g->series[i], g->moments - 1).bytes};
	good = row && print_rows(g, view, types, row, rows);
	free(row);
	return good;
}

int heap_growth_print_text(const struct heap_growth *g, const struct heap_view *view)
{
	bool good = true;

	print_pictures(g, &view->out);
	if (!view->by_given || view->by == HEAP_BY_HOLDER)
		good = print_series(g, view, false);
	if (good && (!view->by_given || view->by == HEAP_BY_TYPE))
		good = print_series(g, view, true);
	return good ? cli_finish() : cli_error("out of memory");
}
