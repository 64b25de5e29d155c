/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mayfly leaks: what was never freed, by stack, without known harmless leaks.
 *
 * This is `report --metric leaked --by stack` with lists of suppressions: what they match is
 * ignored by the query, and accounted for in one line.
 *
 * The program's own mappings that are left are a second table.
 *
 * If the trace has a picture of the heap, it is `report --metric picture` twice: what was lost then,
 * by stack, and what was held, by holder.
 */
#include "cli/cli.h"
#include "cli/option_table.h"
#include "cli/question_said.h"
#include "cli/report/report.h"
#include "terminal/terminal.h"

#include "question/option_values.h"
#include "cli/input/list_file.h"
#include "cli/trace_fields.h"

#include "answer/json_parts.h"
#include "answer/leak_parts.h"
#include "answer/trace_facts.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

struct leaks {
	struct report report;
	struct suppressions suppressions;
	bool no_default, print_list;
	size_t exit_code;
	uint64_t leaked; /* samples that are left */
};

static bool take_suppressions(const struct given *given, void *to)
{
	given->error_line->failed = true;
	return suppressions_add_file(to, given->value);
}

static const struct option_row leaks_rows[] = {
    OPTION_HEADING("What is left out:"),
    {"suppressions", .argument = "LIST", .words = OPTION_FILES,
     .help = "leave out stacks that a pattern of this file matches: lines of leak:PATTERN, as for "
	     "LeakSanitizer; may be repeated",
     OPTION_IN(take_suppressions, struct suppressions, struct leaks, suppressions)},
    {"no-default-suppressions", .rare = true, .help = "do not leave out what libc and CPython keep",
     OPTION_FLAG(struct leaks, no_default)},
    {"print-suppressions", .rare = true, .help = "print the list that is built in",
     OPTION_FLAG(struct leaks, print_list)},
    OPTION_GROUP(question_filter_rows, struct leaks, report.q),
    OPTION_GROUP(question_picture_rows, struct leaks, report.q),
    OPTION_GROUP(question_window_rows, struct leaks, report.q),
    OPTION_HEADING("How to show it:"),
    {"exit-code", .argument = "N", .most = 255, OPTION_COUNT(struct leaks, exit_code),
     .help = "exit with this status when anything leaks (default 0)"},
    {"by", .argument = "KEY", .choices = by_names,
     .help = "one row for each stack (default), function, line, module, thread, size, heap, label "
	     "or label:KEY",
     OPTION_IN(question_take_by, struct question, struct leaks, report.q),
     OPTION_GIVEN(struct leaks, report.q.by_given)},
    OPTION_GROUP(report_show_rows, struct leaks, report),
    OPTION_END,
};

const struct option_table leaks_option_table = {
    .usage = "leaks [OPTIONS] FILE",
    .about = "Shows which blocks were never freed, by the stack that allocated them. Whether the\n"
	     "program still had pointers to them is known if the trace has a picture of the heap\n"
	     "(mayfly ctl PID heap): then what is lost and what is held, by whom, are told apart.\n"
	     "Otherwise blocks kept on purpose are shown, too.\n",
    .rows = leaks_rows,
};

static void print_suppressed(const struct leaks *l)
{
	struct suppressed s = suppressions_sum(&l->suppressions);
	char bytes[FIGURE_TEXT], blocks[FIGURE_TEXT];

	text_count(blocks, sizeof(blocks), s.blocks);
	if (s.stacks)
		print_wrapped(&l->report.out, STYLE_DIM, 2,
			      "  suppressed: %s in %s %s from %zu %s, by %zu of %zu patterns",
			      text_bytes(bytes, sizeof(bytes), s.bytes), blocks,
			      strcmp(blocks, "1") == 0 ? "block" : "blocks", s.stacks,
			      s.stacks == 1 ? "stack" : "stacks", s.patterns,
			      l->suppressions.count);
}

/* ---- the program's own mappings ---- */

/* What of them is left, unless the user has chosen heaps. *result NULL: nothing. 0 or a negative enum
 * mayfly_error. */
static int ask_mapped(const struct leaks *l, struct mayfly_query *query,
		      struct mayfly_result **result)
{
	const struct report *r = &l->report;
	int error;

	*result = NULL;
	*query = r->q.query;
	query->metric = MAYFLY_LEAKED;
	query->by = query->by == MAYFLY_BY_HOLDER || query->by == MAYFLY_BY_TYPE ? MAYFLY_BY_STACK
										 : query->by;
	query->heaps = 1u << MAYFLY_HEAP_MAPPING;
	if (r->q.query.heaps || r->file.info->snapshot_ns || question_asks_picture(&r->q) ||
	    !(r->file.info->heaps >> MAYFLY_HEAP_MAPPING & 1))
		return 0;
	error = mayfly_query_run(r->file.trace, query, result);
	if (!error && !(*result)->total.samples) {
		mayfly_result_free(*result);
		*result = NULL;
	}
	return error;
}

static bool print_mapped(const struct leaks *l)
{
	struct report r = l->report;
	struct mayfly_result *result;
	int error = ask_mapped(l, &r.q.query, &result);
	bool good;

	if (error)
		return report_failed(&r, error) == CLI_OK;
	if (!result)
		return true;
	putchar('\n');
	print_wrapped(&r.out, STYLE_BOLD, 0,
		      "Mappings that the program made itself and that are left, beside the above:");
	r.q.filtered = true;
	good = report_show_answer(&r, result, r.top, r.depth);
	mayfly_result_free(result);
	return good;
}

static int print_leaks(struct leaks *l, const struct mayfly_result *result)
{
	const struct report *r = &l->report;

	if (!report_show_answer(r, result, r->top, r->depth))
		return cli_error("out of memory");
	print_suppressed(l);
	print_python_end(&r->out, r->file.info);
	if (!print_mapped(l))
		return cli_error("out of memory");
	print_bypass(&r->out, r->file.trace);
	report_print_legend(r);
	return cli_finish();
}

static void put_mapped(const struct leaks *l, struct json *j)
{
	struct report r = l->report;
	struct mayfly_result *result;

	if (ask_mapped(l, &r.q.query, &result) || !result) {
		json_null(j, "mapped");
		return;
	}
	json_object(j, "mapped");
	json_text(j, "by", by_names[r.q.query.by]);
	json_estimate(j, "total", &result->total);
	report_json_rows(j, &r, result);
	json_end(j);
	mayfly_result_free(result);
}

static int finish_json(const struct leaks *l, struct json *j)
{
	struct mayfly_summary summary;

	json_suppressed(j, "suppressed", &l->suppressions);
	put_mapped(l, j);
	if (mayfly_trace_summary(l->report.file.trace, &summary) != 0)
		j->bytes.failed = true;
	else
		report_json_info(j, "info", &l->report, &summary);
	return json_print(j);
}

static int print_leaks_json(const struct leaks *l, const struct mayfly_result *result)
{
	const struct report *r = &l->report;
	struct json j = report_document(r->file.info->absent);

	json_text(&j, "metric", "leaked");
	json_text(&j, "by", by_names[r->q.query.by]);
	json_estimate(&j, "total", &result->total);
	report_json_rows(&j, r, result);
	return finish_json(l, &j);
}

/* What was suppressed of the query's answer is counted. 0 or a negative enum mayfly_error. */
static int count_suppressed(struct leaks *l, const struct mayfly_query *query)
{
	if (!l->suppressions.count)
		return 0;
	return suppressions_account(&l->suppressions, l->report.file.trace, query);
}

static int ask(struct leaks *l, struct mayfly_result **result)
{
	struct report *r = &l->report;
	int error = mayfly_query_run(r->file.trace, &r->q.query, result);

	if (error)
		return error;
	error = count_suppressed(l, &r->q.query);
	if (error)
		mayfly_result_free(*result);
	return error;
}

/* ---- with a picture of the heap ---- */

static void print_later(const struct report *r, const struct mayfly_estimate *later)
{
	char figure[128];

	if (later->bytes.estimate > 0)
		print_wrapped(
		    &r->out, STYLE_DIM, 2,
		    "  allocated after the picture and never freed: %s; whether something "
		    "points to it is not known",
		    text_estimate(figure, sizeof(figure), r->out.utf8, later));
}

static int print_apart(struct leaks *l, const struct leak_parts *t)
{
	struct report *r = &l->report;
	bool good;

	r->q.query = t->lost_query;
	good = report_show_answer(r, t->lost, r->top, r->depth);
	print_suppressed(l);
	putchar('\n');
	r->q.query = t->held_query;
	good = good && report_show_answer(r, t->held, r->top, r->depth);
	if (!good)
		return cli_error("out of memory");
	if (t->later)
		print_later(r, &t->later->total);
	r->q.query = t->lost_query;
	if (!print_mapped(l))
		return cli_error("out of memory");
	print_bypass(&r->out, r->file.trace);
	report_print_legend(r);
	return cli_finish();
}

static void put_part(struct json *j, struct report *r, const char *key,
		     const struct mayfly_query *query, const struct mayfly_result *result)
{
	r->q.query = *query;
	json_object(j, key);
	json_text(j, "by", by_names[query->by]);
	json_estimate(j, "total", &result->total);
	report_json_rows(j, r, result);
	json_end(j);
}

static int print_apart_json(struct leaks *l, const struct leak_parts *t)
{
	struct report *r = &l->report;
	struct json j = report_document(r->file.info->absent);

	json_text(&j, "metric", metric_names[MAYFLY_IN_PICTURE]);
	json_integer(&j, "time_ns", t->lost->time_ns);
	put_part(&j, r, "lost", &t->lost_query, t->lost);
	put_part(&j, r, "held", &t->held_query, t->held);
	if (t->later)
		json_estimate(&j, "allocated_later", &t->later->total);
	else
		json_null(&j, "allocated_later");
	return finish_json(l, &j);
}

static int run_apart(struct leaks *l, const struct mayfly_picture *p)
{
	const struct report *r = &l->report;
	struct leak_parts parts;
	int status, error;

	leak_parts_begin(&parts, &r->q.query, l->suppressions.also, p);
	error = leak_parts_ask(&parts, r->file.trace);
	if (!error)
		error = count_suppressed(l, &parts.lost_query);
	pager_start();
	if (error)
		status = report_failed(r, error);
	else
		status = r->json ? print_apart_json(l, &parts) : print_apart(l, &parts);
	if (!error)
		l->leaked = parts.lost->total.samples;
	leak_parts_free(&parts);
	return status == CLI_OK && l->leaked ? (int)l->exit_code : status;
}

static int run(struct leaks *l)
{
	struct report *r = &l->report;
	const struct mayfly_picture *picture = leak_parts_picture(r->file.trace, &r->q.query);
	struct mayfly_result *result;
	int error, status;

	r->exact = trace_is_exact(r->file.info);
	r->q.query.stack_rows =
	    report_stacks_needed(r, r->json ? r->top_given ? r->top : 0 : r->top);
	if (picture || question_asks_picture(&r->q))
		return picture ? run_apart(l, picture) : report_failed(r, MAYFLY_E_ABSENT);
	error = ask(l, &result);
	if (error)
		return report_failed(r, error);
	l->leaked = result->total.samples;
	pager_start();
	status = r->json ? print_leaks_json(l, result) : print_leaks(l, result);
	mayfly_result_free(result);
	if (status == CLI_OK && l->leaked)
		return (int)l->exit_code;
	return status;
}

static int open_and_run(struct leaks *l, const char *path)
{
	struct report *r = &l->report;
	int status = CLI_FAILED;

	l->suppressions.also = r->q.query.ignore;
	r->path = path;
	output_detect(&r->out);
	if ((l->no_default || suppressions_add_default(&l->suppressions)) &&
	    open_trace(path, &r->file)) {
		r->q.query.ignore = suppressions_match(&l->suppressions);
		status = run(l);
		close_trace(&r->file);
	}
	return status;
}

static int print_suppressions(void)
{
	pager_start();
	fputs(suppressions_default, stdout);
	return cli_finish();
}

int cmd_leaks(int argc, char **argv)
{
	struct leaks l = {.report = {.top = REPORT_DEFAULT_TOP, .depth = REPORT_DEFAULT_DEPTH}};
	struct report *r = &l.report;
	int status;

	question_init(&r->q);
	r->q.query.metric = MAYFLY_LEAKED;
	r->q.query.by = MAYFLY_BY_STACK;
	status = options_take(&leaks_option_table, &l, argc, argv);
	if (status == OPTIONS_TAKEN && l.print_list)
		status = print_suppressions();
	else if (status == OPTIONS_TAKEN)
		status = question_agrees(&r->q) && own_rules_add_default(&r->q.own.rules) &&
				 one_named(argc, argv, "trace")
			     ? open_and_run(&l, argv[optind])
			     : CLI_USAGE;
	suppressions_free(&l.suppressions);
	question_free(&r->q);
	return status;
}
