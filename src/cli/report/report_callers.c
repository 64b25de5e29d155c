/* SPDX-License-Identifier: Apache-2.0 */
/* mayfly report --callers F and --callees F: who calls a function, and what it calls. */
#include "cli/report/report.h"

#include "answer/function_choice.h"
#include "answer/json_parts.h"

#include <string.h>

struct around_table {
	const struct report *r;
	const struct mayfly_row *row;
	const struct mayfly_estimate *whole;
};

static void put_around_row(struct table *t, const void *context, size_t number)
{
	const struct around_table *a = context;
	const struct mayfly_row *row = &a->row[number];
	char name[NAME_BYTES];

	report_put_estimate(t, &(struct column){"TOTAL", true}, 1, &row->total, a->whole);
	table_figure(COLUMN(t, "SELF", true, 2), 2, &row->self.bytes, row->self.samples);
	table_cell(COLUMN(t, a->r->view == VIEW_CALLERS ? "CALLER" : "CALLEE"),
		   row_name(name, sizeof(name), row));
}

static bool print_around(const struct report *r, const struct calls_around *c)
{
	bool callers = r->view == VIEW_CALLERS;
	size_t rows = callers ? c->callers : c->callees;
	size_t shown = r->top && r->top < rows ? r->top : rows;
	const struct around_table table = {r, callers ? c->caller : c->callee, &c->function.total};

	if (!rows)
		puts(callers ? "  Nothing calls it." : "  It calls nothing that allocates.");
	if (!table_print_rows(&r->out, shown, put_around_row, &table))
		return false;
	if (shown < rows)
		print_wrapped(&r->out, STYLE_DIM, 2, "  %zu more (--top 0 shows all)",
			      rows - shown);
	return true;
}

static void print_around_title(const struct report *r, const struct calls_around *c)
{
	char metric[256], total[128], self[128], percent[FIGURE_TEXT], name[NAME_BYTES];

	report_metric_text(metric, sizeof(metric), r, c->time_ns);
	if (c->functions > 1)
		snprintf(name, sizeof(name), "%zu functions that match %s", c->functions,
			 r->function);
	else
		row_name(name, sizeof(name), &c->function);
	print_wrapped(&r->out, STYLE_BOLD, 0, "%s, %s %s", metric,
		      r->view == VIEW_CALLERS ? "callers of" : "callees of", name);
	print_wrapped(&r->out, STYLE_PLAIN, 2, "  total %s (%s of all), self %s%s",
		      text_estimate(total, sizeof(total), r->out.utf8, &c->function.total),
		      text_percent(percent, sizeof(percent), c->function.total.bytes.estimate,
				   c->all.bytes.estimate),
		      text_estimate(self, sizeof(self), r->out.utf8, &c->function.self),
		      r->q.filtered ? ", filtered" : "");
}

static void put_around_json(struct json *j, const struct report *r, const char *key,
			    const struct mayfly_row *row, size_t rows)
{
	JSON_ROWS(j, key, i, i < rows && (!r->top_given || !r->top || i < r->top))
		json_row(j, r->file.trace, MAYFLY_BY_FUNCTION, &row[i]);
}

static int print_around_json(const struct report *r, const struct calls_around *c)
{
	struct json j = report_document(r->file.info->absent);

	json_text(&j, "metric", metric_names[r->q.query.metric]);
	json_integer(&j, "time_ns", c->time_ns);
	json_estimate(&j, "total", &c->all);
	json_unsigned(&j, "functions", c->functions);
	json_object(&j, "function");
	json_row(&j, r->file.trace, MAYFLY_BY_FUNCTION, &c->function);
	json_end(&j);
	put_around_json(&j, r, "callers", c->caller, c->callers);
	put_around_json(&j, r, "callees", c->callee, c->callees);
	return json_print(&j);
}

static int print_found(const struct report *r, const struct calls_around *c)
{
	if (!c->functions)
		return cli_error("%s: no function on the stacks of these blocks is or matches '%s'",
				 r->path, r->function);
	if (r->json)
		return print_around_json(r, c);
	print_around_title(r, c);
	if (!print_around(r, c))
		return cli_error("out of memory");
	report_print_legend(r);
	return cli_finish();
}

int report_print_callers(struct report *r)
{
	struct function_choice choice = {.name = r->function};
	struct pattern pattern = {0};
	struct error_line error_line = {""};
	struct calls_around *c;
	int error, status;

	if (!trace_has_function(r->file.trace, r->function)) {
		if (!pattern_add(&pattern, report_views[r->view].option, r->function, &error_line))
			return cli_usage("%s", error_line.text);
		choice.pattern = pattern_match(&pattern);
	}
	error = calls_around_run(r->file.trace, &r->q.query, function_choice_match(&choice), &c);
	status = error ? report_failed(r, error) : print_found(r, c);
	if (!error)
		calls_around_free(c);
	pattern_free(&pattern);
	return status;
}
