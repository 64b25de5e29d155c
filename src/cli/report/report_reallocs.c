/* SPDX-License-Identifier: Apache-2.0 */
/* report_reallocs.c: chains of realloc by the row of their last block. */
#include "cli/report/report.h"

#include <inttypes.h>
#include <string.h>

static double mean(uint64_t sum, uint64_t count)
{
	return count ? (double)sum / (double)count : 0;
}

/* ---- text ---- */

/* "48 B → 1.2 KB", the means of first and last sizes. */
static char *text_growth(char *buffer, size_t size, const struct report *r,
			 const struct mayfly_growth *g)
{
	char first[FIGURE_TEXT], last[FIGURE_TEXT];

	snprintf(buffer, size, "%s %s %s",
		 text_bytes(first, sizeof(first), mean(g->first_bytes, g->chains)),
		 r->out.utf8 ? "→" : "->",
		 text_bytes(last, sizeof(last), mean(g->last_bytes, g->chains)));
	return buffer;
}

static bool put_row(struct table *t, const struct report *r, const struct mayfly_reallocs *a,
		    size_t row)
{
	bool others = row + 1 == a->rows;
	const struct mayfly_growth *g = &a->growth[row];
	char text[NAME_BYTES];

	if (!table_cell(t, text_bytes(text, sizeof(text), (double)g->copied_bytes)) ||
	    !table_cell(t, text_percent(text, sizeof(text), (double)g->copied_bytes,
					(double)a->total.copied_bytes)) ||
	    !table_cell(t, text_count(text, sizeof(text), (double)g->steps)) ||
	    !table_cell(t, text_count(text, sizeof(text), (double)g->chains)))
		return false;
	snprintf(text, sizeof(text), "%" PRIu64, g->longest);
	if (!table_cell(t, text) || !table_cell(t, text_growth(text, sizeof(text), r, g)))
		return false;
	if (r->q.query.by == MAYFLY_BY_STACK && !others)
		snprintf(text, sizeof(text), "%zu.", row + 1);
	else
		report_full_key(text, sizeof(text), r, &a->row[row], others);
	return table_cell(t, text);
}

static bool is_shown(const struct report *r, const struct mayfly_reallocs *a, size_t row)
{
	if (row + 1 == a->rows && r->q.query.sort == MAYFLY_SORT_TOTAL)
		return false;
	return a->growth[row].chains > 0;
}

static bool print_rows(const struct report *r, const struct mayfly_reallocs *a)
{
	bool stacks = r->q.query.by == MAYFLY_BY_STACK;
	struct column columns[] = {
	    {"COPIED", true, 0, STYLE_PLAIN, false},
	    {"%", true, 1, STYLE_PLAIN, false},
	    {"REALLOCS", true, 0, STYLE_PLAIN, false},
	    {"CHAINS", true, 0, STYLE_PLAIN, false},
	    {"LONGEST", true, 3, STYLE_PLAIN, false},
	    {"SIZE", true, 2, STYLE_PLAIN, false},
	    {stacks ? "STACK" : report_key_title(r), false, 0, STYLE_PLAIN, false}};
	struct table *t = table_new(columns, sizeof(columns) / sizeof(*columns));
	bool done = t != NULL;

	for (size_t i = 0; done && i < a->rows; i++)
		if (is_shown(r, a, i))
			done = put_row(t, r, a, i);
	if (done)
		table_print(t, &r->out, 0);
	table_free(t);
	if (done && stacks)
		report_print_numbered_stacks(r, a->row, a->rows - 1);
	return done;
}

static int print_text(const struct report *r, const struct mayfly_reallocs *a)
{
	char copied[FIGURE_TEXT], steps[FIGURE_TEXT], chains[FIGURE_TEXT];

	print_wrapped(&r->out, STYLE_BOLD, 0,
		      "Chains of realloc by %s of the last block: %s chain%s, %s realloc%s, "
		      "at most %s copied%s%s",
		      report_by_text(r),
		      text_count(chains, sizeof(chains), (double)a->total.chains),
		      a->total.chains == 1 ? "" : "s",
		      text_count(steps, sizeof(steps), (double)a->total.steps),
		      a->total.steps == 1 ? "" : "s",
		      text_bytes(copied, sizeof(copied), (double)a->total.copied_bytes),
		      r->q.window_given ? "; those whose last block is of that time" : "",
		      r->q.filtered ? "; filtered" : "");
	if (a->total.chains == 0) {
		puts(r->q.filtered || r->q.window_given ? "  No chain fits these options."
							: "  No block was reallocated.");
		return cli_finish();
	}
	print_wrapped(&r->out, STYLE_DIM, 2,
		      "LONGEST: the most reallocs of one block; SIZE: first and last, on average");
	if (!print_rows(r, a))
		return cli_error("out of memory");
	return cli_finish();
}

/* ---- JSON ---- */

static json_t *add_growth(json_t *object, const struct mayfly_growth *g)
{
	if (object && json_object_set_new(object, "chains", json_unsigned(g->chains)) == 0 &&
	    json_object_set_new(object, "reallocs", json_unsigned(g->steps)) == 0 &&
	    json_object_set_new(object, "longest_chain", json_unsigned(g->longest)) == 0 &&
	    json_object_set_new(object, "copied_bytes", json_unsigned(g->copied_bytes)) == 0 &&
	    json_object_set_new(object, "first_bytes", json_unsigned(g->first_bytes)) == 0 &&
	    json_object_set_new(object, "last_bytes", json_unsigned(g->last_bytes)) == 0)
		return object;
	json_decref(object);
	return NULL;
}

/* What a row has of estimates is of copied bytes and of chains, which it has as numbers here. */
static json_t *json_row(const struct report *r, const struct mayfly_row *row,
			const struct mayfly_growth *g)
{
	json_t *object = report_json_row(r, row);

	json_object_del(object, "self");
	json_object_del(object, "total");
	return add_growth(object, g);
}

static json_t *json_rows(const struct report *r, const struct mayfly_reallocs *a)
{
	json_t *list = json_array();

	for (size_t i = 0; list && i + 1 < a->rows; i++) {
		if (json_array_append_new(list, json_row(r, &a->row[i], &a->growth[i])) != 0) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

static int print_json(const struct report *r, const struct mayfly_reallocs *a)
{
	return json_print(json_pack("{s:s, s:s, s:o, s:o}", "by", by_names[r->q.query.by], "sort",
				    sort_names[r->q.query.sort], "total",
				    add_growth(json_object(), &a->total), "rows", json_rows(r, a)));
}

int report_print_reallocs(struct report *r)
{
	struct mayfly_reallocs *a;
	size_t rows = r->top ? r->top : SIZE_MAX;
	int error, status;

	r->q.query.stack_rows = report_stacks_needed(r, r->top);
	error = mayfly_reallocs_run(r->file.trace, &r->q.query, rows, &a);
	if (error)
		return report_failed(r, error);
	status = r->json ? print_json(r, a) : print_text(r, a);
	mayfly_reallocs_free(a);
	return status;
}
