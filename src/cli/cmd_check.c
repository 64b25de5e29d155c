/* SPDX-License-Identifier: Apache-2.0 */
/* mayfly check: fails when a program needs more memory than it may. For CI. */
#include "cli/check.h"
#include "cli/cli.h"

#include "cli/options.h"

#include "answer/trace_facts.h"

#include <getopt.h>

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
	struct limit_case judged;
	struct suppressions suppressions;
	const char *baseline_path, *junit;
	bool no_default;
};

/* ---- options ---- */

static bool set_limit(struct check *c, int option, const char *value)
{
	switch (option) {
	case OPT_PEAK:
		return check_add(&c->limits, "--max-peak", LIMIT_PEAK, value);
	case OPT_ALLOCATED:
		return check_add(&c->limits, "--max-allocated", LIMIT_ALLOCATED, value);
	case OPT_LEAKED:
		return check_add(&c->limits, "--max-leaked", LIMIT_LEAKED, value);
	case OPT_BLOCKS:
		return check_add(&c->limits, "--max-blocks", LIMIT_BLOCKS, value);
	case OPT_LIMITS:
		return check_add_file(&c->limits, value);
	}
	return check_add_increases(&c->limits, "--max-increase", value);
}

static bool set_option(struct check *c, int option, const char *value)
{
	struct report *r = &c->report;

	switch (option) {
	case OPT_BASELINE:
		c->baseline_path = value;
		break;
	case OPT_CONFIDENT:
		c->judged.confident = true;
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

/* ---- the command ---- */

static int judge_failed(struct check *c, const struct limit *limit, int error)
{
	struct report *r = &c->report;

	r->q.query = limit_query(limit, &c->judged);
	if (error != MAYFLY_E_ABSENT || !c->baseline_path ||
	    !absent_said(c->baseline_path, c->baseline.trace, &r->q))
		report_failed(r, error);
	return CLI_USAGE;
}

static int run_check(struct check *c)
{
	struct report *r = &c->report;
	int status = CLI_OK;

	r->exact = trace_is_exact(r->file.info);
	c->judged.trace = r->file.trace;
	c->judged.baseline = c->baseline.trace;
	c->judged.query = r->q.query;
	c->judged.suppressed = suppressions_match(&c->suppressions);
	c->judged.top = r->top;
	for (size_t i = 0; i < c->limits.count; i++) {
		int error = limit_judge(&c->limits.item[i], &c->judged);

		if (error)
			return judge_failed(c, &c->limits.item[i], error);
	}
	if (c->junit)
		status = check_write_junit(c->junit, r, &c->limits);
	if (r->json && status == CLI_OK) {
		struct json j = json_document();

		json_limits(&j, &c->limits, &c->judged);
		status = json_print(&j);
	} else if (status == CLI_OK) {
		check_print_text(r, &c->limits);
		status = cli_finish();
	}
	if (status != CLI_OK)
		return CLI_USAGE;
	return limits_exceeded(&c->limits) ? CLI_FAILED : CLI_OK;
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
		status = run_check(c);
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
	check_free(&c.limits);
	suppressions_free(&c.suppressions);
	question_free(&c.report.q);
	return status;
}
