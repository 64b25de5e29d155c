/* SPDX-License-Identifier: Apache-2.0 */
/* report_reallocs.c: chains of realloc by the row of their last block. */
#include "cli/report/report.h"

#include <inttypes.h>

#include "answer/json_views.h"

static double mean(uint64_t sum, uint64_t count)
{
	return count ? (double)sum / (double)count : 0;
}

static void put_chain_cells(struct table *t, const struct report *r, const void *answer, size_t row)
{
	const struct mayfly_reallocs *a = answer;
	const struct mayfly_growth *g = &a->growth[row];
	char first[FIGURE_TEXT], last[FIGURE_TEXT];

	table_bytes(COLUMN(t, "COPIED", true), (double)g->copied_bytes);
	table_percent(COLUMN(t, "%", true, 1), (double)g->copied_bytes,
		      (double)a->total.copied_bytes);
	table_count(COLUMN(t, "REALLOCS", true), (double)g->steps);
	table_count(COLUMN(t, "CHAINS", true), (double)g->chains);
	table_format(COLUMN(t, "LONGEST", true, 3), "%" PRIu64, g->longest);
	/* "48 B → 1.2 KiB", the means of first and last sizes. */
	table_format(COLUMN(t, "SIZE", true, 2), "%s %s %s",
		     text_bytes(first, sizeof(first), mean(g->first_bytes, g->chains)),
		     r->out.utf8 ? "→" : "->",
		     text_bytes(last, sizeof(last), mean(g->last_bytes, g->chains)));
}

static bool has_chains(const void *answer, size_t row)
{
	const struct mayfly_reallocs *a = answer;

	return a->growth[row].chains > 0;
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
	return report_print_rows(
		   r, &(struct keyed_rows){a->row, a->rows, a, put_chain_cells, has_chains})
		   ? cli_finish()
		   : cli_error("out of memory");
}

int report_print_reallocs(struct report *r)
{
	struct mayfly_reallocs *a;

	return REPORT_ANSWER(
	    r, mayfly_reallocs_run(r->file.trace, &r->q.query, report_rows_wanted(r), &a),
	    json_reallocs(&j, r->file.trace, &r->q.query, a), print_reallocs(r, a),
	    mayfly_reallocs_free(a));
}
