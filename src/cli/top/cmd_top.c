/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mayfly top: where the memory of a program is while it is being recorded, on the terminal.
 *
 * options -> struct top -> one frame, JSON, or the terminal; top.h says which file does what.
 */
#include "cli/cli.h"
#include "query/grouping.h"

#include <getopt.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "cli/option_table.h"
#include "cli/input/list_file.h"
#include "cli/question_said.h"
#include "terminal/terminal.h"
#include "cli/top/top_frame.h"

#define EVERY_NS  1000000000ll
#define LEAST_NS  100000000ll
#define MOST_NS	  3600000000000ll
#define SECOND_NS 1000000000ll

static bool take_mine(const struct given *given, void *to)
{
	return own_rules_add_file(to, given->value);
}

/* As enum top_column has them; there is no mark yet. */
static const char *const sorts[] = {"live", "allocated", "freed", NULL};

static const struct option_row top_rows[] = {
    OPTION_HEADING("What to show:"),
    {"sort", .argument = "COLUMN", .help = "sort by live (default), allocated or freed",
     OPTION_CHOICE(sorts, struct top, sort)},
    OPTION_GROUP(question_by_rows, struct top, r.q),
    {"peak", .help = "what was live at the peak, instead of what is live now",
     OPTION_FLAG(struct top, peak)},
    {"every", .argument = "TIME", OPTION_TIME(struct top, every_ns), .least = LEAST_NS,
     .most = MOST_NS, .help = "look again after this time (default 1s)"},
    OPTION_GROUP(question_filter_rows, struct top, r.q),
    OPTION_HEADING("How to show it:"),
    {"once", .help = "print one frame as plain text, and end", OPTION_FLAG(struct top, once)},
    {"json", .help = "print one JSON object for each look; with --once, one",
     OPTION_FLAG(struct top, r.json)},
    {"top", .argument = "N", OPTION_COUNT(struct top, r.top),
     .help = "number of rows that --once and --json show (default 20; 0: all)"},
    {"mine", .rare = true, .argument = "FILE", .words = OPTION_FILES,
     .help = "rules for what is the program's own code, as for report; may be repeated",
     OPTION_IN(take_mine, struct own_rules, struct top, r.q.own.rules)},
    OPTION_FRAMES(struct top, r.q.hidden.frames, FRAMES_OWN_HELP),
    OPTION_END,
};

const struct option_table top_option_table = {
    .usage = "top [OPTIONS] [PID|NAME|SPOOL|FILE]",
    .about =
	"Shows on the terminal where a program's memory is while it is being recorded.\n"
	"Without a name: the only or the largest process that is being recorded; with --once or\n"
	"--json, or when this is no terminal, a list of them.\n",
    .rows = top_rows,
    .notes = "On the terminal, h lists the keys, and q ends it.\n",
};

/* ---- without a terminal ---- */

static void wait_ns(int64_t ns)
{
	struct timespec time = {ns / SECOND_NS, ns % SECOND_NS};

	nanosleep(&time, NULL);
}

static int print_once(struct top *t)
{
	struct top_frame *f;
	int status, error = t->has_trace ? top_ask(t) : MAYFLY_E_EMPTY;

	if (error)
		return t->has_trace ? report_failed(&t->r, error)
				    : cli_error("%s: %s", t->source.path, mayfly_error_text(error));
	if (t->r.json)
		return top_print_json(t) ? CLI_FAILED : cli_finish();
	f = calloc(1, sizeof(*f));
	if (!f)
		return cli_error("out of memory");
	status = frame_make(f, t, NULL) ? CLI_OK : cli_error("out of memory");
	if (!status)
		frame_print(f);
	frame_free(f);
	return status ? status : cli_finish();
}

/* Shows it until the recording ends, or a finished trace once. */
static int print_again_and_again(struct top *t)
{
	bool more = true;
	int status = CLI_OK;

	while (more && !status) {
		int error = 0;

		if (!top_source_look(t, false))
			return CLI_FAILED;
		more = t->source.goes_on;
		if (t->has_trace)
			error = top_ask(t);
		if (error)
			return report_failed(&t->r, error);
		if (t->has_trace)
			status = top_print_json(t) ? CLI_FAILED : cli_finish();
		if (more && !status)
			wait_ns(t->every_ns);
	}
	return status;
}

/* ---- the command ---- */

static int show(struct top *t, const char *named)
{
	int status = CLI_FAILED;

	if (top_source_open(t, named)) {
		if (t->r.json && !t->once)
			status = print_again_and_again(t);
		else if (!t->once)
			status = top_show(t);
		else if (top_source_look(t, true))
			status = print_once(t);
	}
	top_source_close(t);
	return status;
}

static bool is_terminal(void)
{
	return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
}

/* The list says what to do when there is none. */
static int show_largest(struct top *t)
{
	char *spool = t->once || t->r.json || !is_terminal() ? NULL : top_largest();
	int status = spool ? show(t, spool) : top_print_list(t);

	free(spool);
	return status;
}

static bool options_agree(const struct top *t, int names)
{
	if (names > 1)
		return cli_refuse("one process or trace at a time, please");
	if (names == 1 && !t->once && !t->r.json && !is_terminal())
		return cli_refuse("this is not a terminal; use --once or --json");
	return true;
}

/* A picture of the heap has one moment. */
static bool has_moments(const struct question *q)
{
	return !question_asks_picture(q) ||
	       cli_refuse("%s is of a picture of the heap; 'mayfly report' shows it",
			  grouping_of(q->query.by).option);
}

int cmd_top(int argc, char **argv)
{
	struct top t = {
	    .r.top = REPORT_DEFAULT_TOP,
	    .r.depth = REPORT_DEFAULT_DEPTH,
	    .mark_ns = TOP_NO_MARK,
	    .every_ns = EVERY_NS,
	};
	int status;

	question_init(&t.r.q);
	status = options_take(&top_option_table, &t, argc, argv);
	if (status == OPTIONS_TAKEN) {
		status = CLI_USAGE;
		output_detect(&t.r.out);
		if (options_agree(&t, argc - optind) && question_agrees(&t.r.q) &&
		    has_moments(&t.r.q) && own_rules_add_default(&t.r.q.own.rules))
			status = optind == argc ? show_largest(&t) : show(&t, argv[optind]);
	}
	question_free(&t.r.q);
	return status;
}
