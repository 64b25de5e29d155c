/* SPDX-License-Identifier: Apache-2.0 */
/* report_overview.c: the report without options. */
#include "cli/report/report.h"

#include "cli/trace_fields.h"

#include "answer/headline.h"
#include "answer/trace_facts.h"
#include "query/query_two.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define OVERVIEW_ROWS	12 /* of the function table below the summary */
#define OVERVIEW_STACKS 5
#define OVERVIEW_DEPTH	10
#define SPARKLINE_STEPS 48

static void print_overview_program(const struct report *r)
{
	char line[NAME_BYTES], fitted[NAME_BYTES];

	command_line(line, sizeof(line), r->file.info);
	print_field(
	    &r->out, "Program", "%s",
	    line_fit(fitted, sizeof(fitted), &r->out, line, (size_t)r->out.width - FIELD_INDENT));
}

static void print_recorded(const struct report *r)
{
	const struct mayfly_info *info = r->file.info;
	char start[64], duration[FIGURE_TEXT], ending[128], interval[192], ocaml[64] = "";
	char inherited[64] = "";
	bool apart = r->exact && !info->inherited_allocated;

	if (!(info->absent & (MAYFLY_ABSENT_START | MAYFLY_ABSENT_TIMES)))
		print_field(&r->out, "Recorded", "%s, %s; %s",
			    start_text(start, sizeof(start), info),
			    text_duration(duration, sizeof(duration), (double)info->duration_ns),
			    ending_text(ending, sizeof(ending), info));
	else if (!(info->absent & MAYFLY_ABSENT_START))
		print_field(&r->out, "Recorded", "%s", start_text(start, sizeof(start), info));
	else if (!(info->absent & MAYFLY_ABSENT_TIMES))
		print_field(&r->out, "Duration", "%s",
			    text_duration(duration, sizeof(duration), (double)info->duration_ns));
	if (info->ocaml_interval_bytes)
		snprintf(
		    ocaml, sizeof(ocaml), ", %s's heap 1 in %s", trace_heap_owner(r->file.trace),
		    text_bytes(duration, sizeof(duration), (double)info->ocaml_interval_bytes));
	if (trace_inherited(info))
		snprintf(inherited, sizeof(inherited),
			 apart ? ", and %" PRIu64 " inherited" : " (%" PRIu64 " inherited)",
			 trace_inherited(info));
	if (info->absent & (MAYFLY_ABSENT_ERRORS | MAYFLY_ABSENT_LIVE | MAYFLY_ABSENT_ALLOCATED))
		print_field(&r->out, info->mode == MAYFLY_EXACT ? "Exact" : "Sampled", "%s",
			    mode_text(interval, sizeof(interval), r->file.trace));
	else if (r->exact)
		print_field(&r->out, "Exact", "every allocation: %" PRIu64 "%s, %" PRIu64 " freed",
			    trace_samples(info) - (apart ? trace_inherited(info) : 0), inherited,
			    trace_frees(info));
	else if (trace_is_ocaml_alone(info))
		print_field(
		    &r->out, "Sampled",
		    "1 byte in %s of %s's heaps: %" PRIu64 " %s%s, %" PRIu64 " freed",
		    text_bytes(duration, sizeof(duration), (double)info->ocaml_interval_bytes),
		    trace_heap_owner(r->file.trace), trace_samples(info),
		    samples_word(trace_samples(info)), inherited, trace_frees(info));
	else
		print_field(&r->out, "Sampled", "%s%s%s: %" PRIu64 " %s%s, %" PRIu64 " freed",
			    interval_text(interval, sizeof(interval), r->file.trace),
			    sampler_text(duration, sizeof(duration), info, " (", ")"), ocaml,
			    trace_samples(info), samples_word(trace_samples(info)), inherited,
			    trace_frees(info));
	if (info->snapshot_ns && !(info->absent & MAYFLY_ABSENT_TIMES))
		print_field(&r->out, "Snapshots", "%s",
			    trace_snapshots_text(duration, sizeof(duration), r->file.trace));
}

/* more: follows the number of blocks. */
static void print_estimate(const struct report *r, const char *name,
			   const struct mayfly_estimate *e, const char *more, const char *meaning)
{
	const struct output *o = &r->out;
	char text[128], blocks[FIGURE_TEXT];

	text_estimate(text, sizeof(text), o->utf8, e);
	text_count_value(blocks, sizeof(blocks), &e->blocks, e->samples);
	if (figure_confidence(&e->bytes, e->samples) <= FIGURE_FEW ||
	    r->file.info->absent & MAYFLY_ABSENT_BLOCKS)
		print_field(o, name, "%s%s", text, meaning);
	else
		print_field(o, name, "%s in %s %s%s%s", text, blocks,
			    strcmp(blocks, "1") == 0 ? "block" : "blocks", more, meaning);
}

static void print_timeline(const struct report *r)
{
	size_t room = (size_t)r->out.width - FIELD_INDENT - 16; /* the time follows it */
	size_t steps = room < SPARKLINE_STEPS ? room : SPARKLINE_STEPS;
	double live[SPARKLINE_STEPS];
	char line[SPARKLINE_STEPS * 4 + 1], end[FIGURE_TEXT];

	if (!r->out.utf8 || r->file.info->duration_ns <= 0 ||
	    mayfly_timeline(r->file.trace, steps, live) != 0)
		return;
	text_sparkline(line, sizeof(line), &r->out, live, steps);
	print_styled(&r->out, STYLE_BOLD, "Live bytes");
	printf("%*s", (int)(FIELD_INDENT - strlen("Live bytes")), "");
	print_styled(&r->out, STYLE_BAR, line);
	printf("  0 to %s\n", text_duration(end, sizeof(end), (double)r->file.info->duration_ns));
}

/* Between snapshots no stacks are known, but the highest number of live bytes is. */
static void print_highest(const struct report *r, const struct mayfly_summary *s)
{
	char bytes[FIGURE_TEXT];
	double highest;

	if (r->file.info->snapshot_ns && mayfly_timeline(r->file.trace, 1, &highest) == 0 &&
	    highest > s->peak.bytes.estimate)
		print_field(&r->out, "Highest", "%s for a time between two snapshots",
			    text_bytes(bytes, sizeof(bytes), highest));
}

/* heaptrack's files say nothing of threads: what is temporary is as heaptrack defines it. */
static void print_temporary(const struct report *r, const struct mayfly_summary *s)
{
	const char *meaning = r->file.info->absent & MAYFLY_ABSENT_THREADS
				  ? "; freed before any thread allocated or freed again"
				  : "; freed before their thread allocated again (in heaptrack: "
				    "before any thread allocated or freed)";
	char more[128], percent[FIGURE_TEXT];

	snprintf(more, sizeof(more), ", %s of all allocated",
		 text_percent(percent, sizeof(percent), s->temporary.bytes.estimate,
			      s->allocated.bytes.estimate));
	print_estimate(r, "Temporary", &s->temporary, more, meaning);
}

static int print_overview_summary(const struct report *r)
{
	uint32_t absent = r->file.info->absent;
	struct mayfly_summary s;
	char more[128], time[FIGURE_TEXT];
	int error = mayfly_trace_summary(r->file.trace, &s);

	if (error)
		return cli_error("%s", mayfly_error_text(error));
	if (!(absent & MAYFLY_ABSENT_COMMAND))
		print_overview_program(r);
	print_recorded(r);
	if (!(absent & MAYFLY_ABSENT_ALLOCATED))
		print_estimate(r, "Allocated", &s.allocated, "", "");
	snprintf(more, sizeof(more), ", at %s",
		 text_duration(time, sizeof(time), (double)s.peak_time_ns));
	if (!(absent & MAYFLY_ABSENT_PEAK)) {
		print_estimate(r, "Peak", &s.peak, more, "");
		print_highest(r, &s);
	}
	if (!(absent & MAYFLY_ABSENT_LIVE))
		print_estimate(r, "Live at end", &s.live_at_end, "", "");
	print_resident(&r->out, r->file.trace);
	if (!(absent & MAYFLY_ABSENT_TEMPORARY))
		print_temporary(r, &s);
	print_timeline(r);
	print_track_fields(&r->out, r->file.trace, true);
	print_overlap(&r->out, r->file.trace, false);
	print_notes(&r->out, r->file.trace);
	print_hints(&r->out, r->file.trace);
	return CLI_OK;
}

/* Below the functions that allocate, the overview shows the program's own ones that call them. */
static bool show_callers(const struct report *report, const struct mayfly_result *functions,
			 const struct ranking *callers)
{
	struct report r = *report;
	bool printed;

	if (!callers->rows)
		return true;
	r.callers = true;
	r.q.query.by = MAYFLY_BY_FUNCTION;
	r.q.query.sort = MAYFLY_SORT_TOTAL;
	putchar('\n');
	print_wrapped(&r.out, STYLE_BOLD, 0, "The same by function, with all that it calls");
	printed = report_print_table(&r, functions, callers);
	print_wrapped(&r.out, STYLE_DIM, 2,
		      "the program's own functions, one of each chain of calls (--sort total "
		      "shows all)");
	return printed;
}

struct overview {
	struct report *r;
	struct mayfly_result *functions, *stacks;
	struct ranking callers;
};

static int ask(struct overview *o)
{
	struct report *r = o->r;
	size_t top = r->top_given ? r->top : OVERVIEW_ROWS;
	struct caller_question question = {r->file.trace, &r->q.query, &r->q.own};
	struct mayfly_result *result[2];
	struct mayfly_query query[2];
	int error;

	query[0] = query[1] = r->q.query;
	query[0].by = MAYFLY_BY_FUNCTION;
	query[1].by = MAYFLY_BY_STACK;
	query[1].stack_rows = report_stacks_needed(
	    r, r->top_given && (!r->top || r->top > CALLERS_SEARCH_STACKS) ? r->top
									   : CALLERS_SEARCH_STACKS);
	error = query_run_two(r->file.trace, query, result);
	if (error)
		return error;
	o->functions = result[0];
	o->stacks = result[1];
	return rank_callers(&question, o->functions, o->stacks, top, &o->callers) ? 0
										  : MAYFLY_E_MEMORY;
}

static void print_headline(const struct overview *o)
{
	struct report *r = o->r;
	char text[HEADLINE_BYTES], clean[HEADLINE_BYTES];

	headline_text(text, sizeof(text), r->out.utf8,
		      &(struct caller_question){r->file.trace, &r->q.query, &r->q.own},
		      &(struct headline_answers){o->functions, o->stacks, &o->callers});
	if (!*text)
		return;
	print_wrapped(&r->out, STYLE_BOLD, 0, "%s", text_clean(clean, sizeof(clean), text));
	putchar('\n');
}

static bool show_tables(const struct overview *o)
{
	struct report *r = o->r;

	putchar('\n');
	r->q.query.by = MAYFLY_BY_FUNCTION;
	if (!report_show_answer(r, o->functions, r->top_given ? r->top : OVERVIEW_ROWS, 0) ||
	    !show_callers(r, o->functions, &o->callers))
		return false;
	putchar('\n');
	r->folding_said = true;
	r->q.query.by = MAYFLY_BY_STACK;
	return report_show_answer(r, o->stacks, r->top_given ? r->top : OVERVIEW_STACKS,
				  r->depth_given ? r->depth : OVERVIEW_DEPTH);
}

/* The answer in one sentence, the summary, and the tables that users need most often. */
int report_print_overview(struct report *r)
{
	struct overview o = {.r = r};
	int error = ask(&o), status;

	if (!error)
		print_headline(&o);
	status = print_overview_summary(r);
	if (!status && error)
		status = report_failed(r, error);
	if (!status && !show_tables(&o))
		status = cli_error("out of memory");
	mayfly_result_free(o.functions);
	mayfly_result_free(o.stacks);
	free(o.callers.row);
	return status;
}
