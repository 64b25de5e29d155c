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

static bool put_churn_cells(struct table *t, const struct report *r, const void *answer, size_t row)
{
	const struct mayfly_churn *c = answer;
	const struct mayfly_estimate *e = sorted_by(&r->q.query, &c->row[row]);
	double bytes = e->bytes.estimate, live = c->mean_live[row];
	char text[FIGURE_TEXT];

	if (!report_put_estimate(t, r, e, &c->total) ||
	    !table_cell(t, text_bytes(text, sizeof(text), live)) ||
	    !table_cell(t, text_churn(text, sizeof(text), churn_rate(bytes, live))))
		return false;
	text_duration(text, sizeof(text), churn_lifetime(c, bytes, live));
	return table_cell(t, text);
}

static bool print_churn_rows(const struct report *r, const struct mayfly_churn *c)
{
	struct column columns[] = {{"ALLOCATED", true, 0, STYLE_PLAIN, false},
				   {"", false, 0, STYLE_DIM, true},
				   {"%", true, 1, STYLE_PLAIN, false},
				   {"MEAN LIVE", true, 0, STYLE_PLAIN, false},
				   {"CHURN", true, 0, STYLE_BOLD, false},
				   {"LIFETIME", true, 2, STYLE_PLAIN, false},
				   {0}};

	return report_print_rows(r,
				 &(struct keyed_rows){columns, sizeof(columns) / sizeof(*columns),
						      c->row, c->rows, c, put_churn_cells, NULL});
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
	if (!print_churn_rows(r, c))
		return cli_error("out of memory");
	report_print_legend(r);
	return cli_finish();
}

int report_print_churn(struct report *r)
{
	struct mayfly_churn *c;
	size_t rows = r->top ? r->top : SIZE_MAX;
	int error, status;

	r->q.query.stack_rows = report_stacks_needed(r, r->top);
	error = mayfly_churn_run(r->file.trace, &r->q.query, rows, &c);
	if (error)
		return report_failed(r, error);
	if (r->json) {
		struct json j = json_document();

		json_churn(&j, r->file.trace, &r->q.query, c);
		status = json_print(&j);
	} else {
		status = print_churn(r, c);
	}
	mayfly_churn_free(c);
	return status;
}
