/* SPDX-License-Identifier: Apache-2.0 */
/* mayfly plan: from an exact trace, what each sampling interval would give and cost. */
#include "cli/cli.h"
#include "cli/option_table.h"
#include "answer/allocator_frames.h"
#include "answer/trace_names.h"
#include "answer/query_words.h"
#include "answer/trace_facts.h"
#include "answer/text_format.h"
#include "cli/input/open_trace.h"
#include "question/question.h"
#include "terminal/output.h"
#include "terminal/print_json.h"
#include "cli/trace_fields.h"

#include "query/plan.h"

#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The cost of a sample in addition to the hook that every allocation calls: draw, stack capture
 * with cold caches, record, table of live blocks, and its free. bench/RESULTS.md, "Estimators", has
 * the measurements of real programs. */
#define DEFAULT_COST_NS 2000
/* Trace bytes for each sampled block, all included: bench/RESULTS.md, "Files". */
#define DEFAULT_SAMPLE_BYTES 10
#define DEFAULT_ERROR	     10.0 /* percent */

struct settings {
	double error; /* a share, not percent */
	int sampler;  /* enum mayfly_sampler */
	int metric;   /* of `metrics` */
	int64_t cost_ns, run_ns;
	size_t sample_bytes;
	enum frames_choice frames;
	bool json;
	struct mayfly_query query;
};

/* One interval as it is shown. Standard errors are relative to the true figure. */
struct expectation {
	uint64_t interval;
	double samples, cost_ns, trace_bytes;
	double peak, allocated, median, worst;
	double row[PLAN_ROWS];
};

static double relative(double variance, double truth)
{
	return truth > 0 ? sqrt(variance) / truth : 0;
}

static int compare_doubles(const void *a, const void *b)
{
	double x, y;

	memcpy(&x, a, sizeof(x));
	memcpy(&y, b, sizeof(y));
	return (x > y) - (x < y);
}

static struct expectation expect(const struct plan *plan, size_t level, int sampler,
				 const struct settings *set)
{
	const struct plan_scheme *s = &plan->scheme[level][sampler];
	struct expectation e = {.interval = 1ull << (PLAN_FIRST_LOG2 + level)};
	double sorted[PLAN_ROWS];

	e.samples = s->samples;
	e.cost_ns = s->samples * (double)set->cost_ns;
	e.trace_bytes = s->samples * (double)set->sample_bytes;
	e.peak = relative(s->peak_variance, (double)plan->peak_bytes);
	e.allocated = relative(s->allocated_variance, (double)plan->allocated_bytes);
	for (size_t r = 0; r < plan->rows; r++)
		e.row[r] = relative(s->row_variance[r], (double)plan->row_bytes[r]);
	memcpy(sorted, e.row, sizeof(sorted));
	qsort(sorted, plan->rows, sizeof(*sorted), compare_doubles);
	if (plan->rows) {
		e.median = (sorted[(plan->rows - 1) / 2] + sorted[plan->rows / 2]) / 2;
		e.worst = sorted[plan->rows - 1];
	}
	return e;
}

static double total_error(const struct expectation *e, const struct settings *set)
{
	return set->query.metric == MAYFLY_PEAK ? e->peak : e->allocated;
}

static bool good_enough(const struct expectation *e, const struct settings *set)
{
	return total_error(e, set) <= set->error && e->median <= set->error;
}

/* The coarsest interval that is good enough, itself and all finer ones; -1: none is. */
static int recommended(const struct plan *plan, const struct settings *set)
{
	int best = -1;

	for (size_t l = 0; l < PLAN_LEVELS; l++) {
		struct expectation e = expect(plan, l, set->sampler, set);

		if (!good_enough(&e, set))
			break;
		best = (int)l;
	}
	return best;
}

/* ---- text ---- */

/* Two significant digits: more would not be accurate. */
static char *text_error(char *buffer, size_t size, double error)
{
	double percent = 100 * error;

	if (percent < 0.05)
		return text_format(buffer, size, "0 %%");
	if (percent < 9.95)
		return text_format(buffer, size, "%.1f %%", percent);
	if (percent <= 99.5)
		return text_format(buffer, size, "%.0f %%", percent);
	return text_format(buffer, size, ">100 %%");
}

static const char *const plan_keys[] = {"function", "line", "stack", "module",
					"thread",   "size", NULL};
static const char *const by_plural[] = {"functions", "lines",	"stacks",
					"modules",   "threads", "size classes"};

/* "half of the top 20 stacks", or with no word before it "the top 20 stacks" */
static char *rows_text(char *buffer, size_t size, const struct plan *plan,
		       const struct settings *set, const char *amount)
{
	if (plan->rows == 1)
		return text_format(buffer, size, "the largest %s", plan_keys[set->query.by]);
	return text_format(buffer, size, "%sthe top %zu %s", amount, plan->rows,
			   by_plural[set->query.by]);
}

static void put_row(struct table *t, const struct expectation *e, bool mark,
		    const struct plan *plan, const struct settings *set)
{
	char text[FIGURE_TEXT];

	table_row(t);
	table_format(COLUMN(t, "INTERVAL", true, 0, STYLE_BOLD), "%s%s", mark ? "> " : "",
		     text_size_option(text, sizeof(text), e->interval));
	table_count(COLUMN(t, "SAMPLES", true), e->samples);
	table_duration(COLUMN(t, "CPU", true, 2), e->cost_ns);
	table_percent(COLUMN(t, "OF RUN", true), e->cost_ns, (double)set->run_ns);
	table_bytes(COLUMN(t, "TRACE", true, 1), e->trace_bytes);
	table_cell(COLUMN(t, "PEAK", true), text_error(text, sizeof(text), e->peak));
	table_cell(COLUMN(t, "ALLOCATED", true), text_error(text, sizeof(text), e->allocated));
	table_cell(COLUMN(t, "ROW", true),
		   plan->rows ? text_error(text, sizeof(text), e->median) : "-");
	table_cell(COLUMN(t, "WORST ROW", true),
		   plan->rows ? text_error(text, sizeof(text), e->worst) : "-");
}

static bool print_plan_table(const struct output *o, const struct plan *plan,
			     const struct settings *set, int best)
{
	struct table *t = table_new(o);

	for (size_t l = 0; l < PLAN_LEVELS; l++) {
		struct expectation e = expect(plan, l, set->sampler, set);

		put_row(t, &e, (int)l == best, plan, set);
	}
	return table_end(t, 0);
}

static void print_head(const struct output *o, const struct opened_trace *file,
		       const struct plan *plan, const struct settings *set)
{
	char line[4096], fitted[4096], a[FIGURE_TEXT], b[FIGURE_TEXT], c[FIGURE_TEXT];
	size_t room = (size_t)o->width - FIELD_INDENT;

	command_line(line, sizeof(line), file->info);
	print_field(o, "Program", "%s", line_fit(fitted, sizeof(fitted), o, line, room));
	print_field(o, "Allocated", "%s in %s blocks",
		    text_bytes(a, sizeof(a), (double)plan->allocated_bytes),
		    text_count(b, sizeof(b), (double)plan->blocks));
	print_field(o, "Peak", "%s in %s blocks, at %s",
		    text_bytes(a, sizeof(a), (double)plan->peak_bytes),
		    text_count(b, sizeof(b), (double)plan->peak_blocks),
		    text_duration(c, sizeof(c), (double)plan->peak_ns));
	print_field(o, "Sampler", "%s", set->sampler == MAYFLY_POISSON ? "poisson" : "stratified");
	print_notes(o, file->trace);
	putchar('\n');
}

static void print_sentence(const struct output *o, const struct plan *plan,
			   const struct settings *set, int best)
{
	const char *figure = set->query.metric == MAYFLY_PEAK ? "peak" : "total allocated";
	char interval[FIGURE_TEXT], total[FIGURE_TEXT], median[FIGURE_TEXT], share[FIGURE_TEXT];
	char rows[2 * FIGURE_TEXT], wanted[FIGURE_TEXT];
	struct expectation e;

	snprintf(wanted, sizeof(wanted), "%g %%", 100 * set->error);
	rows_text(rows, sizeof(rows), plan, set, "half of ");
	if (best < 0) {
		e = expect(plan, 0, set->sampler, set);
		print_wrapped(o, STYLE_BOLD, 0,
			      "No interval gives %s for the %s and for %s: even 4K leaves %s and "
			      "%s. Record every allocation (-x), or ask for less (--error).",
			      wanted, figure, rows,
			      text_error(total, sizeof(total), total_error(&e, set)),
			      text_error(median, sizeof(median), e.median));
		return;
	}
	e = expect(plan, (size_t)best, set->sampler, set);
	print_wrapped(o, STYLE_BOLD, 0,
		      "Record with -i %s: it is the coarsest interval with a standard error of at "
		      "most %s for "
		      "the %s (%s) and for %s (%s). Cost: %s of the run.",
		      text_size_option(interval, sizeof(interval), e.interval), wanted, figure,
		      text_error(total, sizeof(total), total_error(&e, set)), rows,
		      text_error(median, sizeof(median), e.median),
		      text_percent(share, sizeof(share), e.cost_ns, (double)set->run_ns));
}

static void print_explanation(const struct output *o, const struct plan *plan,
			      const struct settings *set, bool own_time)
{
	char rows[2 * FIGURE_TEXT], cost[FIGURE_TEXT], run[FIGURE_TEXT];

	putchar('\n');
	print_wrapped(
	    o, STYLE_DIM, 0,
	    "PEAK, ALLOCATED, ROW, WORST ROW: standard error of the live bytes at the peak, of all "
	    "bytes allocated, and the median and the largest one of %s by %s%s. "
	    "Computed from the sequence of allocations in this trace, not simulated; a "
	    "95 %% interval is twice as wide to each side.",
	    rows_text(rows, sizeof(rows), plan, set, ""),
	    set->query.metric == MAYFLY_PEAK ? "bytes live at the peak" : "bytes allocated",
	    plan->rows < PLAN_ROWS ? " (no other has 1 % of the first one's)" : "");
	print_wrapped(o, STYLE_DIM, 0,
		      "CPU: %s for each sample. OF RUN: of %s%s. TRACE: %zu bytes for each sample.",
		      text_duration(cost, sizeof(cost), (double)set->cost_ns),
		      text_duration(run, sizeof(run), (double)set->run_ns),
		      own_time ? ""
			       : ", which includes recording every allocation; give --time for the "
				 "program's own",
		      set->sample_bytes);
}

static int print_plan(const struct output *o, const struct opened_trace *file,
		      const struct plan *plan, const struct settings *set, bool own_time)
{
	int best = recommended(plan, set);

	print_head(o, file, plan, set);
	if (!print_plan_table(o, plan, set, best))
		return cli_error("out of memory");
	putchar('\n');
	print_sentence(o, plan, set, best);
	print_explanation(o, plan, set, own_time);
	return cli_finish();
}

/* ---- JSON ---- */

static void put_scheme(struct json *j, const char *key, const struct expectation *e,
		       const struct plan *plan)
{
	json_object(j, key);
	json_real(j, "samples", e->samples);
	json_unsigned(j, "cost_ns", (uint64_t)llround(e->cost_ns));
	json_unsigned(j, "trace_bytes", (uint64_t)llround(e->trace_bytes));
	json_real(j, "peak_error", e->peak);
	json_real(j, "allocated_error", e->allocated);
	json_real(j, "row_error_median", e->median);
	json_real(j, "row_error_worst", e->worst);
	JSON_LIST(j, "row_errors", i, i < plan->rows, json_real(j, NULL, e->row[i]));
	json_end(j);
}

static void put_levels(struct json *j, const struct plan *plan, const struct settings *set)
{
	JSON_ROWS(j, "intervals", l, l < PLAN_LEVELS) {
		struct expectation s = expect(plan, l, MAYFLY_STRATIFIED, set);
		struct expectation p = expect(plan, l, MAYFLY_POISSON, set);

		json_unsigned(j, "interval_bytes", s.interval);
		put_scheme(j, "stratified", &s, plan);
		put_scheme(j, "poisson", &p, plan);
	}
}

static void put_plan_row(struct json *j, const struct mayfly_row *row, enum mayfly_by by,
			 uint64_t bytes, const struct mayfly_trace *trace)
{
	const struct mayfly_thread *thread = mayfly_trace_thread(trace, row->thread);
	char name[4096];

	if (by == MAYFLY_BY_THREAD)
		snprintf(name, sizeof(name), "%" PRIu32, thread ? thread->tid : 0);
	else if (by == MAYFLY_BY_SIZE)
		snprintf(name, sizeof(name), "%" PRId64, row->high);
	else if (by == MAYFLY_BY_MODULE)
		snprintf(name, sizeof(name), "%s", row->module);
	else if (by == MAYFLY_BY_STACK && row->stack_length)
		place_name(name, sizeof(name), &row->stack[0]);
	else
		row_name(name, sizeof(name), row);
	json_text(j, "name", name);
	json_text_or_null(j, "file", row->file);
	json_integer(j, "line", row->line);
	json_unsigned(j, "bytes", bytes);
}

static int print_plan_json(const struct opened_trace *file, const struct plan *plan,
			   const struct settings *set)
{
	int best = recommended(plan, set);
	struct json j = json_document();

	json_text(&j, "sampler", set->sampler == MAYFLY_POISSON ? "poisson" : "stratified");
	json_real(&j, "wanted_error", set->error);
	json_unsigned_or_null(&j, "recommended_interval_bytes", best >= 0,
			      1ull << (PLAN_FIRST_LOG2 + (best < 0 ? 0u : (unsigned int)best)));
	json_text(&j, "by", plan_keys[set->query.by]);
	json_text(&j, "metric", set->query.metric == MAYFLY_PEAK ? "peak" : "allocated");
	json_integer(&j, "cost_ns", set->cost_ns);
	json_integer(&j, "run_ns", set->run_ns);
	json_unsigned(&j, "sample_bytes", set->sample_bytes);
	json_unsigned(&j, "blocks", plan->blocks);
	json_unsigned(&j, "allocated_bytes", plan->allocated_bytes);
	json_unsigned(&j, "peak_bytes", plan->peak_bytes);
	json_unsigned(&j, "peak_blocks", plan->peak_blocks);
	json_integer(&j, "peak_time_ns", plan->peak_ns);
	JSON_ROWS(&j, "rows", r, r < plan->rows)
		put_plan_row(&j, &plan->result->row[r], set->query.by, plan->row_bytes[r],
			     file->trace);
	put_levels(&j, plan, set);
	return json_print(&j);
}

/* ---- the command ---- */

static int not_exact(const char *path, const struct mayfly_info *info)
{
	if (trace_has_no_blocks(info))
		return cli_error("%s: has no allocations, which plan is about; its events: 'mayfly "
				 "report --events'",
				 path);
	if (info->snapshot_ns)
		return cli_error("%s: has counters and no single allocations; plan needs all of "
				 "them: record again with 'mayfly record -x'",
				 path);
	if (info->thinned)
		return cli_error("%s: allocations were dropped to keep it small; plan needs all of "
				 "them: record again with 'mayfly record -x'",
				 path);
	return cli_error("%s: is sampled; plan needs every allocation: record again with 'mayfly "
			 "record -x'",
			 path);
}

static int plan_trace(const struct opened_trace *file, const char *path, struct settings *set,
		      const struct output *o)
{
	struct hidden_frames hidden = {.frames = set->frames};
	struct own_code own = {.all_interpreted = set->frames == FRAMES_PYTHON};
	bool own_time = set->run_ns > 0;
	struct plan *plan;
	int status;

	if (file->info->mode != MAYFLY_EXACT || file->info->thinned || file->info->snapshot_ns ||
	    trace_has_no_blocks(file->info))
		return not_exact(path, file->info);
	set->query.hide = hidden_frames_match(&hidden);
	if (set->frames == FRAMES_OWN || set->frames == FRAMES_PYTHON)
		set->query.fold = own_code_fold(&own);
	if (!own_time)
		set->run_ns = file->info->duration_ns;
	status = plan_make(file->trace, &set->query, &plan);
	if (status)
		return cli_error("%s: %s", path, mayfly_error_text(status));
	if (plan->blocks == 0)
		status = cli_error("%s: holds no allocation", path);
	else if (set->json)
		status = print_plan_json(file, plan, set);
	else
		status = print_plan(o, file, plan, set, own_time);
	plan_free(plan);
	return status;
}

static bool take_error(const struct given *given, void *to)
{
	char *end;
	double percent = strtod(given->value, &end);

	if (*end == '%')
		end++;
	if (end == given->value || *end || !(percent > 0 && percent <= 1000))
		return cli_refuse("%s: '%s' is not a percentage above 0, such as 5", given->option,
				  given->value);
	*(double *)to = percent / 100;
	return true;
}

/* A plain number is nanoseconds here, not seconds as elsewhere. */
static bool take_cost(const struct given *given, void *to)
{
	struct given cost = *given;
	char with_unit[64];

	if (*cost.value && strspn(cost.value, "0123456789.") == strlen(cost.value) &&
	    strlen(cost.value) < 32) {
		snprintf(with_unit, sizeof(with_unit), "%sns", cost.value);
		cost.value = with_unit;
	}
	return option_take_time(&cost, to);
}

static const char *const samplers[] = {"stratified", "poisson", NULL};
static const char *const metrics[] = {"peak", "allocated", NULL};

static const struct option_row plan_rows[] = {
    {"error", .argument = "PERCENT", OPTION_IN(take_error, double, struct settings, error),
     .help = "the standard error wanted for the peak and for half of the top rows (default 10)"},
    {"sampler", .argument = "stratified|poisson", OPTION_CHOICE(samplers, struct settings, sampler),
     .help = "the sampler to plan for (default stratified)"},
    {"by", .argument = "KEY", OPTION_CHOICE(plan_keys, struct settings, query.by),
     .help = "the rows: function (default), line, stack, module, thread or size"},
    {"sort", .argument = "self|total", OPTION_CHOICE(sort_names, struct settings, query.sort),
     .help = "what a key allocates itself (default), or including all that it calls"},
    {"metric", .argument = "peak|allocated", OPTION_CHOICE(metrics, struct settings, metric),
     .help = "what the rows are ranked by (default peak)"},
    OPTION_FRAMES(struct settings, frames, FRAMES_USUAL_HELP),
    {"cost", .argument = "TIME", OPTION_IN(take_cost, int64_t, struct settings, cost_ns),
     .help = "CPU time of one sample and its free (default 2us)"},
    {"sample-bytes", .argument = "N", OPTION_COUNT(struct settings, sample_bytes),
     .help = "bytes of trace for one sample and its free (default 10)"},
    {"time", .argument = "TIME", .least = 1, OPTION_TIME(struct settings, run_ns),
     .help = "how long the program runs without mayfly (default: as in the trace)"},
    OPTION_JSON(struct settings, json),
    OPTION_END,
};

const struct option_table plan_option_table = {
    .usage = "plan [OPTIONS] FILE",
    .about =
	"From an exact trace (mayfly record -x): how many samples each sampling interval would\n"
	"give, what they would cost, and how far off the figures would be. Marks the largest\n"
	"interval whose error is small enough.\n",
    .rows = plan_rows,
};

int cmd_plan(int argc, char **argv)
{
	struct settings set = {.error = DEFAULT_ERROR / 100,
			       .sampler = MAYFLY_STRATIFIED,
			       .cost_ns = DEFAULT_COST_NS,
			       .sample_bytes = DEFAULT_SAMPLE_BYTES};
	struct output out = {0};
	struct opened_trace file;
	int status;

	mayfly_query_defaults(&set.query);
	status = options_take(&plan_option_table, &set, argc, argv);
	if (status != OPTIONS_TAKEN)
		return status;
	output_detect(&out);
	set.query.metric = set.metric ? MAYFLY_ALLOCATED : MAYFLY_PEAK;
	if (!one_named(argc, argv, "trace"))
		return CLI_USAGE;
	if (!open_trace(argv[optind], &file))
		return CLI_FAILED;
	status = plan_trace(&file, argv[optind], &set, &out);
	close_trace(&file);
	return status;
}
