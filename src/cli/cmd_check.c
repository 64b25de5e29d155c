/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mayfly check: fails when a program needs more memory than it may. For CI.
 *
 * Each limit is a query by stack: its total is compared with the limit, and its largest rows are
 * the guilty stacks. Limits on increases put the same query to the baseline.
 */
#include "cli/check.h"

#include "cli/absent.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "query/diff.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_TOP 5

struct check {
	struct report report;
	struct opened_trace baseline;
	struct limits limits;
	struct suppressions suppressions;
	const char *baseline_path, *junit;
	bool confident, no_default;
};

/* ---- options ---- */

static int take_limit(struct check *c, enum check_metric metric, const char *option,
		      const char *value)
{
	return limits_add(&c->limits, option, metric, value) ? CLI_OK : CLI_USAGE;
}

static int take_peak(const struct option_row *row, const char *option, const char *value, void *to)
{
	(void)row;
	return take_limit(to, CHECK_PEAK, option, value);
}

static int take_allocated(const struct option_row *row, const char *option, const char *value,
			  void *to)
{
	(void)row;
	return take_limit(to, CHECK_ALLOCATED, option, value);
}

static int take_leaked(const struct option_row *row, const char *option, const char *value,
		       void *to)
{
	(void)row;
	return take_limit(to, CHECK_LEAKED, option, value);
}

static int take_blocks(const struct option_row *row, const char *option, const char *value,
		       void *to)
{
	(void)row;
	return take_limit(to, CHECK_BLOCKS, option, value);
}

static int take_limits(const struct option_row *row, const char *option, const char *value,
		       void *to)
{
	(void)row;
	(void)option;
	return limits_add_file(to, value) ? CLI_OK : CLI_USAGE;
}

static int take_increases(const struct option_row *row, const char *option, const char *value,
			  void *to)
{
	(void)row;
	return limits_add_increases(to, option, value) ? CLI_OK : CLI_USAGE;
}

static int take_suppressions(const struct option_row *row, const char *option, const char *value,
			     void *to)
{
	(void)row;
	(void)option;
	return suppressions_add_file(to, value) ? CLI_OK : CLI_USAGE;
}

static bool limits_agree(const struct check *c)
{
	if (c->limits.count == 0) {
		cli_usage("no limit given; use --max-peak, --max-allocated, --max-leaked, "
			  "--max-blocks, --limits or --max-increase");
		return false;
	}
	if (limits_are_relative(&c->limits) && !c->baseline_path) {
		cli_usage("a limit on an increase needs a trace to compare with: --baseline FILE");
		return false;
	}
	if (c->baseline_path && !limits_are_relative(&c->limits)) {
		cli_usage("--baseline: nothing is compared with it; add --max-increase 10%%");
		return false;
	}
	return true;
}

static const struct option_row check_rows[] = {
    OPTION_HEADING("Limits:"),
    {"max-peak", .argument = "BYTES", .help = "live bytes at the peak", OPTION_OWN(take_peak)},
    {"max-allocated", .argument = "BYTES", .help = "all allocated bytes",
     OPTION_OWN(take_allocated)},
    {"max-leaked", .argument = "BYTES",
     .help = "bytes never freed, except for those that 'mayfly leaks' suppresses",
     OPTION_OWN(take_leaked)},
    {"max-blocks", .argument = "N", .help = "all allocated blocks", OPTION_OWN(take_blocks)},
    {"limits", .argument = "LIST", .words = OPTION_FILES,
     .help = "limits from a file, one on each line: METRIC LIMIT [function RE]; METRIC is peak, "
	     "allocated, leaked, temporary or blocks; LIMIT is a size, or +10% (of the baseline); "
	     "may be repeated",
     OPTION_IN(take_limits, struct limits, struct check, limits)},
    {"baseline", .argument = "FILE", .words = OPTION_FILES,
     .help = "a trace to compare with, for --max-increase and limits such as +10%",
     OPTION_TEXT(struct check, baseline_path)},
    {"max-increase", .argument = "P%",
     .help = "increase of the peak over the baseline's; or peak=10%,blocks=5%",
     OPTION_IN(take_increases, struct limits, struct check, limits)},
    OPTION_HEADING("How to decide:"),
    {"confident",
     .help = "fail only when it is certain: when the low end of the 95 % interval is above the "
	     "limit, too (default: when the estimate is)",
     OPTION_FLAG(struct check, confident)},
    {"suppressions", .argument = "LIST", .words = OPTION_FILES,
     .help = "leave out leaks that this file matches, as 'mayfly leaks' does; may be repeated",
     OPTION_IN(take_suppressions, struct suppressions, struct check, suppressions)},
    {"no-default-suppressions", .help = "do not leave out what libc keeps",
     OPTION_FLAG(struct check, no_default)},
    OPTION_HEADING("How to show it:"),
    {"junit", .argument = "OUT", .words = OPTION_FILES,
     .help = "also write a JUnit report (XML), which CI systems show",
     OPTION_TEXT(struct check, junit)},
    {"top", .argument = "N", .help = "number of guilty stacks to show (default 5)",
     OPTION_COUNT(struct check, report.top)},
    OPTION_ALL_FRAMES(struct check, report.q.hidden.all_frames),
    OPTION_WIDE(struct check, report.out.wide),
    OPTION_JSON(struct check, report.json),
    OPTION_END,
};

const struct option_table check_option_table = {
    .usage = "check [OPTIONS] FILE",
    .about = "Fails (exit status 1) when a program needed more memory than it may, and shows the\n"
	     "guilty stacks. Exit status 2: it could not be checked.\n",
    .rows = check_rows,
};

/* ---- judging ---- */

static struct mayfly_query query_of(struct check *c, struct limit *limit)
{
	static const enum mayfly_metric metrics[CHECK_METRICS] = {
	    MAYFLY_PEAK, MAYFLY_ALLOCATED, MAYFLY_LEAKED, MAYFLY_TEMPORARY, MAYFLY_ALLOCATED};
	struct mayfly_query q = c->report.q.query;

	q.metric = metrics[limit->metric];
	q.by = MAYFLY_BY_STACK;
	/* Rows come by bytes: those with the most blocks may be any of them. */
	if (limit->metric != CHECK_BLOCKS)
		q.stack_rows = c->report.top ? c->report.top : 1;
	q.focus = pattern_match(&limit->focus);
	if (limit->metric == CHECK_LEAKED)
		q.ignore = suppressions_match(&c->suppressions);
	return q;
}

static void judge(const struct check *c, struct limit *limit)
{
	const struct mayfly_figure *found = limit_figure(limit, &limit->found);
	const struct mayfly_figure *base = limit_figure(limit, &limit->base);
	double factor = 1 + limit->value;

	limit->bound = limit->value;
	limit->excess = found->estimate - limit->value;
	limit->excess_low = found->low - limit->value;
	limit->excess_high = found->high - limit->value;
	if (limit->relative) {
		/* The baseline counts times `factor`: as if it were per 1 / factor. */
		struct diff_figure d =
		    diff_compare(base, limit->base.samples, found, limit->found.samples,
				 (struct diff_per){1 / factor, 1});

		limit->bound = base->estimate * factor;
		limit->excess = d.change;
		limit->excess_low = d.low;
		limit->excess_high = d.high;
	}
	limit->blind = c->report.file.info->absent & MAYFLY_ABSENT_ERRORS ||
		       (limit->relative && c->baseline.info->absent & MAYFLY_ABSENT_ERRORS);
	limit->exceeded = limit->excess > 0;
	if (c->confident)
		limit->exceeded = limit->excess_low > 0 && !limit->blind;
}

static int compare_growth(const void *x, const void *y)
{
	const struct diff_row *a = x, *b = y;

	return (a->bytes.change < b->bytes.change) - (a->bytes.change > b->bytes.change);
}

static int compare_growth_of_blocks(const void *x, const void *y)
{
	const struct diff_row *a = x, *b = y;

	return (a->blocks.change < b->blocks.change) - (a->blocks.change > b->blocks.change);
}

static int compare_blocks(const void *x, const void *y)
{
	const struct mayfly_row *const *a = x, *const *b = y;
	double m = (*a)->self.blocks.estimate, n = (*b)->self.blocks.estimate;

	return m != n ? (m < n) - (m > n) : (*a > *b) - (*a < *b);
}

/* The stacks that grew most, largest first. */
static int find_growth(struct check *c, struct limit *limit, const struct mayfly_query *query)
{
	struct mayfly_query all = *query;
	struct trace_diff *d;
	bool done = true;
	int error;

	all.stack_rows = 0;
	error = trace_diff_run(c->baseline.trace, c->report.file.trace, &all,
			       (struct diff_per){1, 1}, &d);
	if (error)
		return error;
	qsort(d->row, d->rows, sizeof(*d->row),
	      limit->metric == CHECK_BLOCKS ? compare_growth_of_blocks : compare_growth);
	for (size_t i = 0; done && i < d->rows && limit->guilty < c->report.top; i++) {
		const struct diff_row *row = &d->row[i];
		double change =
		    limit->metric == CHECK_BLOCKS ? row->blocks.change : row->bytes.change;

		if (row->after && change > 0)
			done = check_add_guilt(&c->report, limit, row->after, change);
	}
	trace_diff_free(d);
	return done ? 0 : MAYFLY_E_MEMORY;
}

/* The stacks with most blocks, the most first. */
static int find_most_blocks(struct check *c, struct limit *limit,
			    const struct mayfly_result *result)
{
	const struct mayfly_row **row = calloc(result->rows + 1, sizeof(*row));
	bool done = row;

	for (size_t i = 0; done && i < result->rows; i++)
		row[i] = &result->row[i];
	if (done)
		qsort(row, result->rows, sizeof(*row), compare_blocks);
	for (size_t i = 0; done && i < result->rows && i < c->report.top; i++)
		done = check_add_guilt(&c->report, limit, row[i], 0);
	free(row);
	return done ? 0 : MAYFLY_E_MEMORY;
}

static int find_guilt(struct check *c, struct limit *limit, const struct mayfly_query *query,
		      const struct mayfly_result *result)
{
	if (!limit->exceeded)
		return 0;
	if (limit->relative)
		return find_growth(c, limit, query);
	if (limit->metric == CHECK_BLOCKS)
		return find_most_blocks(c, limit, result);
	for (size_t i = 0; i < result->rows && i < c->report.top; i++)
		if (!check_add_guilt(&c->report, limit, &result->row[i], 0))
			return MAYFLY_E_MEMORY;
	return 0;
}

static int find_base(struct check *c, struct limit *limit, const struct mayfly_query *query)
{
	struct mayfly_result *result;
	int error;

	if (!limit->relative)
		return 0;
	error = mayfly_query_run(c->baseline.trace, query, &result);
	if (error)
		return error;
	limit->base = result->total;
	mayfly_result_free(result);
	return 0;
}

static int check_limit(struct check *c, struct limit *limit)
{
	struct mayfly_query query = query_of(c, limit);
	struct mayfly_result *result;
	int error = find_base(c, limit, &query);

	if (!error)
		error = mayfly_query_run(c->report.file.trace, &query, &result);
	if (error)
		return error;
	limit->found = result->total;
	judge(c, limit);
	error = find_guilt(c, limit, &query, result);
	mayfly_result_free(result);
	return error;
}

/* ---- the command ---- */

static int run(struct check *c)
{
	struct report *r = &c->report;
	bool exceeded = false;
	int status = CLI_OK;

	r->exact = trace_is_exact(r->file.info);
	for (size_t i = 0; i < c->limits.count; i++) {
		int error = check_limit(c, &c->limits.item[i]);

		if (error) {
			r->q.query = query_of(c, &c->limits.item[i]);
			if (error != MAYFLY_E_ABSENT || !c->baseline_path ||
			    !absent_said(c->baseline_path, c->baseline.trace, &r->q))
				report_failed(r, error);
			return CLI_USAGE;
		}
		exceeded |= c->limits.item[i].exceeded;
	}
	if (c->junit)
		status = check_write_junit(c->junit, r, &c->limits);
	if (r->json && status == CLI_OK) {
		status = check_print_json(r, &c->limits, c->confident);
	} else if (status == CLI_OK) {
		check_print_text(r, &c->limits);
		status = cli_finish();
	}
	if (status != CLI_OK)
		return CLI_USAGE;
	return exceeded ? CLI_FAILED : CLI_OK;
}

/* The baseline first, so that "-" is the trace that is checked. */
static int open_and_run(struct check *c, const char *path)
{
	int status = CLI_USAGE;

	if (!c->no_default && !suppressions_add_default(&c->suppressions))
		return status;
	if (c->baseline_path && !open_trace(c->baseline_path, &c->baseline))
		return status;
	c->report.path = path;
	if (open_trace(path, &c->report.file)) {
		status = run(c);
		close_trace(&c->report.file);
	}
	if (c->baseline_path)
		close_trace(&c->baseline);
	return status;
}

int cmd_check(int argc, char **argv)
{
	struct check c = {.report = {.top = DEFAULT_TOP}};
	int status;

	question_init(&c.report.q);
	c.report.out = output_detect();
	status = options_take(&check_option_table, &c, argc, argv);
	if (status == OPTIONS_TAKEN)
		status =
		    limits_agree(&c) && question_check(&c.report.q) && one_trace_named(argc, argv)
			? open_and_run(&c, argv[optind])
			: CLI_USAGE;
	limits_free(&c.limits);
	suppressions_free(&c.suppressions);
	question_free(&c.report.q);
	return status;
}
