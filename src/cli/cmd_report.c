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
    "  --metric METRIC      live, peak (default), allocated, leaked, temporary or survived\n"
    "                       (allocated from --from on and still live at --to)\n"
    "  --by KEY             function (default), line, stack, module, thread, size, lifetime,\n"
    "                       heap, freeing-thread or threads (that allocated, that freed)\n"
    "  --sort self|total    rank by what a key allocates itself, or with all that it calls\n"
    "  --at TIME|peak|end   the moment for --metric live (default end)\n"
    "  --from TIME, --to TIME   only blocks allocated in this time\n"
    "  --survival           of blocks in OCaml's minor heap: how many are promoted, how soon,\n"
    "                       and how long they live; --by line (default), function, stack\n"
    "                       or module\n"
    "  --series N           what is live at N moments, evenly spaced, for each of the top rows\n"
    "  --histogram size|lifetime   for each of the top rows, how its blocks are spread\n"
    "  --churn              how much each of the top rows allocates to keep how much alive\n"
    "  --reallocs           chains of realloc: how often blocks grow, and what is copied\n"
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
	OPT_HISTOGRAM,
	OPT_CHURN,
	OPT_REALLOCS,
	OPT_SURVIVAL,
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
    {"histogram", required_argument, NULL, OPT_HISTOGRAM},
    {"churn", no_argument, NULL, OPT_CHURN},
    {"reallocs", no_argument, NULL, OPT_REALLOCS},
    {"rss", no_argument, NULL, OPT_RSS},
    {"fragmentation", no_argument, NULL, OPT_FRAGMENTATION},
    {"survival", no_argument, NULL, OPT_SURVIVAL},
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

static bool set_histogram(struct report *r, const char *text)
{
	static const char *const names[] = {"size", "lifetime", NULL};
	int choice;

	r->histogram = true;
	if (!option_choice("--histogram", text, names, &choice))
		return false;
	r->classes = choice == 0 ? MAYFLY_BY_SIZE : MAYFLY_BY_LIFETIME;
	return true;
}

static bool set_presentation(struct report *r, int option, const char *value)
{
	switch (option) {
	case OPT_SERIES:
		return set_series(r, value);
	case OPT_HISTOGRAM:
		return set_histogram(r, value);
	case OPT_CHURN:
		r->churn = true;
		break;
	case OPT_REALLOCS:
		r->reallocs = true;
		break;
	case OPT_SURVIVAL:
		r->survival = true;
		break;
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

/* What --churn and --reallocs show is no matter of a metric. */
static bool views_agree(struct report *r)
{
	const char *view = r->churn ? "--churn" : "--reallocs";

	if ((r->series > 0) + r->histogram + r->churn + r->reallocs + r->survival > 1) {
		cli_usage(
		    "--series, --histogram, --churn, --reallocs, --survival: only one of them at "
		    "a time");
		return false;
	}
	if (!r->churn && !r->reallocs)
		return true;
	if (r->q.at_given) {
		cli_usage("%s is of a time, not of a moment: use --from and --to instead of --at",
			  view);
		return false;
	}
	if (r->q.metric_given && (r->reallocs || r->q.query.metric != MAYFLY_ALLOCATED)) {
		cli_usage("%s goes without --metric %s", view, metric_names[r->q.query.metric]);
		return false;
	}
	r->q.query.metric = MAYFLY_ALLOCATED;
	return true;
}

/* Questions about memory that go with no other one. Frames can be hidden from the second. */
static bool memory_alone(const struct report *r)
{
	const struct question *q = &r->q;
	bool rows = q->metric_given || q->by_given || q->sort_given || q->at_given ||
		    q->window_given || r->series || r->histogram || r->churn || r->reallocs ||
		    r->survival;
	bool filtered = q->chooses_blocks || (r->rss && q->filtered);

	if (r->rss + r->fragmentation == 0 ||
	    (r->rss + r->fragmentation == 1 && !rows && !filtered))
		return true;
	cli_usage("%s: no other question and no filter goes with it",
		  r->rss ? "--rss" : "--fragmentation");
	return false;
}

static bool check_survival(struct report *r)
{
	enum mayfly_by by = r->q.query.by;

	if (!r->survival)
		return true;
	if (!r->q.by_given)
		r->q.query.by = MAYFLY_BY_LINE;
	else if (by != MAYFLY_BY_LINE && by != MAYFLY_BY_FUNCTION && by != MAYFLY_BY_STACK &&
		 by != MAYFLY_BY_MODULE)
		return cli_usage("--survival: --by is line, function, stack or module"), false;
	if (r->series || r->q.metric_given || r->q.sort_given || r->q.at_given)
		return cli_usage("--survival goes with no --series, --metric, --at or --sort"),
		       false;
	if (r->q.query.min_lifetime_ns > 0 || r->q.query.max_lifetime_ns < INT64_MAX)
		return cli_usage("--survival goes with no --min-lifetime or --max-lifetime"), false;
	if (r->q.query.heaps)
		return cli_usage("--survival is about OCaml's minor heap: no --heap"), false;
	return true;
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
	return memory_alone(r) && views_agree(r) && question_check(&r->q) && check_survival(r) &&
	       one_trace_named(argc, argv);
}

/* ---- what the trace cannot answer ---- */

/* Views of a converted trace that need what its file does not have: then a line has said so. */
static bool view_lacks(const struct report *r)
{
	uint32_t absent = r->file.info->absent;
	const char *what;
	char text[512];

	if (r->churn || r->series) {
		what = r->churn ? "--churn" : "--series";
		absent &= MAYFLY_ABSENT_TIMES | MAYFLY_ABSENT_LIVE | MAYFLY_ABSENT_ALLOCATED;
		if (r->series)
			absent &= ~(uint32_t)MAYFLY_ABSENT_ALLOCATED;
	} else if (r->histogram) {
		what = "--histogram";
		absent &=
		    r->classes == MAYFLY_BY_SIZE ? MAYFLY_ABSENT_SIZES : MAYFLY_ABSENT_LIFETIMES;
	} else {
		what = "--reallocs";
		absent &= r->reallocs ? MAYFLY_ABSENT_SIZES : 0;
	}
	if (absent)
		cli_error("%s: the file that it comes from does not have %s, which %s needs",
			  r->path, absent_text(text, sizeof(text), absent), what);
	return absent;
}

int report_failed(const struct report *r, int error)
{
	const char *what = r->histogram	 ? "--histogram"
			   : r->churn	 ? "--churn"
			   : r->reallocs ? "--reallocs"
					 : question_needs_blocks(&r->q);

	if (error == MAYFLY_E_ABSENT && absent_said(r->path, r->file.trace, &r->q))
		return CLI_FAILED;
	if ((error == MAYFLY_E_ABSENT || error == MAYFLY_E_RANGE) && view_lacks(r))
		return CLI_FAILED;
	if (error == MAYFLY_E_TOO_LARGE && r->series)
		return cli_error("--series %zu: too many rows; ask for fewer with --top",
				 r->series);
	if (error == MAYFLY_E_TOO_LARGE && r->q.query.by == MAYFLY_BY_THREADS)
		return cli_error("--by threads: %zu threads make too many pairs; use --by thread "
				 "or --by freeing-thread",
				 r->file.info->threads);
	if (error == MAYFLY_E_TOO_LARGE && r->histogram)
		return cli_error("--histogram: too many rows; ask for fewer with --top");
	if (error == MAYFLY_E_RANGE && (r->series || r->churn))
		return cli_error("--from: the program had ended by then");
	if (error == MAYFLY_E_ABSENT && r->reallocs && !r->file.info->snapshot_ns)
		return cli_error("--reallocs needs every allocation, and this trace has samples: "
				 "record with --exact for that");
	if (error != MAYFLY_E_ABSENT || !what)
		return cli_error("%s", mayfly_error_text(error));
	return cli_error("this trace holds per-stack counters (--snapshots), not single blocks, "
			 "which %s needs; record with --exact for that",
			 what);
}
static bool is_overview(const struct report *r)
{
	return !r->q.metric_given && !r->q.by_given && !r->q.sort_given && !r->q.at_given &&
	       !r->q.window_given && !r->q.filtered;
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
	if (r->survival)
		return report_print_survival(r);
	if (r->series)
		return report_print_series(r);
	if (r->histogram)
		return report_print_histogram(r);
	if (r->churn)
		return report_print_churn(r);
	if (r->reallocs)
		return report_print_reallocs(r);
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
