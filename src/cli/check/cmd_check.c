/* SPDX-License-Identifier: Apache-2.0 */
/* mayfly check: fails when a program needs more memory than it may. For CI. */
#include "cli/check/check.h"
#include "cli/option_table.h"
#include "cli/question_said.h"
#include "cli/cli.h"
#include "cli/fleet/fleet_trace.h"

#include "question/option_values.h"

#include "answer/trace_facts.h"

#include <getopt.h>
#include <string.h>

#define DEFAULT_TOP 5

struct check {
	struct report report;
	struct opened_trace baseline;
	struct limits limits;
	struct limit_case judged;
	struct suppressions suppressions;
	const char *baseline_path, *junit;
	int undecided; /* of undecided_names */
	bool no_default, plan;
};

static const char *const undecided_names[] = {"pass", "fail", NULL};

/* "max-" and the metric's name. */
static bool take_limit(const struct given *given, void *to)
{
	const char *name = given->row->name + strlen("max-");
	enum limit_metric metric = LIMIT_PEAK;

	limit_metric_named(name, strlen(name), &metric);
	return check_add(to, given->option, metric, given->value);
}

static bool take_limits(const struct given *given, void *to)
{
	return check_add_file(to, given->value);
}

static bool take_increases(const struct given *given, void *to)
{
	return check_add_increases(to, given->option, given->value);
}

static bool take_suppressions(const struct given *given, void *to)
{
	return suppressions_add_file(to, given->value);
}

static bool limits_agree(const struct check *c)
{
	if (c->limits.count == 0)
		return cli_refuse("no limit given; use --max-peak, --max-allocated, --max-leaked, "
				  "--max-blocks, --limits or --max-increase");
	if (limits_are_relative(&c->limits) && !c->baseline_path)
		return cli_refuse(
		    "a limit on an increase needs a trace to compare with: --baseline FILE");
	if (c->baseline_path && fleet_is_sum(c->baseline_path))
		return cli_refuse(
		    "--baseline: this question is answered by the sum of all processes; add "
		    "per=process for their mean");
	if (c->baseline_path && !limits_are_relative(&c->limits))
		return cli_refuse(
		    "--baseline: nothing is compared with it; add --max-increase 10%%");
	if (c->judged.strict && c->undecided)
		return cli_refuse("--strict decides by the estimate alone; without it, --undecided "
				  "fail fails what may be chance");
	if (c->plan && c->junit)
		return cli_refuse("--plan: decides nothing that --junit could report");
	return true;
}

static const struct option_row check_rows[] = {
    OPTION_HEADING("Limits:"),
    {"max-peak", .argument = "BYTES", .help = "live bytes at the peak",
     OPTION_IN(take_limit, struct limits, struct check, limits)},
    {"max-allocated", .argument = "BYTES", .help = "all allocated bytes",
     OPTION_IN(take_limit, struct limits, struct check, limits)},
    {"max-leaked", .argument = "BYTES",
     .help = "bytes never freed, except for those that 'mayfly leaks' suppresses",
     OPTION_IN(take_limit, struct limits, struct check, limits)},
    {"max-blocks", .argument = "N", .help = "all allocated blocks",
     OPTION_IN(take_limit, struct limits, struct check, limits)},
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
    {"strict", .rare = true,
     .help = "of a sampled trace, fail when the estimate is above the limit (default: only when "
	     "the whole 95 % interval is, so that chance does not fail an unchanged program)",
     OPTION_FLAG(struct check, judged.strict)},
    {"undecided", .argument = "pass|fail", OPTION_CHOICE(undecided_names, struct check, undecided),
     .help = "what to do when a sampled trace cannot tell whether a limit is exceeded: say so and "
	     "pass (default), or fail with exit status 3"},
    {"plan",
     .help = "decide nothing: show what each sampling interval would see, and which one would "
	     "decide",
     OPTION_FLAG(struct check, plan)},
    {"suppressions", .rare = true, .argument = "LIST", .words = OPTION_FILES,
     .help = "leave out leaks that this file matches, as 'mayfly leaks' does; may be repeated",
     OPTION_IN(take_suppressions, struct suppressions, struct check, suppressions)},
    {"no-default-suppressions", .rare = true, .help = "do not leave out what libc and CPython keep",
     OPTION_FLAG(struct check, no_default)},
    OPTION_HEADING("How to show it:"),
    {"junit", .argument = "OUT", .words = OPTION_FILES,
     .help = "also write a JUnit report (XML), which CI systems show",
     OPTION_TEXT(struct check, junit)},
    {"top", .argument = "N", .help = "number of guilty stacks to show (default 5)",
     OPTION_COUNT(struct check, report.top)},
    OPTION_FRAMES(struct check, report.q.hidden.frames, FRAMES_OWN_HELP),
    OPTION_WIDE(struct check, report.out.wide),
    OPTION_JSON(struct check, report.json),
    OPTION_END,
};

const struct option_table check_option_table = {
    .usage = "check [OPTIONS] FILE",
    .about =
	"Fails (exit status 1) when a program needed more memory than it may, and shows the\n"
	"guilty stacks. Exit status 2: it could not be checked; 3: with --undecided fail, the\n"
	"trace is too coarse to tell.\n",
    .rows = check_rows,
};

static int judge_failed(struct check *c, const struct limit *limit, int error)
{
	struct report *r = &c->report;

	r->q.query = limit_query(limit, &c->judged);
	if (error != MAYFLY_E_ABSENT || !c->baseline_path ||
	    !absent_said(c->baseline_path, c->baseline.trace, &r->q))
		report_failed(r, error);
	return CLI_USAGE;
}

static bool is_whole(const char *path, const struct mayfly_trace *trace)
{
	char lost[FIGURE_TEXT + 64];

	if (*trace_lost_text(lost, sizeof(lost), mayfly_trace_info(trace)))
		return !cli_error(
		    "%s: %s, so the limits cannot be checked: record again, with more "
		    "space (disk, --max-spool)",
		    path, lost);
	return true;
}

/* 0 or a negative enum mayfly_error. */
static int judge_limit(const struct check *c, struct limit *limit)
{
	int error = limit_judge(limit, &c->judged);

	return !error && (limit->undecided || c->plan) ? limit_plan(limit, &c->judged, !c->plan)
						       : error;
}

static int exit_status(const struct limits *l)
{
	if (limits_exceeded(l))
		return CLI_FAILED;
	return l->undecided_fails && limits_undecided(l) ? CLI_UNDECIDED : CLI_OK;
}

static int run_check(struct check *c)
{
	struct report *r = &c->report;
	int status = CLI_OK;

	if (!is_whole(r->path, r->file.trace) ||
	    (c->baseline_path && !is_whole(c->baseline_path, c->baseline.trace)))
		return CLI_USAGE;

	r->exact = trace_is_exact(r->file.info);
	c->judged.trace = r->file.trace;
	c->judged.baseline = c->baseline.trace;
	c->judged.query = r->q.query;
	c->judged.suppressed = suppressions_match(&c->suppressions);
	c->judged.top = r->top;
	c->judged.sampler = r->exact ? MAYFLY_STRATIFIED : r->file.info->sampler;
	c->limits.undecided_fails = c->undecided;
	for (size_t i = 0; i < c->limits.count; i++) {
		int error = judge_limit(c, &c->limits.item[i]);

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
		(c->plan ? check_print_plan : check_print_text)(r, &c->limits);
		status = cli_finish();
	}
	return status != CLI_OK ? CLI_USAGE : c->plan ? CLI_OK : exit_status(&c->limits);
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
	status = options_take(&check_option_table, &c, argc, argv);
	output_detect(&c.report.out);
	if (status == OPTIONS_TAKEN)
		status = limits_agree(&c) && question_agrees(&c.report.q) &&
				 one_named(argc, argv, "trace")
			     ? open_and_run(&c, argv[optind])
			     : CLI_USAGE;
	check_free(&c.limits);
	suppressions_free(&c.suppressions);
	question_free(&c.report.q);
	return status;
}
