/* SPDX-License-Identifier: Apache-2.0 */
/* What a heap wastes, as text: all of it, then by holder or by type. */
#include "cli/heap/heap_print.h"

#include <stdlib.h>
#include <string.h>

#include "cli/heap/heap_waste_figures.h"

/* ---- all of it ---- */

static uint32_t only_slot(void *context, uint32_t top)
{
	(void)context;
	(void)top;
	return 0;
}

struct heap_waste_sum heap_waste_all(const struct picture *p)
{
	struct heap_waste_sum sum = {0};

	heap_graph_waste(&p->graph, only_slot, NULL, &sum);
	return sum;
}

static void put_exact(struct table *t, const struct picture *p, const char *name, uint64_t bytes,
		      uint64_t blocks)
{
	table_row(t);
	table_cell(COLUMN(t, "WASTE"), name);
	table_bytes(COLUMN(t, "BYTES", true), (double)bytes);
	table_cell(COLUMN(t, "", false, 0, STYLE_DIM, true), "");
	table_percent(COLUMN(t, "", true, 0, STYLE_PLAIN, true), (double)bytes,
		      (double)p->graph.all.bytes);
	table_count(COLUMN(t, "BLOCKS", true), (double)blocks);
}

static void put_copies(struct table *t, const struct picture *p, const struct heap_waste_sum *all)
{
	const struct mayfly_estimate e = heap_waste_copies(&p->graph.waste, all);
	char count[FIGURE_TEXT];

	table_row(t);
	table_cell(t, "Copies of equal blocks");
	table_figure(t, 0, &e.bytes, e.samples);
	table_percent(t, e.bytes.estimate, (double)p->graph.all.bytes);
	table_cell(t, text_count_value(count, sizeof(count), &e.blocks, e.samples));
}

static bool print_all(const struct picture *p, const struct output *o)
{
	const struct heap_waste_sum all = heap_waste_all(p);
	struct table *t = table_new(o);

	put_exact(t, p, "Zero from begin to end", all.zero_bytes, all.zero_blocks);
	put_exact(t, p, "Zero words at the end", all.end_bytes, all.end_blocks);
	put_copies(t, p, &all);
	return table_end(t, 2);
}

/* ---- rows ---- */

struct waste_row {
	const struct heap_row *holder; /* NULL: of a kind */
	struct heap_kind kind;
	const struct heap_waste_sum *sum;
};

static int compare_rows(const void *a, const void *b)
{
	double x = heap_waste_weight(((const struct waste_row *)a)->sum);
	double y = heap_waste_weight(((const struct waste_row *)b)->sum);

	return (x < y) - (x > y);
}

static void put_bytes(struct table *t, uint64_t bytes)
{
	char text[FIGURE_TEXT];

	table_cell(t, bytes ? text_bytes(text, sizeof(text), (double)bytes) : "");
}

static void put_row(struct table *t, const struct picture *p, const struct heap_view *view,
		    const struct waste_row *row)
{
	const struct mayfly_estimate e = heap_waste_copies(&p->graph.waste, row->sum);
	char name[HEAP_NAME_TEXT], where[HEAP_NAME_TEXT] = "";

	if (row->holder)
		heap_row_text(name, sizeof(name), p, row->holder);
	else
		heap_kind_text(name, sizeof(name), p, row->kind, NULL);
	if (row->holder && row->holder->kind == HEAP_ROW_HOLDER)
		holder_where(where, sizeof(where), &p->holders.holder[row->holder->holder]);
	table_row(t);
	heap_put_name(COLUMN(t, view->by == HEAP_BY_TYPE ? "TYPE OR SIZE" : "HELD BY"), view, name,
		      HEAP_NAME_COLUMNS);
	put_bytes(COLUMN(t, "ALL ZERO", true), row->sum->zero_bytes);
	put_bytes(COLUMN(t, "ZERO AT THE END", true), row->sum->end_bytes);
	COLUMN(t, "COPIES", true);
	if (e.bytes.high > 0) {
		table_figure(t, 0, &e.bytes, e.samples);
	} else {
		table_cell(t, "");
		table_cell(COLUMN(t, "", false, 0, STYLE_DIM, true), "");
	}
	heap_put_name(COLUMN(t, "", false, 1, STYLE_DIM), view, where, HEAP_NAME_COLUMNS);
}

static bool print_rows(const struct picture *p, const struct heap_view *view, struct waste_row *row,
		       size_t rows)
{
	struct table *t = table_new(&view->out);

	if (rows)
		qsort(row, rows, sizeof(*row), compare_rows);
	for (size_t i = 0; i < rows && i < view->top; i++)
		if (heap_waste_weight(row[i].sum) > 0)
			put_row(t, p, view, &row[i]);
	if (table_rows(t))
		puts("");
	return table_end(t, 2);
}

static bool print_kinds(const struct picture *p, const struct heap_view *view)
{
	struct heap_kinds kinds;
	struct waste_row *row;
	bool good;

	if (!heap_kinds_find(&p->graph, &kinds))
		return false;
	row = calloc(kinds.count + 1, sizeof(*row));
	for (size_t i = 0; row && i < kinds.count; i++)
		row[i] = (struct waste_row){.kind = kinds.sum[i].kind, .sum = &kinds.sum[i].waste};
	good = row && print_rows(p, view, row, kinds.count);
	free(row);
	heap_kinds_free(&kinds);
	return good;
}

static bool print_holders(const struct picture *p, const struct heap_view *view,
			  const struct heap_rows *rows)
{
	struct waste_row *row = calloc(rows->count + 1, sizeof(*row));
	bool good;

	for (size_t i = 0; row && i < rows->count; i++)
		row[i] = (struct waste_row){.holder = &rows->row[i], .sum = &rows->row[i].waste};
	good = row && print_rows(p, view, row, rows->count);
	free(row);
	return good;
}

/* ---- texts ---- */

#define SHOWN_TEXT   (2 * HEAP_TEXT_BEGIN + 8) /* each byte can need two */
#define TEXT_COLUMNS 48

static void text_quote(char *out, const struct heap_text *text)
{
	static const char controls[] = "\t\n\r\"\\", letters[] = "tnr\"\\";
	char *to = out;

	*to++ = '"';
	for (uint32_t i = 0; i < text->begin_bytes; i++) {
		const char *control = strchr(controls, text->begin[i]);

		if (control)
			*to++ = '\\';
		*to++ = control ? letters[control - controls] : text->begin[i];
	}
	strcpy(to, text->begin_bytes < text->text_bytes ? "\"..." : "\"");
}

static double weight_of_text(const struct heap_waste *w, const struct heap_text *text)
{
	struct heap_waste_sum sum = {0};

	heap_waste_add_text(w, text, &sum);
	return heap_waste_weight(&sum);
}

struct ranked_text {
	const struct heap_text *text;
	double weight;
};

static int compare_texts(const void *a, const void *b)
{
	const struct ranked_text *x = a, *y = b;

	if (x->weight != y->weight)
		return x->weight < y->weight ? 1 : -1;
	return (x->text > y->text) - (x->text < y->text);
}

static void put_text(struct table *t, const struct picture *p, const struct heap_view *view,
		     const struct heap_text *text)
{
	struct heap_waste_sum sum = {0};
	struct mayfly_estimate e;
	char shown[SHOWN_TEXT], count[FIGURE_TEXT];

	heap_waste_add_text(&p->graph.waste, text, &sum);
	e = heap_waste_copies(&p->graph.waste, &sum);
	text_quote(shown, text);
	table_row(t);
	heap_put_name(COLUMN(t, "TEXT IN SEVERAL BLOCKS"), view, shown, TEXT_COLUMNS);
	table_figure(COLUMN(t, "COPIES", true), 0, &e.bytes, e.samples);
	table_cell(COLUMN(t, "BLOCKS", true),
		   text_count_value(count, sizeof(count), &e.blocks, e.samples));
}

static bool print_texts(const struct picture *p, const struct heap_view *view)
{
	const struct heap_waste *w = &p->graph.waste;
	struct ranked_text *ranked = calloc(w->texts + 1, sizeof(*ranked));
	struct table *t = ranked ? table_new(&view->out) : NULL;

	for (size_t i = 0; ranked && i < w->texts; i++)
		ranked[i] = (struct ranked_text){&w->text[i], weight_of_text(w, &w->text[i])};
	if (ranked && w->texts)
		qsort(ranked, w->texts, sizeof(*ranked), compare_texts);
	for (size_t i = 0; ranked && i < w->texts && i < view->top; i++)
		put_text(t, p, view, ranked[i].text);
	free(ranked);
	if (t)
		puts(table_rows(t) ? "" : "\n  No text is in several blocks.");
	return t && table_end(t, 2);
}

static void print_notes(const struct picture *p, const struct output *o)
{
	const struct heap_waste *w = &p->graph.waste;
	char text[FIGURE_TEXT];

	puts("");
	print_wrapped(
	    o, STYLE_DIM, 2,
	    "Zeros can be data: that they are unused is a guess. A block can have zeros at "
	    "its end and be a copy, too.");
	if (w->interval)
		print_wrapped(o, STYLE_DIM, 2,
			      "Copies are an estimate: contents are known of one byte in %s.",
			      text_bytes(text, sizeof(text), (double)w->interval));
	if (w->unread)
		print_wrapped(o, STYLE_NOTE, 2, "%s blocks could not be read, and are left out.",
			      text_count(text, sizeof(text), (double)w->unread));
}

bool heap_print_waste(const struct picture *p, const struct heap_view *view,
		      const struct heap_rows *rows)
{
	if (!print_all(p, &view->out) ||
	    !(view->by == HEAP_BY_TYPE ? print_kinds(p, view) : print_holders(p, view, rows)) ||
	    (view->strings && !print_texts(p, view)))
		return false;
	print_notes(p, &view->out);
	return true;
}
