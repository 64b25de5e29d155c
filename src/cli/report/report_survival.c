/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mayfly report --survival: for each place that allocates in OCaml's minor heap, how much of that
 * is promoted, how soon, and how long blocks live.
 */
#include "cli/report/report.h"

#include <inttypes.h>
#include <string.h>

#define LOCATION_COLUMNS 36

struct view {
	const struct report *r;
	const struct mayfly_survival *survival;
};

/* ---- figures ---- */

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

/* "1.2 ms" and "0.9 ms..1.6 ms"; a time that the recording did not see is its end. */
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

static bool put_share(struct table *t, const struct mayfly_figure *f)
{
	char value[FIGURE_TEXT], range[FIGURE_TEXT];

	share_texts(value, range, sizeof(value), f);
	return table_cell(t, value) && table_cell(t, range);
}

static bool put_time(struct table *t, const struct mayfly_quantile *q)
{
	char value[2 * FIGURE_TEXT + 2], range[2 * FIGURE_TEXT + 2];

	time_texts(value, range, sizeof(value), q);
	return table_cell(t, value) && table_cell(t, range);
}

/* ---- the table ---- */

static bool put_location(struct table *t, const struct view *v, const struct mayfly_row *key)
{
	char text[NAME_BYTES], fitted[NAME_BYTES];
	size_t room = (size_t)v->r->out.width / 4;

	location_text(text, sizeof(text), key->file, key->line, *key->function ? key->module : "-",
		      v->r->out.wide);
	return table_cell(t, line_fit(fitted, sizeof(fitted), &v->r->out, text,
				      room < LOCATION_COLUMNS ? room : LOCATION_COLUMNS));
}

static bool put_row(struct table *t, const struct view *v, const struct mayfly_survival_row *row)
{
	const struct mayfly_figure *bytes = &row->allocated.bytes;
	char text[NAME_BYTES];

	text_figure_value(text, sizeof(text), bytes, row->allocated.samples);
	if (!table_cell(t, text))
		return false;
	text_figure_error(text, sizeof(text), &v->r->out, bytes, row->allocated.samples);
	if (!table_cell(t, text) || !put_share(t, &row->promoted) ||
	    !put_time(t, &row->promotion_median) || !put_time(t, &row->promotion_p90) ||
	    !put_time(t, &row->lifetime_median) || !put_share(t, &row->collected))
		return false;
	snprintf(text, sizeof(text), "%" PRIu64, row->allocated.samples);
	if (!table_cell(t, text))
		return false;
	if (v->r->q.query.by == MAYFLY_BY_LINE && !put_location(t, v, row->key))
		return false;
	row_name(text, sizeof(text), row->key);
	return table_cell(t, text);
}

static size_t set_columns(struct column *c, const struct view *v)
{
	enum mayfly_by by = v->r->q.query.by;
	size_t n = 0;

	c[n++] = (struct column){"ALLOCATED", true, 0, STYLE_PLAIN, false};
	c[n++] = (struct column){"", false, 6, STYLE_DIM, true};
	c[n++] = (struct column){"PROMOTED", true, 0, STYLE_PLAIN, false};
	c[n++] = (struct column){"", false, 1, STYLE_DIM, true};
	c[n++] = (struct column){"AFTER", true, 0, STYLE_PLAIN, false};
	c[n++] = (struct column){"", false, 7, STYLE_DIM, true};
	c[n++] = (struct column){"90 %", true, 3, STYLE_PLAIN, false};
	c[n++] = (struct column){"", false, 9, STYLE_DIM, true};
	c[n++] = (struct column){"LIFE", true, 2, STYLE_PLAIN, false};
	c[n++] = (struct column){"", false, 8, STYLE_DIM, true};
	c[n++] = (struct column){"DIED YOUNG", true, 4, STYLE_PLAIN, false};
	c[n++] = (struct column){"", false, 10, STYLE_DIM, true};
	c[n++] = (struct column){"SAMPLES", true, 5, STYLE_DIM, false};
	if (by == MAYFLY_BY_LINE)
		c[n++] = (struct column){"LINE", false, 0, STYLE_PLAIN, false};
	c[n++] = (struct column){by == MAYFLY_BY_MODULE ? "MODULE" : "FUNCTION", false, 0,
				 STYLE_PLAIN, false};
	return n;
}

/* ---- which rows ---- */

struct rest {
	size_t few, more;
};

/* Calls show() with each row that is shown, in their order. */
static bool each_row(const struct view *v, struct rest *rest,
		     bool (*show)(void *context, const struct mayfly_survival_row *row),
		     void *context)
{
	size_t top = v->r->all ? 0 : v->r->top, shown = 0;
	bool few_too = v->r->all || !top;

	*rest = (struct rest){0};
	for (size_t i = 0; i < v->survival->rows; i++) {
		const struct mayfly_survival_row *row = &v->survival->row[i];

		if (!(row->allocated.bytes.estimate > 0))
			continue; /* on stacks only */
		if (!few_too &&
		    figure_sureness(&row->allocated.bytes, row->allocated.samples) < FIGURE_RANGE)
			rest->few++;
		else if (top && shown >= top)
			rest->more++;
		else if (shown++, !show(context, row))
			return false;
	}
	return true;
}

static void print_rest(const struct rest *rest)
{
	if (rest->more)
		printf("  %zu more (--top 0 shows all)\n", rest->more);
	if (rest->few)
		printf("  %zu other%s with fewer than 4 samples (--all shows %s)\n", rest->few,
		       rest->few == 1 ? "" : "s", rest->few == 1 ? "it" : "them");
}

/* ---- text ---- */

#define MOST_COLUMNS 16

struct put {
	const struct view *v;
	struct table *table;
	size_t number;
};

static bool show_in_table(void *context, const struct mayfly_survival_row *row)
{
	struct put *p = context;

	return put_row(p->table, p->v, row);
}

static bool print_table(const struct view *v, struct rest *rest)
{
	struct column columns[MOST_COLUMNS];
	struct put p = {.v = v, .table = table_new(columns, set_columns(columns, v))};
	bool done = p.table && each_row(v, rest, show_in_table, &p);

	if (done && table_rows(p.table))
		table_print(p.table, &v->r->out, 0);
	table_free(p.table);
	return done;
}

/* What the whole, or a stack, comes to, in a sentence. */
static void row_text(char *buffer, size_t size, const struct view *v,
		     const struct mayfly_survival_row *row)
{
	char figure[FIGURE_TEXT], promoted[2][FIGURE_TEXT], young[2][FIGURE_TEXT];
	char after[2][2 * FIGURE_TEXT + 2], life[2][2 * FIGURE_TEXT + 2];
	bool good = row->promotion_median.samples > 0;
	bool to_end = row->lifetime_median.estimate_ns == INT64_MAX;

	text_figure(figure, sizeof(figure), &v->r->out, &row->allocated.bytes,
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

static bool show_stack(void *context, const struct mayfly_survival_row *row)
{
	struct put *p = context;
	char text[1024];

	row_text(text, sizeof(text), p->v, row);
	if (p->number++)
		putchar('\n');
	print_wrapped(&p->v->r->out, STYLE_BOLD, STACK_INDENT, "%3zu. %s", p->number, text);
	print_stack(&p->v->r->out, row->key->stack, row->key->stack_length, p->v->r->depth);
	return true;
}

static int print_text(const struct view *v)
{
	struct put stacks = {.v = v};
	struct rest rest = {0};
	char text[1024];

	row_text(text, sizeof(text), v, &v->survival->all);
	print_wrapped(&v->r->out, STYLE_BOLD, 0, "Allocated in OCaml's minor heap, by %s: %s",
		      by_names[v->r->q.query.by], text);
	if (!v->survival->all.allocated.samples)
		puts("  No such block was sampled.");
	else if (v->r->q.query.by == MAYFLY_BY_STACK)
		each_row(v, &rest, show_stack, &stacks);
	else if (!print_table(v, &rest))
		return cli_error("out of memory");
	print_rest(&rest);
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

/* ---- JSON ---- */

static json_t *json_share(const struct mayfly_figure *f)
{
	return json_pack("{s:f, s:f, s:f, s:f}", "estimate", f->estimate, "stderr", f->stderror,
			 "low", f->low, "high", f->high);
}

static json_t *json_time(int64_t ns)
{
	return ns == INT64_MAX ? json_null() : json_integer(ns);
}

static json_t *json_quantile(const struct mayfly_quantile *q)
{
	if (!q->samples)
		return json_null();
	return json_pack("{s:o, s:o, s:o, s:o}", "estimate", json_time(q->estimate_ns), "low",
			 json_time(q->low_ns), "high", json_time(q->high_ns), "samples",
			 json_unsigned(q->samples));
}

static json_t *json_figures(const struct mayfly_survival_row *row)
{
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "allocated",
			 json_estimate(&row->allocated), "promoted", json_share(&row->promoted),
			 "died_young", json_share(&row->collected), "promotion_median_ns",
			 json_quantile(&row->promotion_median), "promotion_p90_ns",
			 json_quantile(&row->promotion_p90), "lifetime_median_ns",
			 json_quantile(&row->lifetime_median));
}

struct list {
	const struct view *v;
	json_t *rows;
};

static bool add_row(void *context, const struct mayfly_survival_row *row)
{
	struct list *l = context;
	json_t *o = report_json_key(l->v->r, row->key), *figures = json_figures(row);
	bool done = o && figures && json_object_update(o, figures) == 0;

	json_decref(figures);
	if (done)
		return json_array_append_new(l->rows, o) == 0;
	json_decref(o);
	return false;
}

static int print_json(const struct view *v)
{
	struct report all = *v->r;
	struct view every = {&all, v->survival};
	struct list l = {.v = v, .rows = json_array()};
	json_t *total = json_figures(&v->survival->all);
	struct rest rest;

	all.all = !v->r->top_given;
	if (!l.rows || !total || !each_row(&every, &rest, add_row, &l)) {
		json_decref(l.rows);
		json_decref(total);
		return cli_error("out of memory");
	}
	return json_print(json_pack("{s:s, s:o, s:o}", "by", by_names[v->r->q.query.by], "total",
				    total, "rows", l.rows));
}

/* ---- the answer ---- */

int report_print_survival(struct report *r)
{
	const struct mayfly_info *info = r->file.info;
	struct mayfly_survival *survival;
	struct view v = {.r = r};
	int error, status;

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
		return cli_error("%s: has no blocks of OCaml's minor heap, which --survival is "
				 "about",
				 r->path);
	error = mayfly_survival_run(r->file.trace, &r->q.query, &survival);
	if (error)
		return report_failed(r, error);
	v.survival = survival;
	status = r->json ? print_json(&v) : print_text(&v);
	mayfly_survival_free(survival);
	return status;
}
