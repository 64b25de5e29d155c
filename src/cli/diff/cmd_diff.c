/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mayfly diff: what changed from one trace to another, and whether that may be chance.
 *
 * options -> one query to both traces -> rows side by side (query/diff.h) -> three lines of a
 * summary, then a table, a list of stacks, or JSON.
 */
#include "cli/cli.h"
#include "cli/diff/fleet_hosts.h"
#include "cli/fleet/fleet_trace.h"
#include "cli/option_table.h"
#include "cli/question_said.h"
#include "cli/input/list_file.h"
#include "cli/report/report.h"
#include "terminal/terminal.h"

#include "answer/absent.h"
#include "answer/summary_changes.h"
#include "answer/trace_facts.h"
#include "answer/text_format.h"
#include "question/option_values.h"
#include "cli/trace_fields.h"
#include "query/diff.h"

#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BEFORE, AFTER };

struct comparison {
	/* Both have the question; [BEFORE] owns it, and has the options. */
	struct report side[2];
	struct json_diff diff;
	bool exact; /* both are, or nobody knows */
	/* The hosts of two questions to a fleet's database. */
	struct fleet_hosts hosts[2];
	struct diff_hosts groups[2];
	struct host_totals totals;
};

/* ---- options ---- */

static bool take_per(const struct given *given, void *to)
{
	struct comparison *c = to;
	const char *text = given->value;
	char *end;

	c->diff.per.before = c->diff.per.after = strtod(text, &end);
	if (end > text && *end == ',') {
		text = end + 1;
		c->diff.per.after = strtod(text, &end);
	}
	if (end > text && !*end && c->diff.per.before > 0 && c->diff.per.after > 0 &&
	    isfinite(c->diff.per.before) && isfinite(c->diff.per.after))
		return true;
	return cli_refuse("%s: '%s' is not a count above 0, nor two counts such as 1000,1200",
			  given->option, text);
}

static const struct option_row diff_rows[] = {
    OPTION_HEADING("What to compare:"),
    OPTION_GROUP(question_metric_rows, struct comparison, side[BEFORE].q),
    OPTION_GROUP(question_window_rows, struct comparison, side[BEFORE].q),
    OPTION_GROUP(question_by_rows, struct comparison, side[BEFORE].q),
    OPTION_GROUP(question_sort_rows, struct comparison, side[BEFORE].q),
    {"per", .argument = "N|N,M", OPTION_OWN(take_per),
     OPTION_GIVEN(struct comparison, diff.per_given),
     .help = "divide all figures by N, such as requests served; or those of BEFORE by N and those "
	     "of AFTER by M"},
    OPTION_GROUP(question_filter_rows, struct comparison, side[BEFORE].q),
    OPTION_HEADING("How to show it:"),
    OPTION_GROUP(report_show_rows, struct comparison, side[BEFORE]),
    OPTION_END,
};

const struct option_table diff_option_table = {
    .usage = "diff [OPTIONS] BEFORE AFTER",
    .about = "Shows what changed from one trace to another: how much, the 95 % interval of the\n"
	     "change, and whether it is significant or may be chance. Functions, lines and stacks\n"
	     "are matched by name, so they are found again in a rebuilt program.\n",
    .rows = diff_rows,
};

static bool two_traces_named(int argc, char **argv)
{
	if (argc - optind != 2)
		return cli_refuse(argc - optind < 2 ? "two traces are needed: BEFORE and AFTER"
						    : "only two traces can be compared");
	if (strcmp(argv[optind], "-") == 0 && strcmp(argv[optind + 1], "-") == 0)
		return cli_refuse("only one of the traces can come from standard input");
	return true;
}

/* ---- figures as text ---- */

/* "+12.3 MiB" */
static char *text_change(char *buffer, size_t size, double change)
{
	char bytes[FIGURE_TEXT];

	return text_format(buffer, size, "%s%s",
			   change > 0	? "+"
			   : change < 0 ? "-"
					: "",
			   text_bytes(bytes, sizeof(bytes), fabs(change)));
}

/* "+8.1..+16 MiB" */
static char *text_interval(char *buffer, size_t size, const struct diff_figure *d)
{
	char low[FIGURE_TEXT], high[FIGURE_TEXT];
	char *unit_low, *unit_high;

	text_change(low, sizeof(low), d->low);
	text_change(high, sizeof(high), d->high);
	unit_low = strchr(low, ' ');
	unit_high = strchr(high, ' ');
	if (unit_low && unit_high && strcmp(unit_low, unit_high) == 0)
		*unit_low = 0;
	return text_format(buffer, size, "%s..%s", low, high);
}

static const char *verdict_text(const struct diff_figure *d)
{
	static const char *const text[] = {"no change", "few samples", "not tested", "within noise",
					   "significant"};

	return text[d->verdict];
}

static enum style verdict_style(const struct diff_figure *d)
{
	if (d->verdict != DIFF_REAL)
		return STYLE_DIM;
	return d->change > 0 ? STYLE_MORE : STYLE_LESS;
}

/* An estimate, divided by the count of --per. */
static char *side_text(char *buffer, size_t size, const struct output *o,
		       const struct mayfly_figure *f, uint64_t samples, double per, bool with_error)
{
	struct mayfly_figure one = {f->estimate / per, f->stderror / per, f->low / per,
				    f->high / per, f->certain / per};

	if (with_error)
		return text_figure(buffer, size, o->utf8, &one, samples);
	return text_figure_value(buffer, size, &one, samples);
}

/* ---- the summary ---- */

/* "2026-11-21 10:49:00 UTC, 1 byte in 512 KiB, 652 samples: demo --fast" */
static void print_side(const struct comparison *c, int which, const char *name)
{
	const struct report *r = &c->side[which];
	const struct mayfly_info *info = r->file.info;
	char command[NAME_BYTES], line[NAME_BYTES + 512], fitted[NAME_BYTES];
	char start[64] = "", interval[192], ocaml[64] = "", bytes[FIGURE_TEXT];

	if (info->ocaml_interval_bytes && !trace_is_ocaml_alone(info))
		snprintf(ocaml, sizeof(ocaml), ", OCaml %s",
			 text_bytes(bytes, sizeof(bytes), (double)info->ocaml_interval_bytes));
	if (!(info->absent & MAYFLY_ABSENT_START))
		start_text(start, sizeof(start), info);
	if (info->absent & MAYFLY_ABSENT_ERRORS)
		mode_text(command, sizeof(command), r->file.trace);
	else if (r->exact)
		snprintf(command, sizeof(command), "exact, %" PRIu64 " %s",
			 trace_samples(info) - trace_inherited(info),
			 trace_samples(info) - trace_inherited(info) == 1 ? "allocation"
									  : "allocations");
	else
		snprintf(command, sizeof(command), "%s%s, %" PRIu64 " %s",
			 interval_text(interval, sizeof(interval), r->file.trace), ocaml,
			 trace_samples(info), samples_word(trace_samples(info)));
	snprintf(interval, sizeof(interval), "%.190s", command);
	if (info->absent & MAYFLY_ABSENT_COMMAND)
		snprintf(command, sizeof(command), "%s", r->path);
	else
		command_line(command, sizeof(command), info);
	snprintf(line, sizeof(line), "%s%s%s: %s", start, *start ? ", " : "", interval, command);
	print_field(
	    &r->out, name, "%s",
	    line_fit(fitted, sizeof(fitted), &r->out, line, (size_t)r->out.width - FIELD_INDENT));
}

static void print_total(const struct comparison *c, const struct summary_change *total)
{
	const struct output *o = &c->side[BEFORE].out;
	const struct mayfly_estimate *a = total->before, *b = total->after;
	const struct diff_figure *d = &total->bytes;
	char before[128], after[128], change[FIGURE_TEXT], percent[FIGURE_TEXT];
	char interval[2 * FIGURE_TEXT], more[4 * FIGURE_TEXT] = "";

	text_interval(interval, sizeof(interval), d);
	if (!c->exact)
		snprintf(more, sizeof(more), "; 95 %%: %s; %s", interval, verdict_text(d));
	print_field(
	    o, total->title, "%s -> %s: %s (%s)%s",
	    side_text(before, sizeof(before), o, &a->bytes, a->samples, c->diff.per.before, true),
	    side_text(after, sizeof(after), o, &b->bytes, b->samples, c->diff.per.after, true),
	    text_change(change, sizeof(change), d->change),
	    change_relative_text(percent, sizeof(percent), d), more);
}

/* An exit status. */
static int summaries(const struct comparison *c, struct mayfly_summary s[2])
{
	for (int i = 0; i < 2; i++) {
		int error = mayfly_trace_summary(c->side[i].file.trace, &s[i]);

		if (error)
			return cli_error("%s: %s", c->side[i].path, mayfly_error_text(error));
	}
	return CLI_OK;
}

/* "20 processes of 10 hosts" */
static char *text_hosts(char *buffer, size_t size, const struct fleet_hosts *h)
{
	return text_format(buffer, size, "%" PRIu64 " process%s of %" PRIu64 " host%s",
			   h->processes, h->processes == 1 ? "" : "es", h->hosts,
			   h->hosts == 1 ? "" : "s");
}

/* What the figures are divided by. */
static void print_units(const struct comparison *c)
{
	const struct output *o = &c->side[BEFORE].out;
	char before[96], after[96];

	if (c->diff.per_given)
		print_field(o, "Per", "%g before, %g after", c->diff.per.before, c->diff.per.after);
	if (!c->diff.hosts)
		return;
	text_hosts(before, sizeof(before), &c->hosts[BEFORE]);
	text_hosts(after, sizeof(after), &c->hosts[AFTER]);
	print_field(
	    o, "Hosts", "%s%s before, %s after%s",
	    c->diff.per_given || c->diff.per.before == 1 ? "" : "figures are means of a process; ",
	    before, after,
	    c->hosts[BEFORE].groups.groups < 2 || c->hosts[AFTER].groups.groups < 2
		? "; what differs between hosts cannot be told from one host"
		: "");
}

/* The change that says the most stands first. */
static int print_both_summaries(const struct comparison *c)
{
	struct mayfly_info both = {.absent = c->diff.absent};
	const struct output *o = &c->side[BEFORE].out;
	struct summary_change change[SUMMARY_CHANGES];
	char headline[SUMMARY_CHANGE_BYTES];
	struct mayfly_summary s[2];
	int error = summaries(c, s);
	size_t changes;

	if (error)
		return error;
	changes = summary_changes(&c->diff, s, change);
	summary_change_headline(headline, sizeof(headline), change, changes);
	if (*headline)
		print_wrapped(o, STYLE_BOLD, 0, "%s", headline);
	print_side(c, BEFORE, "Before");
	print_side(c, AFTER, "After");
	print_units(c);
	for (size_t i = 0; i < changes; i++)
		print_total(c, &change[i]);
	print_absent(o, &both);
	putchar('\n');
	return CLI_OK;
}

/* ---- rows ---- */

static const struct report *report_of(const struct comparison *c, const struct diff_row *row)
{
	return &c->side[row->after ? AFTER : BEFORE];
}

static const struct mayfly_row *row_of(const struct diff_row *row)
{
	return row->after ? row->after : row->before;
}

static bool diff_is_shown(const struct comparison *c, const struct diff_row *row)
{
	if (c->side[BEFORE].all)
		return true;
	return row->bytes.verdict >= DIFF_UNKNOWN;
}

/* The number of rows that are shown. */
static size_t shown_rows(const struct comparison *c, const struct trace_diff *d)
{
	size_t count = 0, top = c->side[BEFORE].top;

	while (count < d->rows && diff_is_shown(c, &d->row[count]) && (!top || count < top))
		count++;
	return count;
}

static size_t count_verdict(const struct trace_diff *d, enum diff_verdict verdict)
{
	size_t count = 0;

	for (size_t i = 0; i < d->rows; i++)
		count += d->row[i].bytes.verdict == verdict;
	return count;
}

/* The name and the line; also the line of before, when it has moved. */
static void key_text(char *buffer, size_t size, const struct comparison *c,
		     const struct diff_row *row)
{
	const struct report *r = report_of(c, row);
	const struct mayfly_row *key = row_of(row);
	char place[NAME_BYTES], moved[32] = "";

	report_row_key(buffer, size, r, key);
	if (r->q.query.by != MAYFLY_BY_LINE || !key->line)
		return;
	if (row->before && row->after && row->before->line != row->after->line)
		snprintf(moved, sizeof(moved), " (was %" PRIu32 ")", row->before->line);
	location_text(place, sizeof(place), key->file, key->line, key->module, r->out.wide);
	text_append(buffer, size, "  %.*s%s", 4096, place, moved);
}

struct diff_table {
	const struct comparison *c;
	const struct trace_diff *d;
};

static void put_diff(struct table *t, const void *context, size_t i)
{
	const struct comparison *c = ((const struct diff_table *)context)->c;
	const struct trace_diff *d = ((const struct diff_table *)context)->d;
	const struct diff_row *row = &d->row[i];
	const struct mayfly_query *query = &c->side[BEFORE].q.query;
	const struct output *o = &c->side[BEFORE].out;
	const struct mayfly_estimate *a = &d->before->nothing, *b = &d->after->nothing;
	const struct diff_figure *f = &row->bytes;
	char text[NAME_BYTES];

	if (row->before)
		a = sorted_by(query, row->before);
	if (row->after)
		b = sorted_by(query, row->after);
	table_cell(COLUMN(t, "CHANGE", true), text_change(text, sizeof(text), f->change));
	if (!c->exact)
		table_cell(COLUMN(t, "95 %", false, 2, STYLE_PLAIN, true),
			   text_interval(text, sizeof(text), f));
	table_cell(COLUMN(t, "%", true, 3), change_relative_text(text, sizeof(text), f));
	table_cell(COLUMN(t, "BEFORE", true, 4), side_text(text, sizeof(text), o, &a->bytes,
							   a->samples, c->diff.per.before, false));
	table_cell(COLUMN(t, "AFTER", true, 4), side_text(text, sizeof(text), o, &b->bytes,
							  b->samples, c->diff.per.after, false));
	if (!c->exact)
		table_cell(COLUMN(t, ""), verdict_text(f));
	key_text(text, sizeof(text), c, row);
	table_cell(COLUMN(t, report_key_title(&c->side[BEFORE])), text);
	table_row_style(t, verdict_style(f));
}

static bool print_diff_table(const struct comparison *c, const struct trace_diff *d, size_t rows)
{
	return table_print_rows(&c->side[BEFORE].out, rows, put_diff, &(struct diff_table){c, d});
}

static void print_changed_stacks(const struct comparison *c, const struct trace_diff *d,
				 size_t rows)
{
	const struct report *r = &c->side[BEFORE];

	for (size_t i = 0; i < rows; i++) {
		const struct diff_row *row = &d->row[i];
		const struct diff_figure *f = &row->bytes;
		char change[FIGURE_TEXT], interval[2 * FIGURE_TEXT], percent[FIGURE_TEXT];
		char before[FIGURE_TEXT], after[FIGURE_TEXT], line[512], more[4 * FIGURE_TEXT] = "";

		text_interval(interval, sizeof(interval), f);
		if (!c->exact)
			snprintf(more, sizeof(more), "; 95 %%: %s; %s", interval, verdict_text(f));
		snprintf(line, sizeof(line), "%3zu. %s (%s), %s -> %s%s", i + 1,
			 text_change(change, sizeof(change), f->change),
			 change_relative_text(percent, sizeof(percent), f),
			 text_bytes(before, sizeof(before), f->before),
			 text_bytes(after, sizeof(after), f->after), more);
		print_styled(&r->out, verdict_style(f), line);
		putchar('\n');
		print_stack(&r->out, row_of(row)->stack, row_of(row)->stack_length, r->depth);
		putchar('\n');
	}
}

static void print_change_title(const struct comparison *c, const struct trace_diff *d)
{
	const struct report *r = &c->side[BEFORE];
	const struct diff_figure *f = &d->bytes;
	char change[FIGURE_TEXT], percent[FIGURE_TEXT];
	const char *total = r->q.query.sort == MAYFLY_SORT_TOTAL ? ", with all that it calls" : "";

	print_wrapped(&r->out, STYLE_BOLD, 0, "Change of %s by %s%s: %s (%s)%s%s%s",
		      metric_names[r->q.query.metric], by_names[r->q.query.by], total,
		      text_change(change, sizeof(change), f->change),
		      change_relative_text(percent, sizeof(percent), f), c->exact ? "" : ", ",
		      c->exact ? "" : verdict_text(f), r->q.filtered ? ", filtered" : "");
	report_print_folded(r);
}

static void print_other_rows(const struct comparison *c, const struct trace_diff *d, size_t rows)
{
	const struct output *o = &c->side[BEFORE].out;
	size_t real = count_verdict(d, DIFF_REAL), noise = count_verdict(d, DIFF_NOISE);
	size_t few = count_verdict(d, DIFF_FEW), left;
	bool blind[2];

	for (int i = BEFORE; i <= AFTER; i++)
		blind[i] = c->side[i].file.info->absent & MAYFLY_ABSENT_ERRORS;
	if (d->rows == 0) {
		puts("  No block matches, in either trace.");
		return;
	}
	if (rows == 0)
		puts(c->exact ? "  No row changed." : "  No row has enough samples to compare.");
	left = real + noise + count_verdict(d, DIFF_UNKNOWN) - rows;
	if (c->side[BEFORE].all)
		left = d->rows - rows;
	if (c->diff.absent & MAYFLY_ABSENT_ERRORS)
		print_wrapped(o, STYLE_DIM, 0,
			      "%s how certain its figures are, so which changes are chance is not "
			      "known.",
			      blind[BEFORE] && blind[AFTER] ? "Neither file says"
			      : blind[BEFORE]		    ? "The file before does not say"
							    : "The file after does not say");
	if (left)
		print_wrapped(o, STYLE_DIM, 2, "  %zu more (--top 0 shows all)", left);
	if (few && !c->side[BEFORE].all)
		print_wrapped(o, STYLE_DIM, 2,
			      "  %zu %s with fewer than 6 samples in both together (--all shows "
			      "them)",
			      few, few == 1 ? "other" : "others");
	if (!c->exact && real)
		print_wrapped(o, STYLE_DIM, 0,
			      "%zu of %zu tested rows changed significantly; of rows called so, "
			      "about 1 in 20 is chance.",
			      real, real + noise);
	else if (!c->exact)
		print_wrapped(o, STYLE_DIM, 0, "None of %zu tested rows changed significantly.",
			      noise);
}

static int print_diff(const struct comparison *c, const struct trace_diff *d)
{
	size_t rows = shown_rows(c, d);
	int status = print_both_summaries(c);

	if (status)
		return status;
	print_change_title(c, d);
	if (c->side[BEFORE].q.query.by == MAYFLY_BY_STACK)
		print_changed_stacks(c, d, rows);
	else if (!print_diff_table(c, d, rows))
		return cli_error("out of memory");
	print_other_rows(c, d, rows);
	return cli_finish();
}

/* Each has what its own trace has. */
static void put_infos(struct json *j, const struct comparison *c)
{
	static const char *const names[] = {[BEFORE] = "before", [AFTER] = "after"};

	j->is_null = absent_key;
	json_object(j, "info");
	for (int i = BEFORE; i <= AFTER; i++) {
		struct mayfly_summary s;

		j->null_context = c->side[i].file.info->absent;
		if (mayfly_trace_summary(c->side[i].file.trace, &s) == 0)
			report_json_info(j, names[i], &c->side[i], &s);
		else
			j->bytes.failed = true;
	}
	json_end(j);
}

static void put_hosts(struct json *j, const char *key, const struct fleet_hosts *h)
{
	json_object(j, key);
	json_unsigned(j, "processes", h->processes);
	json_unsigned(j, "hosts", h->hosts);
	json_unsigned(j, "groups", h->groups.groups);
	json_end(j);
}

static int print_diff_json(const struct comparison *c, const struct trace_diff *d)
{
	const struct report *r = &c->side[BEFORE];
	struct json j = report_document(c->diff.absent);
	int error = json_diff(&j, &c->diff, d, r->top_given ? r->top : 0);

	if (error)
		return cli_error("%s", mayfly_error_text(error));
	if (c->diff.hosts) {
		json_object(&j, "hosts");
		put_hosts(&j, "before", &c->hosts[BEFORE]);
		put_hosts(&j, "after", &c->hosts[AFTER]);
		json_end(&j);
	}
	put_infos(&j, c);
	return json_print(&j);
}

/* ---- the command ---- */

/* Two questions are compared by what a process has, unless the user says otherwise. False after a line on
 * stderr. */
static bool ask_hosts(struct comparison *c)
{
	for (int i = BEFORE; i <= AFTER; i++) {
		if (!fleet_hosts_ask(c->side[i].path, &c->hosts[i]))
			return false;
		c->groups[i] = c->hosts[i].groups;
	}
	c->diff.hosts = c->groups;
	c->diff.totals = &c->totals;
	if (!c->diff.per_given && c->hosts[BEFORE].stand_for > 0 && c->hosts[AFTER].stand_for > 0)
		c->diff.per = (struct diff_per){.before = c->hosts[BEFORE].stand_for,
						.after = c->hosts[AFTER].stand_for};
	c->exact = false;
	return true;
}

static int compare(struct comparison *c, struct trace_diff **d)
{
	const struct mayfly_trace *const side[2] = {c->diff.before, c->diff.after};
	int error = trace_diff_run(side[BEFORE], side[AFTER], c->diff.query, c->diff.per, d);

	if (error || !c->diff.hosts)
		return error;
	error = host_totals_find(c->diff.hosts, &c->totals);
	if (!error)
		error = diff_between_hosts(*d, side, c->diff.query, c->diff.hosts, c->diff.per);
	if (error)
		trace_diff_free(*d);
	return error;
}

/* Without an option that says so, rows are of the figure that changed the most significantly. */
static int choose_metric(struct comparison *c)
{
	struct question *q = &c->side[BEFORE].q;
	struct summary_change change[SUMMARY_CHANGES];
	struct mayfly_summary s[2];
	int error;

	if (q->metric_given || q->at_given || q->window_given || question_asks_picture(q))
		return CLI_OK;
	error = summaries(c, s);
	if (!error && summary_changes(&c->diff, s, change) && change[0].bytes.verdict == DIFF_REAL)
		q->query.metric = change[0].metric;
	return error;
}

static bool lacks_answer(const struct report *r)
{
	const struct mayfly_query *q = &r->q.query;

	return mayfly_query_absent(r->file.trace, q) ||
	       (q->metric == MAYFLY_IN_PICTURE && !mayfly_trace_picture(r->file.trace));
}

static int run(struct comparison *c)
{
	struct report *before = &c->side[BEFORE], *after = &c->side[AFTER];
	struct mayfly_info both = {0};
	struct trace_diff *d;
	int error, status;

	for (int i = 0; i < 2; i++)
		c->side[i].exact = trace_is_exact(c->side[i].file.info);
	both.absent = c->diff.absent = before->file.info->absent | after->file.info->absent;
	c->exact = (before->exact && after->exact) || c->diff.absent & MAYFLY_ABSENT_ERRORS;
	question_fit(&before->q, &both);
	if (!question_fits_time(&before->q, before->path, before->file.info) ||
	    !question_fits_time(&before->q, after->path, after->file.info))
		return CLI_FAILED;
	c->diff.before = before->file.trace;
	c->diff.after = after->file.trace;
	c->diff.query = &before->q.query;
	if (fleet_is_sum(before->path) && fleet_is_sum(after->path) && !ask_hosts(c))
		return CLI_FAILED;
	status = choose_metric(c);
	if (status != CLI_OK)
		return status;
	after->q.query.metric = before->q.query.metric;
	error = compare(c, &d);
	if (error == MAYFLY_E_ABSENT &&
	    (absent_said(before->path, before->file.trace, &before->q) ||
	     absent_said(after->path, after->file.trace, &before->q)))
		return CLI_FAILED;
	if (error)
		return report_failed(lacks_answer(before) ? before : after, error);
	pager_start();
	status = before->json ? print_diff_json(c, d) : print_diff(c, d);
	trace_diff_free(d);
	return status;
}

static int open_and_run(struct comparison *c, char **path)
{
	struct report *before = &c->side[BEFORE], *after = &c->side[AFTER];
	int status = CLI_FAILED;

	output_detect(&before->out);
	*after = *before;
	before->path = path[BEFORE];
	after->path = path[AFTER];
	if (open_trace(before->path, &before->file)) {
		if (open_trace(after->path, &after->file)) {
			status = run(c);
			fleet_hosts_free(&c->hosts[BEFORE]);
			fleet_hosts_free(&c->hosts[AFTER]);
			close_trace(&after->file);
		}
		close_trace(&before->file);
	}
	return status;
}

int cmd_diff(int argc, char **argv)
{
	struct comparison c = {
	    .diff = {.per = {1, 1}},
	    .side = {{.top = REPORT_DEFAULT_TOP, .depth = REPORT_DEFAULT_DEPTH}}};
	struct question *q = &c.side[BEFORE].q;
	int status;

	question_init(q);
	status = options_take(&diff_option_table, &c, argc, argv);
	if (status == OPTIONS_TAKEN)
		status = two_traces_named(argc, argv) && question_agrees(q) &&
				 own_rules_add_default(&q->own.rules)
			     ? open_and_run(&c, argv + optind)
			     : CLI_USAGE;
	question_free(q);
	return status;
}
