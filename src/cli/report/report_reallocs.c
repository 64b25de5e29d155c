/* SPDX-License-Identifier: Apache-2.0 */
/* report_reallocs.c: chains of realloc by the row of their last block. */
#include "cli/report/report.h"

#include <inttypes.h>

#include "answer/json_views.h"
#include "answer/text_format.h"

static double mean(uint64_t sum, uint64_t count)
{
	return count ? (double)sum / (double)count : 0;
}

/* "48 B → 1.2 KiB", the means of first and last sizes. */
static char *text_growth(char *buffer, size_t size, const struct report *r,
			 const struct mayfly_growth *g)
{
	char first[FIGURE_TEXT], last[FIGURE_TEXT];

	return text_format(buffer, size, "%s %s %s",
			   text_bytes(first, sizeof(first), mean(g->first_bytes, g->chains)),
			   r->out.utf8 ? "→" : "->",
			   text_bytes(last, sizeof(last), mean(g->last_bytes, g->chains)));
}

static bool put_chain_cells(struct table *t, const struct report *r, const void *answer, size_t row)
{
	const struct mayfly_reallocs *a = answer;
	const struct mayfly_growth *g = &a->growth[row];
	char text[256];

	if (!table_cell(t, text_bytes(text, sizeof(text), (double)g->copied_bytes)) ||
	    !table_cell(t, text_percent(text, sizeof(text), (double)g->copied_bytes,
					(double)a->total.copied_bytes)) ||
	    !table_cell(t, text_count(text, sizeof(text), (double)g->steps)) ||
	    !table_cell(t, text_count(text, sizeof(text), (double)g->chains)))
		return false;
	snprintf(text, sizeof(text), "%" PRIu64, g->longest);
	return table_cell(t, text) && table_cell(t, text_growth(text, sizeof(text), r, g));
}

static bool has_chains(const void *answer, size_t row)
{
	const struct mayfly_reallocs *a = answer;

	return a->growth[row].chains > 0;
}

static bool print_chain_rows(const struct report *r, const struct mayfly_reallocs *a)
{
	struct column columns[] = {{"COPIED", true, 0, STYLE_PLAIN, false},
				   {"%", true, 1, STYLE_PLAIN, false},
				   {"REALLOCS", true, 0, STYLE_PLAIN, false},
				   {"CHAINS", true, 0, STYLE_PLAIN, false},
				   {"LONGEST", true, 3, STYLE_PLAIN, false},
				   {"SIZE", true, 2, STYLE_PLAIN, false},
				   {0}};

	return report_print_rows(r, &(struct keyed_rows){columns,
							 sizeof(columns) / sizeof(*columns), a->row,
							 a->rows, a, put_chain_cells, has_chains});
}

static int print_reallocs(const struct report *r, const struct mayfly_reallocs *a)
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
		puts(r->q.filtered || r->q.window_given ? "  No chain matches these options."
							: "  No block was reallocated.");
		return cli_finish();
	}
	print_wrapped(&r->out, STYLE_DIM, 2,
		      "LONGEST: the most reallocs of one block; SIZE: first and last, on average");
	return print_chain_rows(r, a) ? cli_finish() : cli_error("out of memory");
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
	if (r->json) {
		struct json j = json_document();

		json_reallocs(&j, r->file.trace, &r->q.query, a);
		status = json_print(&j);
	} else {
		status = print_reallocs(r, a);
	}
	mayfly_reallocs_free(a);
	return status;
}
