/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report_churn.c: what each row allocated, and how much of it was live on average.
 *
 * Rows are ranked by what they allocated. Ranked by churn, those would come first that allocate a
 * few bytes for a moment.
 */
#include "cli/report/report.h"

#include <math.h>
#include <string.h>

static double allocated(const struct report *r, const struct mayfly_row *row)
{
	return report_sorted_by(r, row)->bytes.estimate;
}

/* How often each live byte was replaced; infinite when nothing lived for a time that was seen. */
static double churn_of(double bytes, double mean_live)
{
	return mean_live > 0 ? bytes / mean_live : INFINITY;
}

/* How long a byte lived, within the time that is asked for. */
static double lifetime_of(const struct mayfly_churn *c, double bytes, double mean_live)
{
	return bytes > 0 ? mean_live * (double)(c->to_ns - c->from_ns) / bytes : 0;
}

/* ---- text ---- */

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

static bool put_row(struct table *t, const struct report *r, const struct mayfly_churn *c,
		    size_t row)
{
	bool others = row + 1 == c->rows;
	const struct mayfly_estimate *e = report_sorted_by(r, &c->row[row]);
	double bytes = e->bytes.estimate, live = c->mean_live[row];
	char text[NAME_BYTES];

	if (!report_put_estimate(t, r, e, &c->total) ||
	    !table_cell(t, text_bytes(text, sizeof(text), live)) ||
	    !table_cell(t, text_churn(text, sizeof(text), churn_of(bytes, live))) ||
	    !table_cell(t, text_duration(text, sizeof(text), lifetime_of(c, bytes, live))))
		return false;
	if (r->q.query.by == MAYFLY_BY_STACK && !others)
		snprintf(text, sizeof(text), "%zu.", row + 1);
	else
		report_full_key(text, sizeof(text), r, &c->row[row], others);
	return table_cell(t, text);
}

static bool is_shown(const struct report *r, const struct mayfly_churn *c, size_t row)
{
	if (row + 1 == c->rows && r->q.query.sort == MAYFLY_SORT_TOTAL)
		return false;
	return allocated(r, &c->row[row]) > 0;
}

static bool print_rows(const struct report *r, const struct mayfly_churn *c)
{
	bool stacks = r->q.query.by == MAYFLY_BY_STACK;
	struct column columns[] = {
	    {"ALLOCATED", true, 0, STYLE_PLAIN, false},
	    {"", false, 0, STYLE_DIM, true},
	    {"%", true, 1, STYLE_PLAIN, false},
	    {"MEAN LIVE", true, 0, STYLE_PLAIN, false},
	    {"CHURN", true, 0, STYLE_BOLD, false},
	    {"LIFETIME", true, 2, STYLE_PLAIN, false},
	    {stacks ? "STACK" : report_key_title(r), false, 0, STYLE_PLAIN, false}};
	struct table *t = table_new(columns, sizeof(columns) / sizeof(*columns));
	bool done = t != NULL;

	for (size_t i = 0; done && i < c->rows; i++)
		if (is_shown(r, c, i))
			done = put_row(t, r, c, i);
	if (done)
		table_print(t, &r->out, 0);
	table_free(t);
	if (done && stacks)
		report_print_numbered_stacks(r, c->row, c->rows - 1);
	return done;
}

static int print_text(const struct report *r, const struct mayfly_churn *c)
{
	char figure[128], live[FIGURE_TEXT], from[FIGURE_TEXT], to[FIGURE_TEXT], window[200] = "";

	if (r->q.window_given)
		snprintf(window, sizeof(window), " from %s to %s",
			 text_duration(from, sizeof(from), (double)c->from_ns),
			 text_duration(to, sizeof(to), (double)c->to_ns));
	print_wrapped(&r->out, STYLE_BOLD, 0,
		      "Churn by %s: %s allocated%s, %s of it live on average%s", report_by_text(r),
		      report_say_figure(figure, sizeof(figure), &r->out, &c->total), window,
		      text_bytes(live, sizeof(live), c->mean_live_total),
		      r->q.filtered ? "; filtered" : "");
	if (!(c->total.bytes.estimate > 0)) {
		puts("  No block fits these options.");
		return cli_finish();
	}
	print_wrapped(&r->out, STYLE_DIM, 2,
		      "CHURN: bytes allocated for each byte that is live on average; LIFETIME: how "
		      "long a byte lives, on average");
	if (!print_rows(r, c))
		return cli_error("out of memory");
	report_print_legend(r);
	return cli_finish();
}

/* ---- JSON ---- */

static json_t *add_churn(json_t *object, const struct mayfly_churn *c, double bytes, double live)
{
	double churn = churn_of(bytes, live);

	if (object &&
	    json_object_set_new(object, "mean_live_bytes", json_integer(llround(live))) == 0 &&
	    json_object_set_new(object, "churn", isinf(churn) ? json_null() : json_real(churn)) ==
		0 &&
	    json_object_set_new(object, "mean_lifetime_ns",
				json_integer(llround(lifetime_of(c, bytes, live)))) == 0)
		return object;
	json_decref(object);
	return NULL;
}

static json_t *json_rows(const struct report *r, const struct mayfly_churn *c)
{
	json_t *list = json_array();

	for (size_t i = 0; list && i + 1 < c->rows; i++) {
		json_t *row = add_churn(report_json_row(r, &c->row[i]), c, allocated(r, &c->row[i]),
					c->mean_live[i]);

		if (json_array_append_new(list, row) != 0) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

static int print_json(const struct report *r, const struct mayfly_churn *c)
{
	json_t *object = json_pack("{s:s, s:s, s:I, s:I, s:o, s:o}", "by", by_names[r->q.query.by],
				   "sort", sort_names[r->q.query.sort], "from_ns",
				   (json_int_t)c->from_ns, "to_ns", (json_int_t)c->to_ns, "total",
				   json_estimate(&c->total), "rows", json_rows(r, c));

	return json_print(add_churn(object, c, c->total.bytes.estimate, c->mean_live_total));
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
	status = r->json ? print_json(r, c) : print_text(r, c);
	mayfly_churn_free(c);
	return status;
}
