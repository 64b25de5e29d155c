/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mayfly report --survival: for each place that allocates in OCaml's minor heap, how much of that
 * is promoted, how soon, and how long blocks live.
 */
#include "cli/report/report.h"

#include <inttypes.h>

#include "answer/json_views.h"

struct survival_view {
	const struct report *r;
	const struct mayfly_survival *survival;
};

/* "41 %" and "35..47 %". */
static void share_texts(char *value, char *range, size_t size, const struct mayfly_figure *f)
{
	snprintf(value, size, "%.*f %%", f->estimate < 0.0995 ? 1 : 0, 100 * f->estimate);
	*range = 0;
	if (f->low < f->high)
		snprintf(range, size, "%.*f..%.*f", f->high < 0.0995 ? 1 : 0, 100 * f->low,
			 f->high < 0.0995 ? 1 : 0, 100 * f->high);
}

static const char *time_text(char *buffer, size_t size, int64_t ns)
{
	if (ns == INT64_MAX)
		snprintf(buffer, size, "end");
	else
		text_duration(buffer, size, (double)ns);
	return buffer;
}

/* "1.2 ms" and "0.9 ms..1.6 ms"; times after the end of the recording are "end". */
static void time_texts(char *value, char *range, size_t size, const struct mayfly_quantile *q)
{
	char low[FIGURE_TEXT], high[FIGURE_TEXT];

	*value = *range = 0;
	if (!q->samples)
		return;
	time_text(value, size, q->estimate_ns);
	if (q->low_ns < q->high_ns)
		snprintf(range, size, "%s..%s", time_text(low, sizeof(low), q->low_ns),
			 time_text(high, sizeof(high), q->high_ns));
}

/* Two columns: the value, and its range, which is left out first with this `drop`. */
static void put_texts(struct table *t, int drop, const char *value, const char *range)
{
	table_cell(t, value);
	table_cell(COLUMN(t, "", false, drop, STYLE_DIM, true), range);
}

static void put_share_cells(struct table *t, int drop, const struct mayfly_figure *f)
{
	char value[FIGURE_TEXT], range[FIGURE_TEXT];

	share_texts(value, range, sizeof(value), f);
	put_texts(t, drop, value, range);
}

static void put_quantile_cells(struct table *t, int drop, const struct mayfly_quantile *q)
{
	char value[2 * FIGURE_TEXT + 2], range[2 * FIGURE_TEXT + 2];

	time_texts(value, range, sizeof(value), q);
	put_texts(t, drop, value, range);
}

static void put_survival_cells(struct table *t, const struct survival_view *v,
			       const struct mayfly_survival_row *row)
{
	char text[NAME_BYTES];

	table_figure(COLUMN(t, "ALLOCATED", true), 6, &row->allocated.bytes,
		     row->allocated.samples);
	put_share_cells(COLUMN(t, "PROMOTED", true), 1, &row->promoted);
	put_quantile_cells(COLUMN(t, "AFTER", true), 7, &row->promotion_median);
	put_quantile_cells(COLUMN(t, "90 %", true, 3), 9, &row->promotion_p90);
	put_quantile_cells(COLUMN(t, "LIFE", true, 2), 8, &row->lifetime_median);
	put_share_cells(COLUMN(t, "DIED YOUNG", true, 4), 10, &row->collected);
	table_format(COLUMN(t, "SAMPLES", true, 5, STYLE_DIM), "%" PRIu64, row->allocated.samples);
	if (v->r->q.query.by == MAYFLY_BY_LINE)
		report_put_location(t, v->r, row->key, (size_t)v->r->out.width / 4);
	table_cell(COLUMN(t, v->r->q.query.by == MAYFLY_BY_MODULE ? "MODULE" : "FUNCTION"),
		   row_name(text, sizeof(text), row->key));
}

struct left_rows {
	size_t few, more;
};

/* Calls show() with each row that is shown, in their order. */
static void each_row(const struct survival_view *v, struct left_rows *rest,
		     void (*show)(void *context, const struct mayfly_survival_row *row),
		     void *context)
{
	size_t top = v->r->all ? 0 : v->r->top, shown = 0;
	bool few_too = v->r->all || !top;

	*rest = (struct left_rows){0};
	for (size_t i = 0; i < v->survival->rows; i++) {
		const struct mayfly_survival_row *row = &v->survival->row[i];

		if (!(row->allocated.bytes.estimate > 0))
			continue; /* on stacks only */
		if (!few_too && !survival_is_ranked(row))
			rest->few++;
		else if (top && shown >= top)
			rest->more++;
		else {
			show(context, row);
			shown++;
		}
	}
}

static void print_left_rows(const struct left_rows *rest)
{
	if (rest->more)
		printf("  %zu more (--top 0 shows all)\n", rest->more);
	if (rest->few)
		printf("  %zu other%s with fewer than 4 samples (--all shows %s)\n", rest->few,
		       rest->few == 1 ? "" : "s", rest->few == 1 ? "it" : "them");
}

struct put_context {
	const struct survival_view *v;
	struct table *table;
	size_t number;
};

static void show_in_table(void *context, const struct mayfly_survival_row *row)
{
	struct put_context *p = context;

	table_row(p->table);
	put_survival_cells(p->table, p->v, row);
}

static bool print_survival_table(const struct survival_view *v, struct left_rows *rest)
{
	struct put_context p = {.v = v, .table = table_new(&v->r->out)};

	each_row(v, rest, show_in_table, &p);
	return table_end(p.table, 0);
}

/* The figures of all rows, or of a stack, in a sentence. */
static void row_text(char *buffer, size_t size, const struct survival_view *v,
		     const struct mayfly_survival_row *row)
{
	char figure[FIGURE_TEXT], promoted[2][FIGURE_TEXT], young[2][FIGURE_TEXT];
	char after[2][2 * FIGURE_TEXT + 2], life[2][2 * FIGURE_TEXT + 2];
	bool good = row->promotion_median.samples > 0;
	bool to_end = row->lifetime_median.estimate_ns == INT64_MAX;

	text_figure(figure, sizeof(figure), v->r->out.utf8, &row->allocated.bytes,
		    row->allocated.samples);
	share_texts(promoted[0], promoted[1], sizeof(promoted[0]), &row->promoted);
	share_texts(young[0], young[1], sizeof(young[0]), &row->collected);
	time_texts(after[0], after[1], sizeof(after[0]), &row->promotion_median);
	time_texts(life[0], life[1], sizeof(life[0]), &row->lifetime_median);
	snprintf(buffer, size,
		 "%s, %s promoted (%s)%s%s%s%s%s, half live %s %s, %s died "
		 "young, %" PRIu64 " %s",
		 figure, promoted[0], *promoted[1] ? promoted[1] : "exact",
		 good ? ", half of that within " : "", after[0], *after[1] ? " (" : "", after[1],
		 *after[1] ? ")" : "", to_end ? "to the" : "longer than", life[0], young[0],
		 row->allocated.samples, samples_word(row->allocated.samples));
}

static void show_stack(void *context, const struct mayfly_survival_row *row)
{
	struct put_context *p = context;
	char text[1024];

	row_text(text, sizeof(text), p->v, row);
	if (p->number++)
		putchar('\n');
	print_wrapped(&p->v->r->out, STYLE_BOLD, STACK_INDENT, "%3zu. %s", p->number, text);
	print_stack(&p->v->r->out, row->key->stack, row->key->stack_length, p->v->r->depth);
}

static int print_survival(const struct survival_view *v)
{
	struct put_context stacks = {.v = v};
	struct left_rows rest = {0};
	char text[1024];

	row_text(text, sizeof(text), v, &v->survival->all);
	print_wrapped(&v->r->out, STYLE_BOLD, 0, "Allocated in OCaml's minor heap, by %s: %s",
		      by_names[v->r->q.query.by], text);
	if (!v->survival->all.allocated.samples)
		puts("  No such block was sampled.");
	else if (v->r->q.query.by == MAYFLY_BY_STACK)
		each_row(v, &rest, show_stack, &stacks);
	else if (!print_survival_table(v, &rest))
		return cli_error("out of memory");
	print_left_rows(&rest);
	putchar('\n');
	print_wrapped(
	    &v->r->out, STYLE_DIM, 0,
	    "PROMOTED: share of the bytes that reached the major heap; AFTER: the time by "
	    "which half of that had, 90 %%: by which 90 %% had; LIFE: half of all bytes "
	    "lived longer; DIED YOUNG: share that was collected in the minor heap. "
	    "%sa..b: 95 %% interval; end: beyond the end of the program.",
	    v->r->out.utf8 ? "±, " : "+-, ");
	return cli_finish();
}

int report_print_survival(struct report *r)
{
	const struct mayfly_info *info = r->file.info;
	struct mayfly_survival *a;

	if (info->snapshot_ns && info->absent)
		return cli_error("%s: the file that it comes from does not have single blocks, "
				 "which --survival needs",
				 r->path);
	if (info->snapshot_ns)
		return cli_error("%s: a trace of snapshots has no single blocks, which --survival "
				 "needs; record without --snapshots",
				 r->path);
	/* A trace that was cut off does not say which heaps it has. */
	if ((info->heaps || info->complete) && !(info->heaps & 1u << MAYFLY_HEAP_OCAML_MINOR))
		return cli_error("%s: has no blocks of OCaml's minor heap for --survival to show",
				 r->path);
	return REPORT_ANSWER(
	    r, mayfly_survival_run(r->file.trace, &r->q.query, &a),
	    json_survival(&j, r->file.trace, &r->q.query, a, r->top_given ? r->top : 0),
	    print_survival(&(struct survival_view){r, a}), mayfly_survival_free(a));
}
