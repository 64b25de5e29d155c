/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mayfly report: where the memory is.
 *
 * options -> struct mayfly_query -> rows -> a table, a list of stacks, or JSON; report.h says which
 * file does what.
 */
#include "report.h"

#include "absent.h"

#include "options.h"
#include "report_fragmentation.h"
#include "report_rss.h"

#include <getopt.h>

static const char usage_text[] =
    "Usage: mayfly report [OPTIONS] FILE\n"
    "\n"
    "Shows where the memory is. Without options: a summary, then what was live at the peak.\n"
    "FILE is a trace, or what was left behind by a recording that was killed; - reads\n"
    "standard input.\n"
    "\n"
    "What to show:\n"
    "  --metric METRIC      live, peak (default), allocated, leaked or temporary\n"
    "  --by KEY             function (default), line, stack, module, thread, size, lifetime\n"
    "                       or heap\n"
    "  --sort self|total    rank by what a key allocates itself, or with all that it calls\n"
    "  --at TIME|peak|end   the moment for --metric live (default end)\n"
    "  --from TIME, --to TIME   only blocks allocated in this time\n"
    "  --series N           what is live at N moments, evenly spaced, for each of the top rows\n"
    "  --rss                why RSS is larger than the heap: what it consists of\n"
    "  --fragmentation      whose blocks hold nearly empty pages, of exact traces\n"
    "\n" QUESTION_FILTER_HELP "\n"
    "How to show it:\n"
    "  --top N              rows to show (default 20; 0: all)\n"
    "  --all                all rows, also those with too few samples to rank\n"
    "  --depth N            frames to show of each stack (default 24; 0: all)\n"
    "  --all-frames         also operator new, malloc and other allocator frames\n"
    "  --wide               names in full, lines as long as they get\n"
    "  --json               one JSON object\n"
    "  -h, --help           this text\n"
    "\n"
    "Sizes may end in K, M or G (powers of 1024), times in ns, us, ms, s, m or h.\n";

#define DEFAULT_TOP   20
#define DEFAULT_DEPTH 24

/* ---- options ---- */

enum {
	OPT_SERIES = 256,
	OPT_TOP,
	OPT_ALL,
	OPT_DEPTH,
	OPT_WIDE,
	OPT_JSON,
	OPT_RSS,
	OPT_FRAGMENTATION,
};

static const struct option long_options[] = {
    QUESTION_METRIC_OPTIONS,
    QUESTION_ROW_OPTIONS,
    QUESTION_FILTER_OPTIONS,
    {"series", required_argument, NULL, OPT_SERIES},
    {"rss", no_argument, NULL, OPT_RSS},
    {"fragmentation", no_argument, NULL, OPT_FRAGMENTATION},
    {"top", required_argument, NULL, OPT_TOP},
    {"all", no_argument, NULL, OPT_ALL},
    {"depth", required_argument, NULL, OPT_DEPTH},
    {"wide", no_argument, NULL, OPT_WIDE},
    {"json", no_argument, NULL, OPT_JSON},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static bool set_series(struct report *r, const char *text)
{
	if (!option_count("--series", text, &r->series))
		return false;
	if (r->series >= 1 && r->series <= MOST_MOMENTS)
		return true;
	cli_usage("--series: '%s' is not a number of moments from 1 to %d", text, MOST_MOMENTS);
	return false;
}

static bool set_presentation(struct report *r, int option, const char *value)
{
	switch (option) {
	case OPT_SERIES:
		return set_series(r, value);
	case OPT_TOP:
		r->top_given = true;
		return option_count("--top", value, &r->top);
	case OPT_DEPTH:
		r->depth_given = true;
		return option_count("--depth", value, &r->depth);
	case OPT_ALL:
		r->all = true;
		break;
	case OPT_WIDE:
		r->out.wide = true;
		break;
	case OPT_JSON:
		r->json = true;
		break;
	case OPT_RSS:
		r->rss = true;
		break;
	case OPT_FRAGMENTATION:
		r->fragmentation = true;
		break;
	}
	return true;
}

/* Questions about memory that go with no other one. Frames can be hidden from the second. */
static bool memory_alone(const struct report *r)
{
	const struct question *q = &r->q;
	bool rows = q->metric_given || q->by_given || q->sort_given || q->at_given ||
		    q->window_given || r->series;
	bool filtered = q->chooses_blocks || (r->rss && q->filtered);

	if (r->rss + r->fragmentation == 0 ||
	    (r->rss + r->fragmentation == 1 && !rows && !filtered))
		return true;
	cli_usage("%s: no other question and no filter goes with it",
		  r->rss ? "--rss" : "--fragmentation");
	return false;
}

/* Returns true when the command is to go on; else *status is its exit status. */
static bool parse(struct report *r, int argc, char **argv, int *status)
{
	int option;

	opterr = 0;
	*status = CLI_USAGE;
	while ((option = getopt_long(argc, argv, ":h", long_options, NULL)) != -1) {
		bool good;

		if (option == 'h') {
			fputs(usage_text, stdout);
			*status = cli_finish();
			return false;
		}
		if (option == '?' || option == ':') {
			*status = cli_bad_option(option, argv);
			return false;
		}
		if (question_has(option))
			good = question_set(&r->q, option, optarg);
		else
			good = set_presentation(r, option, optarg);
		if (!good)
			return false;
	}
	return memory_alone(r) && question_check(&r->q) && one_trace_named(argc, argv);
}

/* ---- what the trace cannot answer ---- */

int report_failed(const struct report *r, int error)
{
	const char *what = question_needs_blocks(&r->q);

	if (error == MAYFLY_E_ABSENT && absent_said(r->path, r->file.trace, &r->q))
		return CLI_FAILED;
	if (error == MAYFLY_E_ABSENT && r->series && r->file.info->absent)
		return cli_error("%s: the file that it comes from does not have times, which "
				 "--series needs",
				 r->path);
	if (error == MAYFLY_E_TOO_LARGE && r->series)
		return cli_error("--series %zu: too many rows; ask for fewer with --top",
				 r->series);
	if (error == MAYFLY_E_RANGE && r->series)
		return cli_error("--from: the program had ended by then");
	if (error != MAYFLY_E_ABSENT || !what)
		return cli_error("%s", mayfly_error_text(error));
	return cli_error("this trace holds per-stack counters (--snapshots), not single blocks, "
			 "which %s needs; record with --exact for that",
			 what);
}
static bool is_overview(const struct report *r)
{
	return !r->q.metric_given && !r->q.by_given && !r->q.sort_given && !r->q.at_given &&
	       !r->q.window_given && !r->q.filtered && !r->series;
}

/* ---- the command ---- */

static int run(struct report *r)
{
	const struct fragmentation_request pages = {r->path, &r->q.hidden, r->top, r->json};
	int status;

	r->exact = trace_is_exact(r->file.info);
	question_fit(&r->q, r->file.info);
	if (r->rss)
		return report_rss(&r->file, r->path, &r->out, r->json);
	if (r->fragmentation)
		return report_fragmentation(&r->file, &r->out, &pages);
	if (r->series)
		return report_print_series(r);
	if (r->json)
		return report_print_json(r);
	if (is_overview(r))
		status = report_print_overview(r);
	else
		status = report_print_answer(r);
	if (status)
		return status;
	report_print_legend(r);
	return cli_finish();
}

int cmd_report(int argc, char **argv)
{
	struct report r = {.top = DEFAULT_TOP, .depth = DEFAULT_DEPTH};
	int status;

	question_init(&r.q);
	r.out = output_detect();
	if (parse(&r, argc, argv, &status)) {
		status = CLI_FAILED;
		r.path = argv[optind];
		if (open_trace(r.path, &r.file)) {
			status = run(&r);
			close_trace(&r.file);
		}
	}
	question_free(&r.q);
	return status;
}
