/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mayfly report: where the memory is.
 *
 * options -> struct mayfly_query -> rows -> ranked rows, and one line for those that are too
 * uncertain to be ranked -> a table, a list of stacks, or JSON.
 */
#include "cli.h"
#include "json.h"
#include "open_trace.h"
#include "options.h"
#include "output.h"
#include "places.h"
#include "question.h"
#include "report_survival.h"
#include "trace/query_two.h"

#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

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
    "  --survival           of blocks in OCaml's minor heap: how many are promoted, how soon,\n"
    "                       and how long they live; --by line (default), function, stack\n"
    "                       or module\n"
    "  --series N           what is live at N moments, evenly spaced, for each of the top rows\n"
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

#define DEFAULT_TOP	20
#define DEFAULT_DEPTH	24
#define OVERVIEW_ROWS	12 /* of the function table below the summary */
#define OVERVIEW_STACKS 5
#define OVERVIEW_DEPTH	10
#define SPARKLINE_STEPS 48
#define NAME_BYTES	65536 /* for one name; C++ has names of many KB */
#define MOST_MOMENTS	10000 /* of a series */

struct report {
	struct opened_trace file;
	struct output out;
	struct question q;
	bool all, json, survival;
	bool top_given, depth_given;
	bool callers; /* the overview's table of callers: totals only */
	bool exact;   /* figures have no error */
	size_t top, depth;
	size_t series; /* moments; 0: none */
};

/* ---- options ---- */

enum {
	OPT_SERIES = 256,
	OPT_SURVIVAL,
	OPT_TOP,
	OPT_ALL,
	OPT_DEPTH,
	OPT_WIDE,
	OPT_JSON,
};

static const struct option long_options[] = {
    QUESTION_METRIC_OPTIONS,
    QUESTION_ROW_OPTIONS,
    QUESTION_FILTER_OPTIONS,
    {"series", required_argument, NULL, OPT_SERIES},
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

static bool set_presentation(struct report *r, int option, const char *value)
{
	switch (option) {
	case OPT_SERIES:
		return set_series(r, value);
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
	}
	return true;
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

static int run_survival(struct report *r)
{
	const struct survival_options options = {
	    .query = &r->q.query,
	    .top = r->top,
	    .depth = r->depth,
	    .all = r->all,
	    .json = r->json,
	    .json_top = r->top_given,
	};

	return report_survival(&r->file, &r->out, &options);
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
	return question_check(&r->q) && check_survival(r) && one_trace_named(argc, argv);
}

/* ---- what the trace cannot answer ---- */

static int say_failed(const struct report *r, int error)
{
	const char *what = question_needs_blocks(&r->q);

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

/* ---- ranking ---- */

/* A sum of rows whose blocks are distinct. */
struct sum {
	size_t rows;
	uint64_t samples;
	double bytes, variance, seen;
};

/* Rows in the order in which they are shown, and what was left out. */
struct ranking {
	const struct mayfly_row **row;
	size_t rows;
	struct sum few;	 /* too few samples to be ranked */
	struct sum more; /* ranked, but beyond --top */
};

static const struct mayfly_estimate *sorted_by(const struct report *r, const struct mayfly_row *row)
{
	return r->q.query.sort == MAYFLY_SORT_TOTAL ? &row->total : &row->self;
}

static enum sureness sureness_of(const struct report *r, const struct mayfly_row *row)
{
	const struct mayfly_estimate *e = sorted_by(r, row);

	return figure_sureness(&e->bytes, e->samples);
}

static void sum_add(struct sum *sum, const struct mayfly_estimate *e)
{
	sum->rows++;
	sum->samples += e->samples;
	sum->bytes += e->bytes.estimate;
	sum->variance += e->bytes.stderror * e->bytes.stderror;
	sum->seen += e->bytes.estimate > 0 ? e->bytes.low : 0;
}

static struct mayfly_figure sum_figure(const struct sum *sum)
{
	double stderror = sqrt(sum->variance);
	double low = sum->bytes - 2 * stderror;
	struct mayfly_figure f = {sum->bytes, stderror, low > sum->seen ? low : sum->seen,
				  sum->bytes + 2 * stderror};

	return f;
}

/* Classes of a size or of lifetimes make a histogram: all of them, in their own order. */
static bool is_histogram(const struct report *r)
{
	return r->q.query.by == MAYFLY_BY_SIZE || r->q.query.by == MAYFLY_BY_LIFETIME;
}

static int compare_class(const void *a, const void *b)
{
	const struct mayfly_row *x = *(const struct mayfly_row *const *)a;
	const struct mayfly_row *y = *(const struct mayfly_row *const *)b;

	if (x->low != y->low)
		return x->low < y->low ? -1 : 1;
	return (x->high > y->high) - (x->high < y->high);
}

static bool any_sure(const struct report *r, const struct mayfly_result *result)
{
	for (size_t i = 0; i < result->rows; i++)
		if (sureness_of(r, &result->row[i]) >= FIGURE_RANGE)
			return true;
	return false;
}

static void rank_row(const struct report *r, struct ranking *ranking, const struct mayfly_row *row,
		     size_t top, bool few_too)
{
	enum sureness sure = sureness_of(r, row);
	const struct mayfly_estimate *e = sorted_by(r, row);

	if (!r->all && !(e->bytes.estimate > 0))
		return; /* on stacks only: allocates nothing itself, as far as was seen */
	if (!few_too && sure < FIGURE_RANGE)
		sum_add(&ranking->few, e);
	else if (top && ranking->rows >= top)
		sum_add(&ranking->more, e);
	else
		ranking->row[ranking->rows++] = row;
}

/* Stacks that the answer left out: what the others do not have. */
static void add_left_out(struct ranking *ranking, const struct mayfly_result *result)
{
	double bytes = result->total.bytes.estimate;
	uint64_t samples = result->total.samples;

	for (size_t i = 0; i < result->rows; i++) {
		bytes -= result->row[i].self.bytes.estimate;
		samples -= result->row[i].self.samples;
	}
	ranking->more.rows += result->all_rows - result->rows;
	ranking->more.bytes += bytes;
	ranking->more.seen += bytes;
	ranking->more.samples += samples;
}

static bool rank(const struct report *r, const struct mayfly_result *result, size_t top,
		 struct ranking *ranking)
{
	/* --top 0 asks for all; and rows that nobody can rank are better than none. */
	bool few_too = r->all || top == 0 || is_histogram(r) || !any_sure(r, result);

	*ranking = (struct ranking){0};
	ranking->row = calloc(result->rows + 1, sizeof(*ranking->row));
	if (!ranking->row)
		return false;
	if (r->all || is_histogram(r))
		top = 0;
	for (size_t i = 0; i < result->rows; i++)
		rank_row(r, ranking, &result->row[i], top, few_too);
	if (result->all_rows > result->rows)
		add_left_out(ranking, result);
	if (is_histogram(r) && !r->q.sort_given)
		qsort(ranking->row, ranking->rows, sizeof(*ranking->row), compare_class);
	return true;
}

/* ---- text ---- */

/* A figure in a sentence. */
static char *say_figure(char *buffer, size_t size, const struct output *o,
			const struct mayfly_estimate *e)
{
	char text[FIGURE_TEXT];

	if (figure_sureness(&e->bytes, e->samples) != FIGURE_FEW)
		return text_figure(buffer, size, o, &e->bytes, e->samples);
	snprintf(buffer, size, "seen, %" PRIu64 " %s, at most %s", e->samples,
		 samples_word(e->samples), text_bytes(text, sizeof(text), e->bytes.high));
	return buffer;
}

static void print_program(const struct report *r)
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

	print_field(&r->out, "Recorded", "%s, %s; %s", start_text(start, sizeof(start), info),
		    text_duration(duration, sizeof(duration), (double)info->duration_ns),
		    ending_text(ending, sizeof(ending), info));
	if (info->ocaml_interval_bytes)
		snprintf(
		    ocaml, sizeof(ocaml), ", OCaml's heap 1 in %s",
		    text_bytes(duration, sizeof(duration), (double)info->ocaml_interval_bytes));
	if (r->exact)
		print_field(&r->out, "Exact", "every allocation: %" PRIu64 ", %" PRIu64 " freed",
			    info->samples, info->frees);
	else if (trace_is_ocaml_alone(info))
		print_field(
		    &r->out, "Sampled",
		    "1 byte in %s of OCaml's heaps: %" PRIu64 " %s, %" PRIu64 " freed",
		    text_bytes(duration, sizeof(duration), (double)info->ocaml_interval_bytes),
		    info->samples, samples_word(info->samples), info->frees);
	else
		print_field(&r->out, "Sampled", "%s (%s)%s: %" PRIu64 " %s, %" PRIu64 " freed",
			    interval_text(interval, sizeof(interval), r->file.trace),
			    info->sampler == MAYFLY_POISSON ? "Poisson" : "stratified", ocaml,
			    info->samples, samples_word(info->samples), info->frees);
	if (info->snapshot_ns)
		print_field(&r->out, "Snapshots", "every %s, %zu with changes",
			    text_duration(duration, sizeof(duration), (double)info->snapshot_ns),
			    trace_snapshots(r->file.trace));
}

static void print_estimate(const struct output *o, const char *name,
			   const struct mayfly_estimate *e, const char *more)
{
	char text[128], blocks[FIGURE_TEXT];

	say_figure(text, sizeof(text), o, e);
	text_count(blocks, sizeof(blocks), e->blocks.estimate);
	if (figure_sureness(&e->bytes, e->samples) <= FIGURE_FEW)
		print_field(o, name, "%s", text);
	else
		print_field(o, name, "%s in %s %s%s", text, blocks,
			    strcmp(blocks, "1") == 0 ? "block" : "blocks", more);
}

static void print_timeline(const struct report *r)
{
	size_t room = (size_t)r->out.width - FIELD_INDENT - 16; /* the time stands behind it */
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

/* Between snapshots no stack is known, but how much was live at most. */
static void print_highest(const struct report *r, const struct mayfly_summary *s)
{
	char bytes[FIGURE_TEXT];
	double highest;

	if (r->file.info->snapshot_ns && mayfly_timeline(r->file.trace, 1, &highest) == 0 &&
	    highest > s->peak.bytes.estimate)
		print_field(&r->out, "Highest", "%s for a time between two snapshots",
			    text_bytes(bytes, sizeof(bytes), highest));
}

static int print_summary(const struct report *r)
{
	struct mayfly_summary s;
	char more[128], time[FIGURE_TEXT], percent[FIGURE_TEXT];
	int error = mayfly_trace_summary(r->file.trace, &s);

	if (error)
		return cli_error("%s", mayfly_error_text(error));
	print_program(r);
	print_recorded(r);
	print_estimate(&r->out, "Allocated", &s.allocated, "");
	snprintf(more, sizeof(more), ", at %s",
		 text_duration(time, sizeof(time), (double)s.peak_time_ns));
	print_estimate(&r->out, "Peak", &s.peak, more);
	print_highest(r, &s);
	print_estimate(&r->out, "Live at end", &s.live_at_end, "");
	snprintf(more, sizeof(more), ", %s of all allocated",
		 text_percent(percent, sizeof(percent), s.temporary.bytes.estimate,
			      s.allocated.bytes.estimate));
	print_estimate(&r->out, "Temporary", &s.temporary, more);
	print_timeline(r);
	print_overlap(&r->out, r->file.info, false);
	print_notes(&r->out, r->file.info);
	return CLI_OK;
}

/* A time as a trace of snapshots sees it: query.h of the library rounds the same way. */
static int64_t rounded_time(const struct report *r, int64_t ns)
{
	int64_t step = r->file.info->snapshot_ns, end = r->file.info->duration_ns;
	int64_t rest;

	if (step <= 0 || ns <= 0 || ns >= end)
		return ns;
	rest = step - 1 - (ns - 1) % step;
	return rest < end - ns ? ns + rest : end;
}

/* "Live at the peak (1.82 s)" */
static void metric_text(char *buffer, size_t size, const struct report *r,
			const struct mayfly_result *result)
{
	const struct mayfly_query *q = &r->q.query;
	char time[FIGURE_TEXT], from[FIGURE_TEXT];

	text_duration(time, sizeof(time), (double)result->time_ns);
	switch (q->metric) {
	case MAYFLY_PEAK:
		snprintf(buffer, size, "Live at the peak (%s)", time);
		break;
	case MAYFLY_LIVE:
		snprintf(buffer, size,
			 q->at_ns == MAYFLY_AT_PEAK  ? "Live at the peak (%s)"
			 : q->at_ns == MAYFLY_AT_END ? "Live at the end (%s)"
						     : "Live at %s",
			 time);
		break;
	case MAYFLY_ALLOCATED:
		snprintf(buffer, size, "Allocated");
		break;
	case MAYFLY_LEAKED:
		snprintf(buffer, size, "Never freed");
		break;
	case MAYFLY_TEMPORARY:
		snprintf(buffer, size, "Temporary (freed before the thread allocated again)");
		break;
	}
	if (r->q.window_given) {
		size_t used = strlen(buffer);

		text_duration(from, sizeof(from), (double)rounded_time(r, q->from_ns));
		if (q->to_ns < r->file.info->duration_ns)
			text_duration(time, sizeof(time), (double)rounded_time(r, q->to_ns));
		else
			snprintf(time, sizeof(time), "the end");
		snprintf(buffer + used, size - used, ", allocated from %s to %s", from, time);
	}
}

/* Times that were asked for lie between two snapshots. */
static void print_rounding(const struct report *r)
{
	const struct mayfly_query *q = &r->q.query;
	bool at = q->metric == MAYFLY_LIVE && rounded_time(r, q->at_ns) != q->at_ns;
	bool window = q->metric == MAYFLY_ALLOCATED && (rounded_time(r, q->from_ns) != q->from_ns ||
							rounded_time(r, q->to_ns) != q->to_ns);
	char step[FIGURE_TEXT];

	if (at || window)
		print_wrapped(&r->out, STYLE_DIM, 2,
			      "times are rounded up to the next snapshot, every %s",
			      text_duration(step, sizeof(step), (double)r->file.info->snapshot_ns));
}

static void print_title(const struct report *r, const struct mayfly_result *result)
{
	const struct mayfly_estimate *e = &result->total;
	bool exact = r->exact;
	uint64_t count = e->samples;
	char metric[256], figure[128], samples[64] = "";

	metric_text(metric, sizeof(metric), r, result);
	if (figure_sureness(&e->bytes, e->samples) != FIGURE_FEW)
		snprintf(samples, sizeof(samples), ", %" PRIu64 " %s%s", count,
			 exact ? "block" : "sample", count == 1 ? "" : "s");
	print_wrapped(&r->out, STYLE_BOLD, 0, "%s by %s: %s%s%s", metric, by_names[r->q.query.by],
		      say_figure(figure, sizeof(figure), &r->out, e), samples,
		      r->q.filtered ? ", filtered" : "");
	print_rounding(r);
}

static void print_rest(const struct report *r, const struct ranking *ranking)
{
	bool sums = r->q.query.sort == MAYFLY_SORT_SELF; /* totals overlap: no sum */
	char text[128];

	if (ranking->more.rows) {
		struct mayfly_figure f = sum_figure(&ranking->more);
		struct mayfly_estimate e = {.bytes = f, .samples = ranking->more.samples};

		print_wrapped(&r->out, STYLE_DIM, 2, "  %zu more%s%s (--top 0 shows all)",
			      ranking->more.rows, sums ? ": " : "",
			      sums ? say_figure(text, sizeof(text), &r->out, &e) : "");
	}
	if (ranking->few.rows) {
		struct mayfly_figure f = sum_figure(&ranking->few);
		struct mayfly_estimate e = {.bytes = f, .samples = ranking->few.samples};

		print_wrapped(&r->out, STYLE_DIM, 2,
			      "  %zu %s with fewer than 4 samples%s%s (--all shows them)",
			      ranking->few.rows, ranking->few.rows == 1 ? "other" : "others",
			      !sums		       ? " each"
			      : ranking->few.rows == 1 ? ": "
						       : ", together ",
			      sums ? say_figure(text, sizeof(text), &r->out, &e) : "");
	}
}

/* ---- tables ---- */

/* The grouping's own columns come last. */
static void row_key(char *buffer, size_t size, const struct report *r, const struct mayfly_row *row)
{
	const struct mayfly_thread *thread;
	char low[FIGURE_TEXT], high[FIGURE_TEXT];

	switch (r->q.query.by) {
	case MAYFLY_BY_MODULE:
		snprintf(buffer, size, "%s",
			 *row->module ? r->out.wide ? row->module : path_base(row->module)
				      : "[no module]");
		break;
	case MAYFLY_BY_THREAD:
		thread = mayfly_trace_thread(r->file.trace, row->thread);
		if (thread && *thread->name)
			snprintf(buffer, size, "%s (%" PRIu32 ")", thread->name, thread->tid);
		else
			snprintf(buffer, size, "%" PRIu32, thread ? thread->tid : 0);
		break;
	case MAYFLY_BY_SIZE:
		if (row->high <= 1)
			snprintf(buffer, size, "up to 1 B");
		else
			snprintf(buffer, size, "%s to %s",
				 text_bytes(low, sizeof(low), (double)row->low),
				 text_bytes(high, sizeof(high), (double)row->high));
		break;
	case MAYFLY_BY_LIFETIME:
		if (row->high == INT64_MAX)
			snprintf(buffer, size, "never freed");
		else if (row->low <= 0)
			snprintf(buffer, size, "below %s",
				 text_duration(high, sizeof(high), (double)row->high));
		else
			snprintf(buffer, size, "%s to %s",
				 text_duration(low, sizeof(low), (double)row->low),
				 text_duration(high, sizeof(high), (double)row->high));
		break;
	case MAYFLY_BY_HEAP:
		snprintf(buffer, size, "%s", heap_name((uint32_t)row->low));
		break;
	default:
		row_name(buffer, size, row);
		break;
	}
}

/* Value, error, percent. */
static bool put_estimate(struct table *t, const struct report *r, const struct mayfly_estimate *e,
			 const struct mayfly_estimate *whole)
{
	const struct mayfly_figure *f = &e->bytes;
	char value[FIGURE_TEXT], error[FIGURE_TEXT], percent[FIGURE_TEXT] = "";

	text_figure_value(value, sizeof(value), f, e->samples);
	text_figure_error(error, sizeof(error), &r->out, f, e->samples);
	if (figure_sureness(f, e->samples) >= FIGURE_RANGE)
		text_percent(percent, sizeof(percent), f->estimate, whole->bytes.estimate);
	return table_cell(t, value) && table_cell(t, error) && table_cell(t, percent);
}

#define BAR_COLUMNS 10

static bool has_total(const struct report *r)
{
	return !r->callers &&
	       (r->q.query.by == MAYFLY_BY_FUNCTION || r->q.query.by == MAYFLY_BY_LINE ||
		r->q.query.by == MAYFLY_BY_MODULE);
}

/* A location wider than this would leave nothing for the function. */
#define LOCATION_COLUMNS 36

static bool put_row(struct table *t, const struct report *r, const struct mayfly_row *row,
		    const struct mayfly_result *result)
{
	const struct mayfly_estimate *first = sorted_by(r, row);
	const struct mayfly_estimate *second = first == &row->self ? &row->total : &row->self;
	bool few = sureness_of(r, row) < FIGURE_RANGE;
	char text[NAME_BYTES], fitted[NAME_BYTES];

	text_bar(text, sizeof(text), &r->out, few ? 0 : first->bytes.estimate,
		 result->total.bytes.estimate, BAR_COLUMNS);
	if (!put_estimate(t, r, first, &result->total) || !table_cell(t, text) ||
	    (has_total(r) && !put_estimate(t, r, second, &result->total)) ||
	    !table_cell(t, text_count(text, sizeof(text), first->blocks.estimate)))
		return false;
	snprintf(text, sizeof(text), "%" PRIu64, first->samples);
	if (!r->exact && !table_cell(t, text))
		return false;
	if (r->q.query.by == MAYFLY_BY_LINE) {
		/* Without a function, the name below is the module already. */
		location_text(text, sizeof(text), row->file, row->line,
			      *row->function ? row->module : "-", r->out.wide);
		if (!table_cell(t, line_fit(fitted, sizeof(fitted), &r->out, text,
					    (size_t)r->out.width / 3 < LOCATION_COLUMNS
						? (size_t)r->out.width / 3
						: LOCATION_COLUMNS)))
			return false;
	}
	row_key(text, sizeof(text), r, row);
	return table_cell(t, text);
}

#define MOST_COLUMNS 11

static size_t set_columns(struct column *c, const struct report *r)
{
	static const char *const titles[] = {"FUNCTION", "FUNCTION", "",	 "MODULE",
					     "THREAD",	 "SIZE",     "LIFETIME", "HEAP"};
	bool total_first = r->q.query.sort == MAYFLY_SORT_TOTAL;
	bool exact = r->exact;
	const char *first = total_first ? "TOTAL" : "SELF";
	size_t n = 0;

	c[n++] = (struct column){has_total(r) || r->callers ? first : "BYTES", true, 0, STYLE_PLAIN,
				 false};
	c[n++] = (struct column){"", false, 0, STYLE_DIM, true};
	c[n++] = (struct column){"%", true, 1, STYLE_PLAIN, false};
	c[n++] = (struct column){"", false, 5, STYLE_BAR, false};
	if (has_total(r)) {
		const char *second = total_first ? "SELF" : "TOTAL";

		c[n++] = (struct column){second, true, 2, STYLE_PLAIN, false};
		c[n++] = (struct column){"", false, 2, STYLE_DIM, true};
		c[n++] = (struct column){"%", true, 6, STYLE_PLAIN, false};
	}
	c[n++] = (struct column){"BLOCKS", true, exact ? 3 : 7, STYLE_PLAIN, false};
	if (!exact)
		c[n++] = (struct column){"SAMPLES", true, 3, STYLE_DIM, false};
	if (r->q.query.by == MAYFLY_BY_LINE)
		c[n++] = (struct column){"LINE", false, 0, STYLE_PLAIN, false};
	c[n++] = (struct column){titles[r->q.query.by], false, 0, STYLE_PLAIN, false};
	return n;
}

static bool print_table(const struct report *r, const struct mayfly_result *result,
			const struct ranking *ranking)
{
	struct column columns[MOST_COLUMNS];
	struct table *t = table_new(columns, set_columns(columns, r));

	for (size_t i = 0; t && i < ranking->rows; i++) {
		if (!put_row(t, r, ranking->row[i], result)) {
			table_free(t);
			return false;
		}
	}
	if (!t)
		return false;
	if (ranking->rows)
		table_print(t, &r->out, 0);
	table_free(t);
	return true;
}

/* ---- stacks ---- */

/* "  1. 12.3 MB +-18 %, 7.1 %, 2.1 k blocks, 24 samples" */
static void print_stack_title(const struct report *r, size_t number,
			      const struct mayfly_estimate *e, const struct mayfly_estimate *whole)
{
	char figure[128], percent[FIGURE_TEXT], blocks[FIGURE_TEXT], samples[64] = "", line[400];
	uint64_t count = e->samples;

	say_figure(figure, sizeof(figure), &r->out, e);
	text_percent(percent, sizeof(percent), e->bytes.estimate, whole->bytes.estimate);
	text_count(blocks, sizeof(blocks), e->blocks.estimate);
	if (!r->exact)
		snprintf(samples, sizeof(samples), ", %" PRIu64 " %s", count, samples_word(count));
	if (figure_sureness(&e->bytes, e->samples) < FIGURE_RANGE)
		snprintf(line, sizeof(line), "%3zu. %s", number, figure);
	else
		snprintf(line, sizeof(line), "%3zu. %s, %s, %s block%s%s", number, figure, percent,
			 blocks, strcmp(blocks, "1") == 0 ? "" : "s", samples);
	print_styled(&r->out, STYLE_BOLD, line);
	putchar('\n');
}

static void print_stacks(const struct report *r, const struct mayfly_result *result,
			 const struct ranking *ranking, size_t depth)
{
	bool rest = ranking->more.rows || ranking->few.rows;

	for (size_t i = 0; i < ranking->rows; i++) {
		print_stack_title(r, i + 1, &ranking->row[i]->self, &result->total);
		print_stack(&r->out, ranking->row[i]->stack, ranking->row[i]->stack_length, depth);
		if (i + 1 < ranking->rows || rest)
			putchar('\n');
	}
}

static bool show_answer(const struct report *r, const struct mayfly_result *result, size_t top,
			size_t depth)
{
	struct ranking ranking;
	bool printed = true;

	if (!rank(r, result, top, &ranking))
		return false;
	print_title(r, result);
	if (!(result->total.bytes.estimate > 0)) {
		puts(r->q.filtered || r->q.window_given ? "  No block fits these options."
		     : r->exact				? "  No block was recorded."
							: "  No block was sampled.");
	} else {
		if (r->q.query.by == MAYFLY_BY_STACK)
			print_stacks(r, result, &ranking, depth);
		else
			printed = print_table(r, result, &ranking);
		print_rest(r, &ranking);
	}
	free(ranking.row);
	return printed;
}

/* Exact traces have very many stacks, and those that are shown are the first ones. */
static size_t stacks_needed(const struct report *r, size_t rows)
{
	return r->exact && !r->all ? rows : 0;
}

/* Whether the rows have malloc's blocks and others, those that overlap, too. */
static bool shows_twice(const struct mayfly_query *q)
{
	const uint32_t malloc_heap = 1u << MAYFLY_HEAP_MALLOC;

	return q->heaps ? q->heaps & malloc_heap && q->heaps != malloc_heap
			: q->by == MAYFLY_BY_HEAP;
}

static int print_answer(struct report *r)
{
	struct mayfly_result *result;
	bool printed;
	int error;

	r->q.query.stack_rows = stacks_needed(r, r->top);
	error = mayfly_query_run(r->file.trace, &r->q.query, &result);
	if (error)
		return say_failed(r, error);
	printed = show_answer(r, result, r->top, r->depth);
	mayfly_result_free(result);
	if (shows_twice(&r->q.query) && trace_overlaps(r->file.info)) {
		putchar('\n');
		print_overlap(&r->out, r->file.info, true);
	}
	return printed ? CLI_OK : cli_error("out of memory");
}

static void print_legend(const struct report *r)
{
	if (r->exact)
		return;
	putchar('\n');
	print_wrapped(&r->out, STYLE_DIM, 0,
		      "%s and a..b: 95 %% interval; <=: its upper end. 1 KB is 1024 B.",
		      r->out.utf8 ? "±" : "+-");
}

/*
 * Below the functions that allocate, the overview shows those that call them, without what says
 * nothing new: what almost all memory goes through (main), what only allocates itself, and of a
 * chain of calls that hands on the same memory all but the one nearest to the leaf.
 */
static bool says_nothing_new(const struct report *r, const struct mayfly_row *row,
			     const struct mayfly_result *result)
{
	double total = row->total.bytes.estimate;

	return total >= 0.95 * result->total.bytes.estimate || total <= row->self.bytes.estimate ||
	       sureness_of(r, row) < FIGURE_RANGE;
}

#define NOT_ON_STACKS	SIZE_MAX
#define SEARCHED_STACKS 500

/* How far the function is from the leaf in the largest stack that it is on. */
static size_t distance_from_leaf(const struct mayfly_row *row, const struct mayfly_result *stacks)
{
	for (size_t i = 0; i < stacks->rows && i < SEARCHED_STACKS; i++) {
		const struct mayfly_row *stack = &stacks->row[i];

		for (size_t j = 0; j < stack->stack_length; j++)
			if (*row->function && strcmp(stack->stack[j].function, row->function) == 0)
				return j;
	}
	return NOT_ON_STACKS;
}

static bool same_memory(const struct mayfly_row *a, const struct mayfly_row *b)
{
	return a->total.bytes.estimate == b->total.bytes.estimate &&
	       a->total.blocks.estimate == b->total.blocks.estimate;
}

/* Keeps at most `top` rows of the ranking. */
static void keep_callers(const struct report *r, struct ranking *ranking,
			 const struct mayfly_result *result, const struct mayfly_result *stacks,
			 size_t top)
{
	size_t kept = 0, distance = NOT_ON_STACKS;

	for (size_t i = 0; i < ranking->rows; i++) {
		const struct mayfly_row *row = ranking->row[i];
		size_t this_distance;

		if (says_nothing_new(r, row, result))
			continue;
		if (kept && same_memory(ranking->row[kept - 1], row)) {
			this_distance = distance_from_leaf(row, stacks);
			if (this_distance >= distance)
				continue;
			kept--;
		} else {
			if (top && kept == top)
				break;
			this_distance = distance_from_leaf(row, stacks);
		}
		ranking->row[kept++] = row;
		distance = this_distance;
	}
	ranking->rows = kept;
}

static int compare_total(const void *a, const void *b)
{
	const struct mayfly_row *x = *(const struct mayfly_row *const *)a;
	const struct mayfly_row *y = *(const struct mayfly_row *const *)b;

	if (x->total.bytes.estimate != y->total.bytes.estimate)
		return x->total.bytes.estimate > y->total.bytes.estimate ? -1 : 1;
	if (x->total.blocks.estimate != y->total.blocks.estimate)
		return x->total.blocks.estimate > y->total.blocks.estimate ? -1 : 1;
	return strcmp(x->function, y->function);
}

static bool show_callers(const struct report *report, const struct mayfly_result *functions,
			 const struct mayfly_result *stacks, size_t top)
{
	struct report r = *report;
	struct ranking ranking;
	bool printed = true;

	r.callers = true;
	r.q.query.by = MAYFLY_BY_FUNCTION;
	r.q.query.sort = MAYFLY_SORT_TOTAL;
	if (!rank(&r, functions, 0, &ranking))
		return false;
	qsort(ranking.row, ranking.rows, sizeof(*ranking.row), compare_total);
	keep_callers(&r, &ranking, functions, stacks, top);
	if (ranking.rows) {
		putchar('\n');
		print_wrapped(&r.out, STYLE_BOLD, 0,
			      "The same by function, with all that it calls");
		printed = print_table(&r, functions, &ranking);
		print_wrapped(
		    &r.out, STYLE_DIM, 2,
		    "one of each chain of calls, and none above 95 %% (--sort total shows "
		    "all)");
	}
	free(ranking.row);
	return printed;
}

static bool show_tables(struct report *r, const struct mayfly_result *functions,
			const struct mayfly_result *stacks)
{
	size_t rows = r->top_given ? r->top : OVERVIEW_ROWS;

	putchar('\n');
	r->q.query.by = MAYFLY_BY_FUNCTION;
	if (!show_answer(r, functions, rows, 0) || !show_callers(r, functions, stacks, rows))
		return false;
	putchar('\n');
	r->q.query.by = MAYFLY_BY_STACK;
	return show_answer(r, stacks, r->top_given ? r->top : OVERVIEW_STACKS,
			   r->depth_given ? r->depth : OVERVIEW_DEPTH);
}

/* Without options: the summary, and the tables that are asked for most. */
static int print_overview(struct report *r)
{
	struct mayfly_result *result[2];
	struct mayfly_query query[2];
	int status = print_summary(r), error;

	if (status)
		return status;
	query[0] = query[1] = r->q.query;
	query[0].by = MAYFLY_BY_FUNCTION;
	query[1].by = MAYFLY_BY_STACK;
	query[1].stack_rows = stacks_needed(
	    r, r->top_given && (!r->top || r->top > SEARCHED_STACKS) ? r->top : SEARCHED_STACKS);
	error = query_run_two(r->file.trace, query, result);
	if (error)
		return say_failed(r, error);
	if (!show_tables(r, result[0], result[1]))
		status = cli_error("out of memory");
	mayfly_result_free(result[0]);
	mayfly_result_free(result[1]);
	return status;
}

static bool is_overview(const struct report *r)
{
	return !r->q.metric_given && !r->q.by_given && !r->q.sort_given && !r->q.at_given &&
	       !r->q.window_given && !r->q.filtered && !r->series;
}

/* ---- JSON ---- */

static json_t *json_bound(int64_t value)
{
	return value == INT64_MAX ? json_null() : json_integer(value);
}

static json_t *json_row(const struct report *r, const struct mayfly_row *row)
{
	json_t *self = json_estimate(&row->self), *total = json_estimate(&row->total);
	const struct mayfly_thread *thread;
	char name[NAME_BYTES];

	switch (r->q.query.by) {
	case MAYFLY_BY_FUNCTION:
	case MAYFLY_BY_LINE:
		row_name(name, sizeof(name), row);
		return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "function", json_text(name),
				 "file", json_text_or_null(row->file), "line",
				 row->line ? json_unsigned(row->line) : json_null(), "module",
				 json_text_or_null(row->module), "self", self, "total", total);
	case MAYFLY_BY_STACK:
		return json_pack("{s:o, s:o, s:o}", "stack", json_row_stack(row), "self", self,
				 "total", total);
	case MAYFLY_BY_MODULE:
		return json_pack("{s:o, s:o, s:o}", "module", json_text_or_null(row->module),
				 "self", self, "total", total);
	case MAYFLY_BY_THREAD:
		thread = mayfly_trace_thread(r->file.trace, row->thread);
		return json_pack(
		    "{s:o, s:o, s:o, s:o}", "thread", json_text(thread ? thread->name : ""), "tid",
		    json_unsigned(thread ? thread->tid : 0), "self", self, "total", total);
	case MAYFLY_BY_SIZE:
		return json_pack("{s:{s:o, s:o}, s:o, s:o}", "size", "low", json_bound(row->low),
				 "high", json_bound(row->high), "self", self, "total", total);
	case MAYFLY_BY_LIFETIME:
		return json_pack("{s:{s:o, s:o}, s:o, s:o}", "lifetime", "low_ns",
				 json_bound(row->low), "high_ns", json_bound(row->high), "self",
				 self, "total", total);
	case MAYFLY_BY_HEAP:
		return json_pack("{s:s, s:o, s:o}", "heap", heap_name((uint32_t)row->low), "self",
				 self, "total", total);
	}
	return NULL;
}

static json_t *json_rows(const struct report *r, const struct mayfly_result *result)
{
	size_t count = result->rows;
	json_t *list = json_array();

	if (r->top_given && r->top && r->top < count)
		count = r->top;
	for (size_t i = 0; list && i < count; i++) {
		if (json_array_append_new(list, json_row(r, &result->row[i])) != 0) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

static bool add_context(const struct report *r, json_t *object)
{
	struct mayfly_summary s;

	return mayfly_trace_summary(r->file.trace, &s) == 0 &&
	       json_object_set_new(object, "summary", json_summary(&s)) == 0 &&
	       json_object_set_new(object, "info",
				   json_info(r->file.trace, &s, trace_stacks(r->file.trace))) == 0;
}

static int print_json(struct report *r)
{
	struct mayfly_result *result;
	json_t *object;
	int error;

	r->q.query.stack_rows = stacks_needed(r, r->top_given ? r->top : 0);
	error = mayfly_query_run(r->file.trace, &r->q.query, &result);
	if (error)
		return say_failed(r, error);
	object = json_pack("{s:s, s:s, s:s, s:I, s:o, s:o}", "metric",
			   metric_names[r->q.query.metric], "by", by_names[r->q.query.by], "sort",
			   sort_names[r->q.query.sort], "time_ns", (json_int_t)result->time_ns,
			   "total", json_estimate(&result->total), "rows", json_rows(r, result));
	mayfly_result_free(result);
	if (object && !r->q.by_given && !add_context(r, object)) {
		json_decref(object);
		object = NULL;
	}
	return json_print(object);
}

static json_t *json_numbers(const double *value, size_t count)
{
	json_t *list = json_array();

	for (size_t i = 0; list && i < count; i++) {
		if (json_array_append_new(list, json_integer((json_int_t)llround(value[i]))) != 0) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

/* Adds the numbers of row number `row` to its object. */
static json_t *add_numbers(json_t *object, const struct mayfly_series *s, size_t row)
{
	size_t first = row * s->points;

	if (object &&
	    json_object_set_new(object, "live_bytes",
				json_numbers(s->live_bytes + first, s->points)) == 0 &&
	    json_object_set_new(object, "live_blocks",
				json_numbers(s->live_blocks + first, s->points)) == 0 &&
	    json_object_set_new(object, "allocated_bytes",
				json_numbers(s->allocated_bytes + first, s->points)) == 0 &&
	    json_object_set_new(object, "allocated_blocks",
				json_numbers(s->allocated_blocks + first, s->points)) == 0)
		return object;
	json_decref(object);
	return NULL;
}

static json_t *json_series_rows(const struct report *r, const struct mayfly_series *s)
{
	json_t *list = json_array();

	for (size_t i = 0; list && i + 1 < s->rows; i++) {
		json_t *row = add_numbers(json_row(r, &s->row[i]), s, i);

		if (json_array_append_new(list, row) != 0) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

static json_t *json_times(const struct mayfly_series *s)
{
	json_t *list = json_array();

	for (size_t i = 0; list && i < s->points; i++) {
		if (json_array_append_new(list, json_integer(s->time_ns[i])) != 0) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

static int print_json_series(const struct report *r, const struct mayfly_series *s)
{
	return json_print(json_pack(
	    "{s:s, s:s, s:s, s:o, s:o, s:o}", "metric", metric_names[r->q.query.metric], "by",
	    by_names[r->q.query.by], "sort", sort_names[r->q.query.sort], "times_ns", json_times(s),
	    "rows", json_series_rows(r, s), "others", add_numbers(json_object(), s, s->rows - 1)));
}

/* ---- series ---- */

/*
 * Rows are scaled each by its own largest, which stands before it: the shape is what a series is
 * asked for, and among rows of very different size one scale would leave most of them empty.
 */
static double largest_of(const struct mayfly_series *s, size_t row)
{
	double largest = 0;

	for (size_t i = 0; i < s->points; i++)
		if (s->live_bytes[row * s->points + i] > largest)
			largest = s->live_bytes[row * s->points + i];
	return largest;
}

#define SERIES_OTHERS 60 /* columns that are not for the moments */

/* Bars need a terminal that has them, and room. */
static bool has_bars(const struct report *r)
{
	return r->out.utf8 && (r->out.wide || r->series + SERIES_OTHERS <= (size_t)r->out.width);
}

static void series_name(char *buffer, size_t size, const struct report *r,
			const struct mayfly_series *s, size_t row)
{
	if (row + 1 == s->rows)
		snprintf(buffer, size, "[all others]");
	else
		row_key(buffer, size, r, &s->row[row]);
}

/* A name with its source line, where that is the key. */
static void series_key(char *buffer, size_t size, const struct report *r,
		       const struct mayfly_series *s, size_t row)
{
	char location[NAME_BYTES];
	size_t used;

	series_name(buffer, size, r, s, row);
	used = strlen(buffer);
	if (r->q.query.by != MAYFLY_BY_LINE || row + 1 == s->rows || !s->row[row].line)
		return;
	location_text(location, sizeof(location), s->row[row].file, s->row[row].line, "-",
		      r->out.wide);
	snprintf(buffer + used, size - used, " %s", location);
}

static bool put_series(struct table *t, const struct report *r, const struct mayfly_series *s,
		       size_t row)
{
	char text[NAME_BYTES];
	const double *live = s->live_bytes + row * s->points;

	if (!table_cell(t, text_bytes(text, sizeof(text), largest_of(s, row))) ||
	    !table_cell(t, text_sparkline(text, sizeof(text), &r->out, live, s->points)) ||
	    !table_cell(t, text_bytes(text, sizeof(text), live[s->points - 1])))
		return false;
	series_key(text, sizeof(text), r, s, row);
	return table_cell(t, text);
}

static bool print_bars(const struct report *r, const struct mayfly_series *s)
{
	static const char *const titles[] = {"FUNCTION", "FUNCTION", "",	 "MODULE",
					     "THREAD",	 "SIZE",     "LIFETIME", "HEAP"};
	struct column columns[] = {{"LARGEST", true, 0, STYLE_PLAIN, false},
				   {"LIVE", false, 0, STYLE_BAR, false},
				   {"LAST", true, 1, STYLE_PLAIN, false},
				   {titles[r->q.query.by], false, 0, STYLE_PLAIN, false}};
	struct table *t = table_new(columns, 4);
	bool done = t != NULL;

	for (size_t i = 0; done && i < s->rows; i++)
		if (largest_of(s, i) > 0)
			done = put_series(t, r, s, i);
	if (done && table_rows(t))
		table_print(t, &r->out, 0);
	table_free(t);
	return done;
}

/* Numbers, filled into lines. */
static void print_numbers(const struct report *r, const double *value, size_t count)
{
	char bytes[FIGURE_TEXT];
	int column = 0;

	for (size_t i = 0; i < count; i++) {
		const char *comma = i + 1 < count ? "," : "";
		int columns =
		    (int)strlen(text_bytes(bytes, sizeof(bytes), value[i])) + (int)strlen(comma);

		if (column > 0 && column + 1 + columns > r->out.width) {
			putchar('\n');
			column = 0;
		}
		printf("%*s%s%s", column ? 1 : STACK_INDENT, "", bytes, comma);
		column += columns + (column ? 1 : STACK_INDENT);
	}
	putchar('\n');
}

/* A stack, or a row where there is no room for bars: a line of its own, then what it has live. */
static void print_series_row(const struct report *r, const struct mayfly_series *s, size_t row)
{
	const double *live = s->live_bytes + row * s->points;
	bool stack = r->q.query.by == MAYFLY_BY_STACK && row + 1 < s->rows;
	char name[NAME_BYTES] = "", fitted[NAME_BYTES], number[32], figures[256];
	char line[MOST_MOMENTS * 4 + 1], largest[FIGURE_TEXT], last[FIGURE_TEXT];

	snprintf(number, sizeof(number), "%3zu. ", row + 1);
	print_styled(&r->out, STYLE_BOLD, number);
	snprintf(figures, sizeof(figures), "at most %s, last %s  ",
		 text_bytes(largest, sizeof(largest), largest_of(s, row)),
		 text_bytes(last, sizeof(last), live[s->points - 1]));
	print_styled(&r->out, STYLE_BOLD, figures);
	if (!stack)
		series_key(name, sizeof(name), r, s, row);
	if (has_bars(r))
		print_styled(&r->out, STYLE_BAR,
			     text_sparkline(line, sizeof(line), &r->out, live, s->points));
	else
		fputs(name_fit(fitted, sizeof(fitted), &r->out, name,
			       (size_t)r->out.width > strlen(figures) + 6
				   ? (size_t)r->out.width - strlen(figures) - 6
				   : 1),
		      stdout);
	printf("%s%s\n", has_bars(r) && *name ? "  " : "", has_bars(r) ? name : "");
	if (!has_bars(r))
		print_numbers(r, live, s->points);
	if (stack)
		print_stack(&r->out, s->row[row].stack, s->row[row].stack_length, r->depth);
}

static void print_series_title(const struct report *r, const struct mayfly_series *s)
{
	char first[FIGURE_TEXT], last[FIGURE_TEXT];
	bool one = s->points == 1;

	text_duration(first, sizeof(first), (double)s->time_ns[0]);
	text_duration(last, sizeof(last), (double)s->time_ns[s->points - 1]);
	print_wrapped(&r->out, STYLE_BOLD, 0, "Live by %s at %zu %s, %s%s%s; sorted by %s%s",
		      by_names[r->q.query.by], s->points, one ? "moment" : "moments", first,
		      one ? "" : " to ", one ? "" : last, metric_names[r->q.query.metric],
		      r->q.filtered ? "; filtered" : "");
}

static int print_series_text(const struct report *r, const struct mayfly_series *s)
{
	bool any = false;

	print_series_title(r, s);
	for (size_t i = 0; i < s->rows; i++)
		any |= largest_of(s, i) > 0;
	if (!any)
		puts("  Nothing was live at these moments.");
	else if (has_bars(r) && r->q.query.by != MAYFLY_BY_STACK) {
		if (!print_bars(r, s))
			return cli_error("out of memory");
		any = false;
	}
	for (size_t i = 0; any && i < s->rows; i++) {
		if (largest_of(s, i) > 0)
			print_series_row(r, s, i);
	}
	return cli_finish();
}

static int print_series(struct report *r)
{
	struct mayfly_series *s;
	int error, status;

	r->q.query.stack_rows = stacks_needed(r, r->top);
	error = mayfly_series_run(r->file.trace, &r->q.query, r->series, r->top ? r->top : SIZE_MAX,
				  &s);
	if (error)
		return say_failed(r, error);
	status = r->json ? print_json_series(r, s) : print_series_text(r, s);
	mayfly_series_free(s);
	return status;
}

/* ---- the command ---- */

static int run(struct report *r)
{
	int status;

	r->exact = trace_is_exact(r->file.info);
	if (r->survival)
		return run_survival(r);
	if (r->series)
		return print_series(r);
	if (r->json)
		return print_json(r);
	if (is_overview(r))
		status = print_overview(r);
	else
		status = print_answer(r);
	if (status)
		return status;
	print_legend(r);
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
		if (open_trace(argv[optind], &r.file)) {
			status = run(&r);
			close_trace(&r.file);
		}
	}
	question_free(&r.q);
	return status;
}
