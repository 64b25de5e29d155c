/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report_churn.c: what each row allocated, and how much of it was live on average.
 *
 * Rows are ranked by what they allocated. A ranking by churn would begin with rows that allocate a
 * few bytes for a moment.
 */
#include "cli/report/report.h"

#include <math.h>

#include "answer/json_views.h"

static char *text_churn(char *buffer, size_t size, double churn)
{
	if (isinf(churn))
		snprintf(buffer, size, "-");
	else if (churn < 100)
		snprintf(buffer, size, "%.*f", churn < 9.995 ? 2 : 1, churn);
	else
		text_count(buffer, size, churn);
	return buffer;
}

static void put_churn_cells(struct table *t, const struct report *r, const void *answer, size_t row)
{
	const struct mayfly_churn *c = answer;
	const struct mayfly_estimate *e = sorted_by(&r->q.query, &c->row[row]);
	double bytes = e->bytes.estimate, live = c->mean_live[row];
	char text[FIGURE_TEXT];

	report_put_estimate(t, &(struct column){"ALLOCATED", true}, 1, e, &c->total);
	table_bytes(COLUMN(t, "MEAN LIVE", true), live);
	table_cell(COLUMN(t, "CHURN", true, 0, STYLE_BOLD),
		   text_churn(text, sizeof(text), churn_rate(bytes, live)));
	table_duration(COLUMN(t, "LIFETIME", true, 2), churn_lifetime(c, bytes, live));
}

static int print_churn(const struct report *r, const struct mayfly_churn *c)
{
	char figure[128], live[FIGURE_TEXT], from[FIGURE_TEXT], to[FIGURE_TEXT], window[200] = "";

	if (r->q.window_given)
		snprintf(window, sizeof(window), " from %s to %s",
			 text_duration(from, sizeof(from), (double)c->from_ns),
			 text_duration(to, sizeof(to), (double)c->to_ns));
	print_wrapped(&r->out, STYLE_BOLD, 0,
		      "Churn by %s: %s allocated%s, %s of it live on average%s", report_by_text(r),
		      text_estimate(figure, sizeof(figure), r->out.utf8, &c->total), window,
		      text_bytes(live, sizeof(live), c->mean_live_total),
		      r->q.filtered ? "; filtered" : "");
	if (!(c->total.bytes.estimate > 0)) {
		report_print_none(r);
		return cli_finish();
	}
	print_wrapped(&r->out, STYLE_DIM, 2,
		      "CHURN: bytes allocated for each byte that is live on average; LIFETIME: how "
		      "long a byte lives, on average");
	if (!report_print_rows(r, &(struct keyed_rows){c->row, c->rows, c, put_churn_cells, NULL}))
		return cli_error("out of memory");
	report_print_legend(r);
	return cli_finish();
}

int report_print_churn(struct report *r)
{
	struct mayfly_churn *a;

	return REPORT_ANSWER(
	    r, mayfly_churn_run(r->file.trace, &r->q.query, report_rows_wanted(r), &a),
	    json_churn(&j, r->file.trace, &r->q.query, a), print_churn(r, a), mayfly_churn_free(a));
}
