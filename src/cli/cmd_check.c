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

static const char usage_text[] =
    "Usage: mayfly check [OPTIONS] FILE\n"
    "\n"
    "Fails (exit status 1) when a program needed more memory than it may, and shows the guilty\n"
    "stacks. Exit status 2: it could not be checked.\n"
    "\n"
    "Limits:\n"
    "  --max-peak B         live bytes at the peak\n"
    "  --max-allocated B    bytes allocated in all\n"
    "  --max-leaked B       bytes never freed, but for what 'mayfly leaks' suppresses\n"
    "  --max-blocks N       blocks allocated in all\n"
    "  --limits LIST        limits from a file, one on each line: METRIC LIMIT [function RE];\n"
    "                       METRIC is peak, allocated, leaked, temporary or blocks; LIMIT is a\n"
    "                       size, or +10% (of the baseline); may be repeated\n"
    "  --baseline FILE      a trace to compare with, for --max-increase and limits like +10%\n"
    "  --max-increase P%    how much the peak may be above the baseline's; or peak=10%,blocks=5%\n"
    "\n"
    "How to decide:\n"
    "  --confident          fail only when it is certain: when also the low end of the 95 %\n"
    "                       interval is above the limit (default: when the estimate is)\n"
    "  --suppressions LIST, --no-default-suppressions   as of 'mayfly leaks'\n"
    "\n"
    "How to show it:\n"
    "  --junit OUT          also write a JUnit report (XML), which CI systems show\n"
    "  --top N              guilty stacks to show (default 5)\n"
    "  --all-frames         also operator new, malloc and other allocator frames\n"
    "  --wide               names in full, lines as long as they get\n"
    "  --json               one JSON object\n"
    "  -h, --help           this text\n";

#define DEFAULT_TOP 5

enum {
	OPT_PEAK = 256,
	OPT_ALLOCATED,
	OPT_LEAKED,
	OPT_BLOCKS,
	OPT_LIMITS,
	OPT_BASELINE,
	OPT_INCREASE,
	OPT_CONFIDENT,
	OPT_SUPPRESSIONS,
	OPT_NO_DEFAULT,
	OPT_JUNIT,
	OPT_TOP,
	OPT_WIDE,
	OPT_JSON,
};

static const struct option long_options[] = {
    {"max-peak", required_argument, NULL, OPT_PEAK},
    {"max-allocated", required_argument, NULL, OPT_ALLOCATED},
    {"max-leaked", required_argument, NULL, OPT_LEAKED},
    {"max-blocks", required_argument, NULL, OPT_BLOCKS},
    {"limits", required_argument, NULL, OPT_LIMITS},
    {"baseline", required_argument, NULL, OPT_BASELINE},
    {"max-increase", required_argument, NULL, OPT_INCREASE},
    {"confident", no_argument, NULL, OPT_CONFIDENT},
    {"suppressions", required_argument, NULL, OPT_SUPPRESSIONS},
    {"no-default-suppressions", no_argument, NULL, OPT_NO_DEFAULT},
    {"junit", required_argument, NULL, OPT_JUNIT},
    {"top", required_argument, NULL, OPT_TOP},
    {"all-frames", no_argument, NULL, QUESTION_ALL_FRAMES},
    {"wide", no_argument, NULL, OPT_WIDE},
    {"json", no_argument, NULL, OPT_JSON},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

struct check {
	struct report report;
	struct opened_trace baseline;
	struct limits limits;
	struct suppressions suppressions;
	const char *baseline_path, *junit;
	bool confident, no_default;
};

/* ---- options ---- */

static bool set_limit(struct check *c, int option, const char *value)
{
	switch (option) {
	case OPT_PEAK:
		return limits_add(&c->limits, "--max-peak", CHECK_PEAK, value);
	case OPT_ALLOCATED:
		return limits_add(&c->limits, "--max-allocated", CHECK_ALLOCATED, value);
	case OPT_LEAKED:
		return limits_add(&c->limits, "--max-leaked", CHECK_LEAKED, value);
	case OPT_BLOCKS:
		return limits_add(&c->limits, "--max-blocks", CHECK_BLOCKS, value);
	case OPT_LIMITS:
		return limits_add_file(&c->limits, value);
	}
	return limits_add_increases(&c->limits, "--max-increase", value);
}

static bool set_option(struct check *c, int option, const char *value)
{
	struct report *r = &c->report;

	switch (option) {
	case OPT_BASELINE:
		c->baseline_path = value;
		break;
	case OPT_CONFIDENT:
		c->confident = true;
		break;
	case OPT_SUPPRESSIONS:
		return suppressions_add_file(&c->suppressions, value);
	case OPT_NO_DEFAULT:
		c->no_default = true;
		break;
	case OPT_JUNIT:
		c->junit = value;
		break;
	case OPT_TOP:
		return option_count("--top", value, &r->top);
	case OPT_WIDE:
		r->out.wide = true;
		break;
	case OPT_JSON:
		r->json = true;
		break;
	case QUESTION_ALL_FRAMES:
		return question_set(&r->q, option, value);
	default:
		return set_limit(c, option, value);
	}
	return true;
}

static bool check_options(const struct check *c)
{
	if (c->limits.count == 0) {
		cli_usage("no limit named; there are --max-peak, --max-allocated, --max-leaked, "
			  "--max-blocks, --limits and --max-increase");
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

/* Returns true when the command is to go on; else *status is its exit status. */
static bool parse(struct check *c, int argc, char **argv, int *status)
{
	int option;

	opterr = 0;
	*status = CLI_USAGE;
	while ((option = getopt_long(argc, argv, ":h", long_options, NULL)) != -1) {
		if (option == 'h' || option == '?' || option == ':') {
			if (option == 'h')
				fputs(usage_text, stdout);
			*status = option == 'h' ? cli_finish() : cli_bad_option(option, argv);
			return false;
		}
		if (!set_option(c, option, optarg))
			return false;
	}
	return check_options(c) && question_check(&c->report.q) && one_trace_named(argc, argv);
}

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
	if (parse(&c, argc, argv, &status))
		status = open_and_run(&c, argv[optind]);
	limits_free(&c.limits);
	suppressions_free(&c.suppressions);
	question_free(&c.report.q);
	return status;
}
