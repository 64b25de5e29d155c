/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mayfly report: where the memory is.
 *
 * options -> struct mayfly_query -> rows -> a table, a list of stacks, or JSON; report.h says which
 * file does what.
 */
#include "cli/cli.h"
#include "cli/fleet/fleet_list.h"
#include "cli/option_table.h"
#include "cli/question_said.h"
#include "cli/input/list_file.h"
#include "cli/report/report.h"
#include "cli/report/report_many.h"
#include "terminal/terminal.h"

#include "question/option_values.h"

#include "fleet/http/server_url.h"
#include "answer/trace_facts.h"
#include "query/grouping.h"

#include <getopt.h>
#include <string.h>

/* ---- views ---- */

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

static int print_view(struct report *r)
{
	switch (r->view) {
	case VIEW_ROWS:
		return print_rows(r);
	case VIEW_SERIES:
		return report_print_series(r);
	case VIEW_HISTOGRAM:
		return report_print_histogram(r);
	case VIEW_CHURN:
		return report_print_churn(r);
	case VIEW_REALLOCS:
		return report_print_reallocs(r);
	case VIEW_SURVIVAL:
		return report_print_survival(r);
	case VIEW_RSS:
		return report_print_rss(r);
	case VIEW_FRAGMENTATION:
		return report_print_fragmentation(r);
	case VIEW_SPANS:
		return report_print_spans(r);
	case VIEW_EVENTS:
		return report_print_events(r);
	case VIEW_TREE:
		return report_print_tree(r);
	case VIEW_CALLERS:
	case VIEW_CALLEES:
		return report_print_callers(r);
	}
	return CLI_FAILED;
}

static bool set_view(struct report *r, enum report_view view)
{
	if (r->view != VIEW_ROWS && r->view != view)
		return cli_refuse("%s cannot be combined with %s", report_views[r->view].option,
				  report_views[view].option);
	r->view = view;
	return true;
}

static bool take_view(const struct given *given, void *to)
{
	enum report_view view;

	for (view = VIEW_SERIES; strcmp(report_views[view].option, given->option) != 0; view++)
		;
	return set_view(to, view);
}

static bool take_series(const struct given *given, void *to)
{
	struct report *r = to;

	if (!set_view(r, VIEW_SERIES))
		return false;
	return option_take_count(given, &r->moments);
}

static bool take_function(const struct given *given, void *to)
{
	struct report *r = to;

	r->function = given->value;
	return take_view(given, to);
}

#define BY_WORD(key, name, ...) name,
static const char *const by_words[] = {GROUPINGS(BY_WORD) "tree", NULL};
#define BY_WORD_AND(key, name, ...) name ", "

/* "tree" is a view of its own. */
static bool take_by(const struct given *given, void *to)
{
	struct report *r = to;
	int choice;

	r->fleet_by = NULL;
	if (!strcmp(given->value, "host") || !strcmp(given->value, "version") ||
	    !strcmp(given->value, "service") ||
	    !strncmp(given->value, "label.", strlen("label."))) {
		r->fleet_by = given->value;
		return true;
	}
	if (strncmp(given->value, "label:", strlen("label:")) != 0 &&
	    !option_choice(given->option, given->value, by_words, &choice, given->error_line))
		return false;
	if (strcmp(given->value, "tree") == 0)
		return set_view(r, VIEW_TREE);
	r->q.by_given = true;
	return question_take_by(given, &r->q);
}

static const char *const class_names[] = {"size", "lifetime", NULL};

static bool take_histogram(const struct given *given, void *to)
{
	struct report *r = to;
	int choice;

	if (!set_view(r, VIEW_HISTOGRAM) ||
	    !option_choice(given->option, given->value, given->row->choices, &choice,
			   given->error_line))
		return false;
	r->classes = choice == 0 ? MAYFLY_BY_SIZE : MAYFLY_BY_LIFETIME;
	return true;
}

#define REPORT_TEXT_1(x) #x
#define REPORT_TEXT(x)	 REPORT_TEXT_1(x)

static bool take_mine(const struct given *given, void *to)
{
	return own_rules_add_file(to, given->value);
}

const struct option_row report_show_rows[] = {
    {"top", .argument = "N",
     .help = "number of rows to show (default " REPORT_TEXT(REPORT_DEFAULT_TOP) "; 0: all)",
     OPTION_COUNT(struct report, top), OPTION_GIVEN(struct report, top_given)},
    {"all", .help = "show all rows, also with few samples or no change",
     OPTION_FLAG(struct report, all)},
    {"depth", .rare = true, .argument = "N",
     .help = "frames to show of each stack (default " REPORT_TEXT(REPORT_DEFAULT_DEPTH) "; 0: all)",
     OPTION_COUNT(struct report, depth), OPTION_GIVEN(struct report, depth_given)},
    {"mine", .rare = true, .argument = "FILE", .words = OPTION_FILES,
     .help = "rules for what is the program's own code: lines of library RE and mine RE; may be "
	     "repeated",
     OPTION_IN(take_mine, struct own_rules, struct report, q.own.rules),
     OPTION_GIVEN(struct report, mine_given)},
    OPTION_FRAMES(struct report, q.hidden.frames, FRAMES_OWN_HELP),
    {"own-frames", .gone = "JSON has the program's own frames, as the text; --frames all has all"},
    OPTION_WIDE(struct report, out.wide),
    OPTION_JSON(struct report, json),
    OPTION_END,
};

static const struct option_row report_rows[] = {
    OPTION_HEADING("What to show:"),
    OPTION_GROUP(question_metric_rows, struct report, q),
    OPTION_GROUP(question_window_rows, struct report, q),
    {"by", .argument = "KEY", .choices = by_words,
     .help = "what the rows are: " GROUPINGS(
	 BY_WORD_AND) "label:KEY (of one key) or tree (of calls); default function",
     OPTION_OWN(take_by)},
    {"sort", .argument = "self|total", .words = "self total", OPTION_TEXT(struct report, sort),
     .help = "by what a key allocates itself (default), or with what it calls"},
    OPTION_HEADING("Other views:"),
    {"callers", .argument = "FUNCTION", OPTION_OWN(take_function),
     .help = "who calls this function (a name or an RE), with bytes"},
    {"callees", .rare = true, .argument = "FUNCTION", OPTION_OWN(take_function),
     .help = "the same with what it calls"},
    {"survival", .rare = true, OPTION_OWN(take_view),
     .help = "blocks of OCaml's minor heap: how many are promoted, how soon, and how long they "
	     "live; --by line (default), function, stack or module"},
    {"series", .argument = "N", .least = 1, .most = MOST_MOMENTS, OPTION_OWN(take_series),
     .help = "what is live at N moments, for each of the top rows"},
    {"histogram", .rare = true, .argument = "size|lifetime", .choices = class_names,
     OPTION_OWN(take_histogram), .help = "how the blocks of each of the top rows are distributed"},
    {"churn", OPTION_OWN(take_view),
     .help = "how much each row allocates, and how much of it stays live"},
    {"reallocs", .rare = true, OPTION_OWN(take_view),
     .help = "chains of realloc: how often blocks grow, and how much is copied"},
    {"rss", OPTION_OWN(take_view), .help = "why RSS is larger than the heap: what it consists of"},
    {"fragmentation", .rare = true, OPTION_OWN(take_view),
     .help = "which blocks hold nearly empty pages; exact traces only"},
    {"spans", OPTION_OWN(take_view),
     .help = "the program's spans: how often, how long, what they allocate"},
    {"events", OPTION_OWN(take_view),
     .help = "spans, instants, counters, pauses of OCaml's collector"},
    OPTION_GROUP(question_filter_rows, struct report, q),
    OPTION_GROUP(question_picture_rows, struct report, q),
    OPTION_HEADING("How to show it:"),
    {.group = report_show_rows},
    OPTION_END,
};

static const struct option_hint report_hints[] = {
    {"--format", "'mayfly export --to FORMAT' writes files for other tools, --json prints JSON"},
    {"--pprof", "use 'mayfly export --to pprof FILE'"},
    {"--flamegraph", "use 'mayfly export --to flamegraph FILE'"},
    {"--group-by", "use --by"},
    {"--limit", "use --top"},
    {"-n", "use --top"},
    {NULL, NULL},
};

const struct option_table report_option_table = {
    .usage = "report [OPTIONS] FILE...",
    .about =
	"Shows where the memory is. Without options: a summary, then what was live at the peak.\n"
	"FILE is a trace, or the spool of a recording that was killed; - is standard input.\n"
	"Several files, or a folder of them: a table of the processes, and the sums.\n",
    .rows = report_rows,
    .hints = report_hints,
    .notes = "Sizes may end in K, M or G (of 1024), times in ns, us, ms, s, m, h or d.\n",
};

/* Whether the view can be combined with the options given. */
static bool view_fits(struct report *r)
{
	const struct report_view_kind *view = &report_views[r->view];
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
	     view->takes & TAKES_WINDOW ? "--at; use --from and --to instead" : "--at"},
	    {q->window_given, TAKES_WINDOW, "--from and --to"},
	    {q->query.heaps != 0, TAKES_HEAP, "--heap"},
	    {q->query.min_lifetime_ns > 0 || q->query.max_lifetime_ns < INT64_MAX, TAKES_LIFETIME,
	     "--min-lifetime and --max-lifetime"},
	    {q->chooses_more, TAKES_FILTERS, "options that choose blocks"},
	    {q->thread_given, TAKES_THREAD, "options that choose blocks"},
	    {q->hide_given && !q->chooses_more && !q->thread_given, TAKES_HIDE, "--hide"},
	    {q->show_given, TAKES_SHOW, "--show"},
	};

	for (size_t i = 0; i < sizeof(options) / sizeof(*options); i++)
		if (options[i].given && options[i].takes & ~view->takes)
			return cli_refuse("%s cannot be combined with %s",
					  report_views[r->view].option, options[i].text);
	if (view->only_allocated)
		q->query.metric = MAYFLY_ALLOCATED;
	return true;
}

/* The values of --sort depend on the view. */
static bool set_sort(struct report *r)
{
	bool spans = r->view == VIEW_SPANS || r->view == VIEW_EVENTS;
	struct error_line c = {0};
	int choice;

	if (!r->sort)
		return true;
	r->q.sort_given = true;
	if (!spans) {
		if (!option_choice("--sort", r->sort, sort_names, &choice, &c))
			return cli_refuse("%s", c.text);
		r->q.query.sort = (enum mayfly_sort)choice;
		return true;
	}
	if (!option_choice("--sort", r->sort, span_sort_names, &choice, &c))
		return cli_refuse("%s", c.text);
	r->span_sort = (enum span_sort)choice;
	if (r->view == VIEW_EVENTS && report_sorts_blocks(r))
		return cli_refuse("--sort %s needs --spans; it cannot be combined with --events",
				  r->sort);
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
		return cli_refuse("--survival needs --by line, function, stack or module");
	return true;
}

static bool picture_fits(const struct report *r)
{
	return !question_asks_picture(&r->q) || report_views[r->view].takes & TAKES_PICTURE ||
	       cli_refuse("%s cannot be combined with --holder, --type or --metric picture",
			  report_views[r->view].option);
}

static bool check_options(struct report *r)
{
	return set_sort(r) && view_fits(r) &&
	       (r->view != VIEW_SURVIVAL || survival_key_fits(&r->q)) && question_agrees(&r->q) &&
	       picture_fits(r);
}

/* ---- the command ---- */

/* A trace without blocks has only events; they are shown unless the user asks for something else.
 */
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
	if (!question_fits_time(&r->q, r->path, r->file.info))
		return CLI_FAILED;
	pager_start();
	return print_view(r);
}

static int open_and_run(struct report *r, const char *path)
{
	int status = CLI_FAILED;

	r->path = path;
	output_detect(&r->out);
	if (open_trace(path, &r->file)) {
		status = run(r);
		close_trace(&r->file);
	}
	return status;
}

/* The table of processes has no question to choose blocks by. */
static int report_many(struct report *r, int count, char **path)
{
	if (!is_overview(r) || r->view != VIEW_ROWS || r->depth_given || r->mine_given ||
	    r->q.hidden.frames != FRAMES_USUAL)
		return cli_usage("many traces can be combined only with --top, --all, --wide and "
				 "--json; name one trace, or merge them with 'mayfly merge'");
	output_detect(&r->out);
	pager_start();
	return report_print_many(r, count, path);
}

/* Rows that are processes instead of code. */
static int report_processes(const struct report *r, int argc, char **argv)
{
	const struct fleet_login login = {0};

	if (argc - optind != 1 || !server_url_is(argv[optind]))
		return cli_usage("--by %s is of a question to a fleet's database, as "
				 "clickhouse://HOST/DATABASE?service=api",
				 r->fleet_by);
	return fleet_list(r->fleet_by, argv[optind], &login, r->json);
}

static int report_named(struct report *r, int argc, char **argv)
{
	if (r->fleet_by)
		return report_processes(r, argc, argv);
	if (report_is_many(argc - optind, argv + optind))
		return report_many(r, argc - optind, argv + optind);
	return one_named(argc, argv, "trace") ? open_and_run(r, argv[optind]) : CLI_USAGE;
}

int cmd_report(int argc, char **argv)
{
	struct report r = {.top = REPORT_DEFAULT_TOP, .depth = REPORT_DEFAULT_DEPTH};
	int status;

	question_init(&r.q);
	status = options_take(&report_option_table, &r, argc, argv);
	if (status == OPTIONS_TAKEN)
		status = check_options(&r) && own_rules_add_default(&r.q.own.rules)
			     ? report_named(&r, argc, argv)
			     : CLI_USAGE;
	question_free(&r.q);
	return status;
}
