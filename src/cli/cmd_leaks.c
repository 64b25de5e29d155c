/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mayfly leaks: what was never freed, by stack, without what nobody wants to hear of.
 *
 * This is `report --metric leaked --by stack` with lists of suppressions: what they match is
 * ignored by the query, and accounted for in one line.
 */
#include "cli/cli.h"
#include "cli/report/report.h"

#include "cli/options.h"
#include "cli/suppression_lists.h"

#include "answer/json_parts.h"
#include "answer/trace_facts.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char usage_text[] =
    "Usage: mayfly leaks [OPTIONS] FILE\n"
    "\n"
    "Shows which blocks were never freed, by the stack that allocated them. Whether the program\n"
    "still had pointers to them is not known: what it keeps on purpose is shown, too.\n"
    "\n"
    "What is left out:\n"
    "  --suppressions LIST      leave out stacks that a pattern of this file matches: lines\n"
    "                           of leak:PATTERN, as LeakSanitizer's; may be repeated\n"
    "  --no-default-suppressions   do not leave out what libc keeps\n"
    "  --print-suppressions     print the list that is built in\n"
    "\n" QUESTION_FILTER_HELP "  --from TIME, --to TIME   only blocks allocated in this time\n"
    "\n"
    "How to show it:\n"
    "  --exit-code N            exit with this status when anything leaks (default 0)\n"
    "  --by KEY                 stack (default), function, line, module, thread, size,\n"
    "                           heap, label or label:KEY\n"
    "  --top N                  rows to show (default 20; 0: all)\n"
    "  --all                    all rows, also those with too few samples to rank\n"
    "  --depth N                frames to show of each stack (default 24; 0: all)\n"
    "  --all-frames             also operator new, malloc and other allocator frames\n"
    "  --wide                   names in full, lines as long as they get\n"
    "  --json                   one JSON object\n"
    "  -h, --help               this text\n";

enum {
	OPT_SUPPRESSIONS = 256,
	OPT_NO_DEFAULT,
	OPT_PRINT,
	OPT_EXIT_CODE,
};

static const struct option long_options[] = {
    QUESTION_FILTER_OPTIONS,
    {"from", required_argument, NULL, QUESTION_FROM},
    {"to", required_argument, NULL, QUESTION_TO},
    {"by", required_argument, NULL, QUESTION_BY},
    {"suppressions", required_argument, NULL, OPT_SUPPRESSIONS},
    {"no-default-suppressions", no_argument, NULL, OPT_NO_DEFAULT},
    {"print-suppressions", no_argument, NULL, OPT_PRINT},
    {"exit-code", required_argument, NULL, OPT_EXIT_CODE},
    REPORT_OPTIONS,
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

struct leaks {
	struct report report;
	struct suppressions suppressions;
	struct mayfly_match ignore; /* what the user asked to ignore */
	bool no_default, print_list;
	size_t exit_code;
	uint64_t leaked; /* samples that are left */
};

/* ---- options ---- */

static bool set_exit_code(struct leaks *l, const char *text)
{
	if (!option_count("--exit-code", text, &l->exit_code))
		return false;
	if (l->exit_code <= 255)
		return true;
	cli_usage("--exit-code: '%s' is not a number from 0 to 255", text);
	return false;
}

static bool set_option(struct leaks *l, int option, const char *value)
{
	switch (option) {
	case OPT_SUPPRESSIONS:
		return suppressions_add_file(&l->suppressions, value);
	case OPT_NO_DEFAULT:
		l->no_default = true;
		break;
	case OPT_PRINT:
		l->print_list = true;
		break;
	case OPT_EXIT_CODE:
		return set_exit_code(l, value);
	}
	return true;
}

/* Either of the two makes a stack ignored. */
static int is_ignored(void *context, const char *text)
{
	const struct leaks *l = context;

	if (l->ignore.matches && l->ignore.matches(l->ignore.context, text))
		return 1;
	return suppressions_find(&l->suppressions, text) != SUPPRESSIONS_NONE;
}

/* Returns true when the command is to go on; else *status is its exit status. */
static bool parse(struct leaks *l, int argc, char **argv, int *status)
{
	struct report *r = &l->report;
	int option;

	opterr = 0;
	*status = CLI_USAGE;
	while ((option = getopt_long(argc, argv, ":h", long_options, NULL)) != -1) {
		bool good;

		if (option == 'h' || option == '?' || option == ':') {
			if (option == 'h')
				fputs(usage_text, stdout);
			*status = option == 'h' ? cli_finish() : cli_bad_option(option, argv);
			return false;
		}
		*status = option == OPT_SUPPRESSIONS ? CLI_FAILED : CLI_USAGE;
		good = report_has(option) ? report_set(r, option, optarg)
					  : set_option(l, option, optarg);
		if (!good)
			return false;
	}
	*status = CLI_USAGE;
	if (l->print_list) {
		fputs(suppressions_default, stdout);
		*status = cli_finish();
		return false;
	}
	return question_check(&r->q) && one_trace_named(argc, argv);
}

/* ---- the answer ---- */

static void print_suppressed(const struct leaks *l)
{
	struct suppressed s = suppressions_sum(&l->suppressions);
	char bytes[FIGURE_TEXT], blocks[FIGURE_TEXT];

	text_count(blocks, sizeof(blocks), s.blocks);
	if (s.stacks)
		print_wrapped(&l->report.out, STYLE_DIM, 2,
			      "  suppressed: %s in %s %s from %zu %s, by %zu of %zu patterns",
			      text_bytes(bytes, sizeof(bytes), s.bytes), blocks,
			      strcmp(blocks, "1") == 0 ? "block" : "blocks", s.stacks,
			      s.stacks == 1 ? "stack" : "stacks", s.patterns,
			      l->suppressions.count);
}

static int print_leaks(struct leaks *l, const struct mayfly_result *result)
{
	const struct report *r = &l->report;

	if (!report_show_answer(r, result, r->top, r->depth))
		return cli_error("out of memory");
	print_suppressed(l);
	report_print_legend(r);
	return cli_finish();
}

static int print_leaks_json(const struct leaks *l, const struct mayfly_result *result)
{
	const struct report *r = &l->report;
	struct json j = report_document(r->file.info->absent);

	json_text(&j, "metric", "leaked");
	json_text(&j, "by", by_names[r->q.query.by]);
	json_estimate(&j, "total", &result->total);
	report_json_rows(&j, r, result);
	json_suppressed(&j, "suppressed", &l->suppressions);
	return json_print(&j);
}

static int run(struct leaks *l)
{
	struct report *r = &l->report;
	struct mayfly_result *result;
	int error, status;

	r->exact = trace_is_exact(r->file.info);
	r->q.query.stack_rows =
	    report_stacks_needed(r, r->json ? r->top_given ? r->top : 0 : r->top);
	error = mayfly_query_run(r->file.trace, &r->q.query, &result);
	if (error)
		return report_failed(r, error);
	if (l->suppressions.count) {
		struct mayfly_query unsuppressed = r->q.query;

		unsuppressed.ignore = l->ignore;
		error = suppressions_account(&l->suppressions, r->file.trace, &unsuppressed);
	}
	l->leaked = result->total.samples;
	if (error)
		status = report_failed(r, error);
	else
		status = r->json ? print_leaks_json(l, result) : print_leaks(l, result);
	mayfly_result_free(result);
	if (status == CLI_OK && l->leaked)
		return (int)l->exit_code;
	return status;
}

int cmd_leaks(int argc, char **argv)
{
	struct leaks l = {.report = {.top = REPORT_DEFAULT_TOP, .depth = REPORT_DEFAULT_DEPTH}};
	struct report *r = &l.report;
	int status;

	question_init(&r->q);
	r->out = output_detect();
	r->q.query.metric = MAYFLY_LEAKED;
	r->q.query.by = MAYFLY_BY_STACK;
	if (parse(&l, argc, argv, &status)) {
		l.ignore = r->q.query.ignore;
		r->path = argv[optind];
		status = CLI_FAILED;
		r->path = argv[optind];
		if ((l.no_default || suppressions_add_default(&l.suppressions)) &&
		    open_trace(r->path, &r->file)) {
			if (l.suppressions.count)
				r->q.query.ignore = (struct mayfly_match){is_ignored, &l};
			status = run(&l);
			close_trace(&r->file);
		}
	}
	suppressions_free(&l.suppressions);
	question_free(&r->q);
	return status;
}
