/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mayfly report: where the memory is.
 *
 * options -> struct mayfly_query -> rows -> a table, a list of stacks, or JSON; report.h says which
 * file does what.
 */
#include "cli/cli.h"
#include "cli/report/report.h"

#include "cli/options.h"

#include "answer/trace_facts.h"

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
    "                       heap, freeing-thread, threads (that allocated, that freed),\n"
    "                       label (all of a block's) or label:KEY (the values of one key)\n"
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
    "  --spans              the program's spans: how often, how long, what is allocated inside\n"
    "                       and what of it is still live; --sort total (default), self, count,\n"
    "                       allocated or live\n"
    "  --events             spans, instants and counters; pauses of OCaml's collector\n"
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

/* ---- options ---- */

enum {
	OPT_SERIES = 256,
	OPT_HISTOGRAM,
	OPT_CHURN,
	OPT_REALLOCS,
	OPT_SURVIVAL,
	OPT_RSS,
	OPT_FRAGMENTATION,
	OPT_SPANS,
	OPT_EVENTS,
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
    {"spans", no_argument, NULL, OPT_SPANS},
    {"events", no_argument, NULL, OPT_EVENTS},
    REPORT_OPTIONS,
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

/* ---- views ---- */

/* Options of a question that not every view takes. */
enum takes {
	TAKES_METRIC = 1u << 0,
	TAKES_BY = 1u << 1,
	TAKES_SORT = 1u << 2,
	TAKES_AT = 1u << 3,
	TAKES_WINDOW = 1u << 4,
	TAKES_HEAP = 1u << 5,
	TAKES_LIFETIME = 1u << 6,
	TAKES_FILTERS = 1u << 7, /* that choose blocks, other than these two and --thread */
	TAKES_HIDE = 1u << 8,
	TAKES_THREAD = 1u << 9,
	TAKES_ALL = (1u << 10) - 1,
};

static int print_rows(struct report *r);

static const struct view_kind {
	unsigned takes;	     /* enum takes */
	bool only_allocated; /* the metric is always `allocated` */
	int (*print)(struct report *r);
} views[] = {
    [VIEW_ROWS] = {TAKES_ALL, .print = print_rows},
    [VIEW_SERIES] = {TAKES_ALL, .print = report_print_series},
    [VIEW_HISTOGRAM] = {TAKES_ALL, .print = report_print_histogram},
    [VIEW_CHURN] = {TAKES_ALL & ~(TAKES_METRIC | TAKES_AT), .only_allocated = true,
		    .print = report_print_churn},
    [VIEW_REALLOCS] = {TAKES_ALL & ~(TAKES_METRIC | TAKES_AT), .only_allocated = true,
		       .print = report_print_reallocs},
    [VIEW_SURVIVAL] = {TAKES_BY | TAKES_WINDOW | TAKES_FILTERS | TAKES_THREAD | TAKES_HIDE,
		       .print = report_print_survival},
    [VIEW_RSS] = {0, .print = report_print_rss},
    [VIEW_FRAGMENTATION] = {TAKES_HIDE, .print = report_print_fragmentation},
    [VIEW_SPANS] = {TAKES_SORT | TAKES_WINDOW | TAKES_HEAP | TAKES_LIFETIME | TAKES_FILTERS |
			TAKES_THREAD,
		    .print = report_print_spans},
    [VIEW_EVENTS] = {TAKES_SORT | TAKES_WINDOW | TAKES_THREAD, .print = report_print_events},
};

static bool set_view(struct report *r, enum report_view view)
{
	if (r->view != VIEW_ROWS && r->view != view) {
		cli_usage("%s and %s: only one of them at a time", report_view_option(r->view),
			  report_view_option(view));
		return false;
	}
	r->view = view;
	return true;
}

static bool set_series(struct report *r, const char *text)
{
	if (!set_view(r, VIEW_SERIES) || !option_count("--series", text, &r->moments))
		return false;
	if (r->moments >= 1 && r->moments <= MOST_MOMENTS)
		return true;
	cli_usage("--series: '%s' is not a number of moments from 1 to %d", text, MOST_MOMENTS);
	return false;
}

static bool set_histogram(struct report *r, const char *text)
{
	static const char *const names[] = {"size", "lifetime", NULL};
	int choice;

	if (!set_view(r, VIEW_HISTOGRAM) || !option_choice("--histogram", text, names, &choice))
		return false;
	r->classes = choice == 0 ? MAYFLY_BY_SIZE : MAYFLY_BY_LIFETIME;
	return true;
}

bool report_has(int option)
{
	return question_has(option) || (option >= REPORT_TOP && option < REPORT_OPTION_END);
}

bool report_set(struct report *r, int option, const char *value)
{
	switch (option) {
	case REPORT_TOP:
		r->top_given = true;
		return option_count("--top", value, &r->top);
	case REPORT_DEPTH:
		r->depth_given = true;
		return option_count("--depth", value, &r->depth);
	case REPORT_ALL:
		r->all = true;
		break;
	case REPORT_WIDE:
		r->out.wide = true;
		break;
	case REPORT_JSON:
		r->json = true;
		break;
	default:
		return question_set(&r->q, option, value);
	}
	return true;
}

static bool set_option(struct report *r, int option, const char *value)
{
	switch (option) {
	case OPT_SERIES:
		return set_series(r, value);
	case OPT_HISTOGRAM:
		return set_histogram(r, value);
	case OPT_CHURN:
		return set_view(r, VIEW_CHURN);
	case OPT_REALLOCS:
		return set_view(r, VIEW_REALLOCS);
	case OPT_SURVIVAL:
		return set_view(r, VIEW_SURVIVAL);
	case OPT_RSS:
		return set_view(r, VIEW_RSS);
	case OPT_FRAGMENTATION:
		return set_view(r, VIEW_FRAGMENTATION);
	case OPT_SPANS:
		return set_view(r, VIEW_SPANS);
	case OPT_EVENTS:
		return set_view(r, VIEW_EVENTS);
	}
	return true;
}

/* Whether the view takes what was asked with it. */
static bool view_fits(struct report *r)
{
	const struct view_kind *view = &views[r->view];
	struct question *q = &r->q;
	bool metric_said = view->only_allocated && q->query.metric == MAYFLY_ALLOCATED;
	const struct {
		bool given;
		unsigned takes;
		const char *text;
	} options[] = {
	    {q->metric_given && !metric_said, TAKES_METRIC, "--metric"},
	    {q->by_given, TAKES_BY, "--by"},
	    {q->sort_given, TAKES_SORT, "--sort"},
	    {q->at_given, TAKES_AT,
	     view->takes & TAKES_WINDOW ? "--at: choose a time with --from and --to" : "--at"},
	    {q->window_given, TAKES_WINDOW, "--from and --to"},
	    {q->query.heaps != 0, TAKES_HEAP, "--heap"},
	    {q->query.min_lifetime_ns > 0 || q->query.max_lifetime_ns < INT64_MAX, TAKES_LIFETIME,
	     "--min-lifetime and --max-lifetime"},
	    {q->chooses_more, TAKES_FILTERS, "options that choose blocks"},
	    {q->thread.count > 0, TAKES_THREAD, "options that choose blocks"},
	    {q->filtered && !q->chooses_blocks, TAKES_HIDE, "--hide"},
	};

	for (size_t i = 0; i < sizeof(options) / sizeof(*options); i++)
		if (options[i].given && options[i].takes & ~view->takes)
			return cli_usage("%s cannot be combined with %s",
					 report_view_option(r->view), options[i].text),
			       false;
	if (view->only_allocated)
		q->query.metric = MAYFLY_ALLOCATED;
	return true;
}

/* What it may be depends on the view. */
static bool set_sort(struct report *r, const char *text)
{
	bool spans = r->view == VIEW_SPANS || r->view == VIEW_EVENTS;
	int choice;

	if (!text || !spans)
		return !text || question_set(&r->q, QUESTION_SORT, text);
	r->q.sort_given = true;
	if (!option_choice("--sort", text, span_sort_names, &choice))
		return false;
	r->span_sort = (enum span_sort)choice;
	if (r->view == VIEW_EVENTS && report_sorts_blocks(r))
		return cli_usage("--sort %s works with --spans, not with --events", text), false;
	return true;
}

/* Rows of --survival are places in the program. */
static bool survival_key_fits(struct question *q)
{
	enum mayfly_by by = q->query.by;

	if (!q->by_given)
		q->query.by = MAYFLY_BY_LINE;
	else if (by != MAYFLY_BY_LINE && by != MAYFLY_BY_FUNCTION && by != MAYFLY_BY_STACK &&
		 by != MAYFLY_BY_MODULE)
		return cli_usage("--survival: --by must be line, function, stack or module"), false;
	return true;
}

/* Returns true when the command is to go on; else *status is its exit status. */
static bool parse(struct report *r, int argc, char **argv, int *status)
{
	const char *sort = NULL;
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
		if (option == QUESTION_SORT) {
			sort = optarg;
			continue;
		}
		good = report_has(option) ? report_set(r, option, optarg)
					  : set_option(r, option, optarg);
		if (!good)
			return false;
	}
	return set_sort(r, sort) && view_fits(r) &&
	       (r->view != VIEW_SURVIVAL || survival_key_fits(&r->q)) && question_check(&r->q) &&
	       one_trace_named(argc, argv);
}

/* ---- the command ---- */

static bool is_overview(const struct report *r)
{
	return !r->q.metric_given && !r->q.by_given && !r->q.sort_given && !r->q.at_given &&
	       !r->q.window_given && !r->q.filtered;
}

static int print_rows(struct report *r)
{
	int status;

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

/* A trace without blocks has events alone: what nobody asked further of shows them. */
static bool shows_events(const struct report *r)
{
	return trace_has_no_blocks(r->file.info) && r->file.info->track_events &&
	       r->view == VIEW_ROWS && is_overview(r);
}

static int run(struct report *r)
{
	r->exact = trace_is_exact(r->file.info);
	if (shows_events(r))
		r->view = VIEW_EVENTS;
	question_fit(&r->q, r->file.info);
	return views[r->view].print(r);
}

int cmd_report(int argc, char **argv)
{
	struct report r = {.top = REPORT_DEFAULT_TOP, .depth = REPORT_DEFAULT_DEPTH};
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
