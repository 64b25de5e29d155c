/* SPDX-License-Identifier: Apache-2.0 */
/* report_rows.c: one answer: its title, and a table or a list of stacks. */
#include "cli/report/report.h"

#include "query/grouping.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "answer/by_label.h"
#include "answer/caveats.h"
#include "answer/pass_through.h"
#include "answer/trace_facts.h"
#include "answer/text_format.h"
#include "cli/trace_fields.h"

/* A time in a trace of snapshots, rounded as queries round it (query.h). */
static int64_t rounded_time(const struct report *r, int64_t ns)
{
	int64_t step = r->file.info->snapshot_ns, end = r->file.info->duration_ns;
	int64_t rest;

	if (step <= 0 || ns <= 0 || ns >= end)
		return ns;
	rest = step - 1 - (ns - 1) % step;
	return rest < end - ns ? ns + rest : end;
}

void report_metric_text(char *buffer, size_t size, const struct report *r, int64_t time_ns)
{
	const struct mayfly_query *q = &r->q.query;
	char time[FIGURE_TEXT], from[FIGURE_TEXT];

	if (r->file.info->absent & MAYFLY_ABSENT_TIMES && q->metric == MAYFLY_LIVE) {
		snprintf(buffer, size, "Live"); /* the file's one moment */
		return;
	}
	if (r->file.info->absent & MAYFLY_ABSENT_TIMES && q->metric == MAYFLY_SURVIVED) {
		snprintf(buffer, size, "Still live at the end");
		return;
	}
	text_duration(time, sizeof(time), (double)time_ns);
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
	case MAYFLY_SURVIVED:
		snprintf(buffer, size, "Still live at %s", time);
		break;
	case MAYFLY_IN_PICTURE:
		snprintf(buffer, size, "%s when the heap's picture was taken (%s)",
			 q->holding == MAYFLY_ONLY_LOST	  ? "Lost"
			 : q->holding == MAYFLY_ONLY_HELD ? "Held"
							  : "Live",
			 time);
		break;
	}
	if (r->q.window_given) {
		text_duration(from, sizeof(from), (double)rounded_time(r, q->from_ns));
		if (q->to_ns < r->file.info->duration_ns)
			text_duration(time, sizeof(time), (double)rounded_time(r, q->to_ns));
		else
			snprintf(time, sizeof(time), "the end");
		text_append(buffer, size, ", allocated from %s to %s", from, time);
	}
}

/* When the times in the question lie between two snapshots. */
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

/* 'mayfly leaks' says it once for both of its tables. */
static void print_late_picture(const struct report *r)
{
	char text[CAVEAT_BYTES];

	if (r->q.query.metric == MAYFLY_IN_PICTURE && r->q.query.holding == MAYFLY_LOST_OR_HELD &&
	    *caveat_text(text, sizeof(text), r->file.trace, CAVEAT_PICTURE))
		print_wrapped(&r->out, STYLE_DIM, 2, "%s", text);
}

static bool by_frames(enum mayfly_by by)
{
	return by == MAYFLY_BY_FUNCTION || by == MAYFLY_BY_LINE || by == MAYFLY_BY_STACK;
}

void report_print_folded(const struct report *r)
{
	const struct own_code *own = &r->q.own;

	if (own->folded && by_frames(r->q.query.by) && !r->folding_said)
		print_wrapped(&r->out, STYLE_DIM, 2,
			      "frames of %s are folded into their callers; --frames all shows them",
			      own->all_interpreted && own->interpreted
				  ? "C"
				  : "the standard library and runtime");
}

static void print_answer_title(const struct report *r, const struct mayfly_result *result)
{
	const struct mayfly_estimate *e = &result->total;
	bool exact = r->exact;
	uint64_t count = e->samples;
	char metric[256], figure[128], samples[64] = "";

	report_metric_text(metric, sizeof(metric), r, result->time_ns);
	if (figure_confidence(&e->bytes, e->samples) != FIGURE_FEW &&
	    !(r->file.info->absent & MAYFLY_ABSENT_BLOCKS))
		snprintf(samples, sizeof(samples), ", %" PRIu64 " %s%s", count,
			 exact ? "block" : "sample", count == 1 ? "" : "s");
	print_wrapped(&r->out, STYLE_BOLD, 0, "%s by %s: %s%s%s", metric, report_by_text(r),
		      text_estimate(figure, sizeof(figure), r->out.utf8, e), samples,
		      r->q.filtered ? ", filtered" : "");
	print_rounding(r);
	print_late_picture(r);
	report_print_folded(r);
}

static void print_unshown(const struct report *r, const struct ranking *ranking)
{
	bool sums = r->q.query.sort == MAYFLY_SORT_SELF; /* totals overlap: no sum */
	char text[128];

	if (ranking->more.rows) {
		struct mayfly_figure f = sum_figure(&ranking->more);
		struct mayfly_estimate e = {.bytes = f, .samples = ranking->more.samples};

		print_wrapped(&r->out, STYLE_DIM, 2, "  %zu more%s%s (--top 0 shows all)",
			      ranking->more.rows, sums ? ": " : "",
			      sums ? text_estimate(text, sizeof(text), r->out.utf8, &e) : "");
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
			      sums ? text_estimate(text, sizeof(text), r->out.utf8, &e) : "");
	}
}

/* ---- tables ---- */

static void freeing_thread_name(char *buffer, size_t size, const struct report *r,
				const struct mayfly_row *row)
{
	if (row->free_thread == UINT32_MAX)
		snprintf(buffer, size, "never freed");
	else
		thread_name(buffer, size, r->file.trace, row->free_thread);
}

/* The last part of its path, or all of it where that is the name of another module, too. */
static const char *shown_module(const struct report *r, const char *module)
{
	const char *base = path_base(module);

	for (size_t i = 0; !r->out.wide && i < r->file.info->modules; i++) {
		const char *other = mayfly_trace_module(r->file.trace, i)->path;

		if (strcmp(path_base(other), base) == 0 && strcmp(other, module) != 0)
			return module;
	}
	return r->out.wide ? module : base;
}

/* The grouping's own columns come last. */
void report_row_key(char *buffer, size_t size, const struct report *r, const struct mayfly_row *row)
{
	char low[FIGURE_TEXT], high[FIGURE_TEXT];
	size_t used;

	switch (r->q.query.by) {
	case MAYFLY_BY_MODULE:
		snprintf(buffer, size, "%s",
			 *row->module ? shown_module(r, row->module) : "[no module]");
		break;
	case MAYFLY_BY_THREAD:
		thread_name(buffer, size, r->file.trace, row->thread);
		break;
	case MAYFLY_BY_TYPE:
		if (*row->function) {
			snprintf(buffer, size, "%s", row->function);
			break;
		}
		/* fall through */
	case MAYFLY_BY_SIZE:
		if (row->high <= 1)
			snprintf(buffer, size, "up to 1 B");
		else
			snprintf(buffer, size, "%s to %s",
				 text_bytes(low, sizeof(low), (double)row->low),
				 text_bytes(high, sizeof(high), (double)row->high));
		break;
	case MAYFLY_BY_HOLDER:
		snprintf(buffer, size, "%s%s%s",
			 *row->function ? row->function : "[not in malloc's heap]",
			 *row->file ? ", " : "", row->file);
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
	case MAYFLY_BY_FREEING_THREAD:
		freeing_thread_name(buffer, size, r, row);
		break;
	case MAYFLY_BY_THREADS:
		thread_name(buffer, size, r->file.trace, row->thread);
		text_append(buffer, size, "%s", r->out.utf8 ? " → " : " -> ");
		used = strlen(buffer);
		freeing_thread_name(buffer + used, size - used, r, row);
		break;
	case MAYFLY_BY_HEAP:
		snprintf(buffer, size, "%s", heap_name((uint32_t)row->low));
		break;
	case MAYFLY_BY_LABEL:
		snprintf(buffer, size, "%s", *row->function ? row->function : "[no label]");
		break;
	case MAYFLY_BY_FUNCTION:
	case MAYFLY_BY_LINE:
	case MAYFLY_BY_STACK:
		row_name(buffer, size, row);
		break;
	}
}

void report_full_key(char *buffer, size_t size, const struct report *r,
		     const struct mayfly_row *row, bool others)
{
	char location[NAME_BYTES];

	if (others) {
		snprintf(buffer, size, "[all others]");
		return;
	}
	report_row_key(buffer, size, r, row);
	if (r->q.query.by != MAYFLY_BY_LINE || !row->line)
		return;
	location_text(location, sizeof(location), row->file, row->line, "-", r->out.wide);
	text_append(buffer, size, " %s", location);
}

void report_put_key(struct table *t, const struct report *r, const struct mayfly_row *row,
		    bool others)
{
	char text[NAME_BYTES];

	report_full_key(text, sizeof(text), r, row, others);
	table_cell(COLUMN(t, report_key_title(r)), text);
}

const char *report_by_text(const struct report *r)
{
	if (r->q.query.by == MAYFLY_BY_LABEL && r->q.query.label_key)
		return r->q.query.label_key;
	return grouping_of(r->q.query.by).title;
}

const char *report_key_title(const struct report *r)
{
	static const char *const titles[] = {"FUNCTION",
					     "FUNCTION",
					     "",
					     "MODULE",
					     "THREAD",
					     "SIZE",
					     "LIFETIME",
					     "HEAP",
					     "FREED BY",
					     "LABEL",
					     "ALLOCATED BY, FREED BY",
					     "HELD BY",
					     "TYPE OR SIZE"};

	return titles[r->q.query.by];
}

void report_put_estimate(struct table *t, const struct column *first, int drop,
			 const struct mayfly_estimate *e, const struct mayfly_estimate *whole)
{
	table_figure(table_column(t, first), first->drop, &e->bytes, e->samples);
	COLUMN(t, "%", true, drop);
	if (figure_confidence(&e->bytes, e->samples) >= FIGURE_RANGE)
		table_percent(t, e->bytes.estimate, whole->bytes.estimate);
	else
		table_cell(t, "");
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

void report_put_location(struct table *t, const struct report *r, const struct mayfly_row *row,
			 size_t columns)
{
	char text[NAME_BYTES], fitted[NAME_BYTES];

	/* Without a function, the name is the module already. */
	location_text(text, sizeof(text), row->file, row->line, *row->function ? row->module : "-",
		      r->out.wide);
	table_cell(COLUMN(t, "LINE"),
		   place_fit(fitted, sizeof(fitted), &r->out, text,
			     columns < LOCATION_COLUMNS ? columns : LOCATION_COLUMNS));
}

/* Their number, and its error when it is not exact. */
static void put_blocks(struct table *t, const struct report *r, const struct mayfly_estimate *e)
{
	bool absent = r->file.info->absent & MAYFLY_ABSENT_BLOCKS;
	char text[FIGURE_TEXT];

	table_cell(COLUMN(t, "BLOCKS", true, r->exact ? 3 : 7),
		   absent ? "-" : text_count_value(text, sizeof(text), &e->blocks, e->samples));
	text_figure_error(text, sizeof(text), r->out.utf8, &e->blocks, e->samples);
	if (!r->exact)
		table_cell(COLUMN(t, "", false, 7, STYLE_DIM, true), absent ? "" : text);
}

static void put_row_cells(struct table *t, const struct report *r, const struct mayfly_row *row,
			  const struct mayfly_result *result)
{
	const struct mayfly_estimate *first = sorted_by(&r->q.query, row);
	const struct mayfly_estimate *second = first == &row->self ? &row->total : &row->self;
	bool few = row_confidence(&r->q.query, row) < FIGURE_RANGE;
	bool total_first = r->q.query.sort == MAYFLY_SORT_TOTAL;
	const char *title = total_first ? "TOTAL" : "SELF";
	char text[NAME_BYTES];

	text_bar(text, sizeof(text), &r->out, few ? 0 : first->bytes.estimate,
		 result->total.bytes.estimate, BAR_COLUMNS);
	report_put_estimate(t, &(struct column){has_total(r) || r->callers ? title : "BYTES", true},
			    1, first, &result->total);
	table_cell(COLUMN(t, "", false, 5, STYLE_BAR), text);
	if (has_total(r))
		report_put_estimate(t, &(struct column){total_first ? "SELF" : "TOTAL", true, 2}, 6,
				    second, &result->total);
	put_blocks(t, r, first);
	if (!r->exact)
		table_format(COLUMN(t, "SAMPLES", true, 3, STYLE_DIM), "%" PRIu64, first->samples);
	if (r->q.query.by == MAYFLY_BY_LINE)
		report_put_location(t, r, row, (size_t)r->out.width / 3);
	report_row_key(text, sizeof(text), r, row);
	table_cell(COLUMN(t, report_key_title(r)), text);
}

struct ranked_table {
	const struct report *r;
	const struct mayfly_result *result;
	const struct ranking *ranking;
};

static void put_ranked_row(struct table *t, const void *context, size_t row)
{
	const struct ranked_table *c = context;

	put_row_cells(t, c->r, c->ranking->row[row], c->result);
}

bool report_print_table(const struct report *r, const struct mayfly_result *result,
			const struct ranking *ranking)
{
	return table_print_rows(&r->out, ranking->rows, put_ranked_row,
				&(struct ranked_table){r, result, ranking});
}

/* ---- stacks ---- */

/* "  1. 12.3 MiB +-18 %, 7.1 %, 2.1 k blocks, 24 samples" */
static void print_stack_title(const struct report *r, size_t number,
			      const struct mayfly_estimate *e, const struct mayfly_estimate *whole)
{
	char figure[128], percent[FIGURE_TEXT], blocks[FIGURE_TEXT], samples[64] = "", line[400];
	uint64_t count = e->samples;

	text_estimate(figure, sizeof(figure), r->out.utf8, e);
	text_percent(percent, sizeof(percent), e->bytes.estimate, whole->bytes.estimate);
	text_count_value(blocks, sizeof(blocks), &e->blocks, count);
	if (!r->exact)
		snprintf(samples, sizeof(samples), ", %" PRIu64 " %s", count, samples_word(count));
	if (figure_confidence(&e->bytes, e->samples) < FIGURE_RANGE)
		snprintf(line, sizeof(line), "%3zu. %s", number, figure);
	else if (r->file.info->absent & MAYFLY_ABSENT_BLOCKS)
		snprintf(line, sizeof(line), "%3zu. %s, %s", number, figure, percent);
	else
		snprintf(line, sizeof(line), "%3zu. %s, %s, %s block%s%s", number, figure, percent,
			 blocks, strcmp(blocks, "1") == 0 ? "" : "s", samples);
	print_styled(&r->out, STYLE_BOLD, line);
	putchar('\n');
}

static void print_answer_stacks(const struct report *r, const struct mayfly_result *result,
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

/* Their numbers stand in the table above. */
static void print_numbered_stacks(const struct report *r, const struct mayfly_row *row, size_t rows)
{
	char title[32];

	for (size_t i = 0; i < rows; i++) {
		putchar('\n');
		snprintf(title, sizeof(title), "%3zu.", i + 1);
		print_styled(&r->out, STYLE_BOLD, title);
		putchar('\n');
		print_stack(&r->out, row[i].stack, row[i].stack_length, r->depth);
	}
}

/* ---- rows with other columns ---- */

struct keyed_table {
	const struct report *r;
	const struct keyed_rows *rows;
};

/* Totals overlap, so the others have no sum that a reader could check. */
static bool keyed_row_is_shown(const struct report *r, const struct keyed_rows *rows, size_t row)
{
	if (row + 1 == rows->rows && r->q.query.sort == MAYFLY_SORT_TOTAL)
		return false;
	if (rows->has)
		return rows->has(rows->answer, row);
	return sorted_by(&r->q.query, &rows->row[row])->bytes.estimate > 0;
}

static void put_keyed_row(struct table *t, const void *context, size_t row)
{
	const struct keyed_table *k = context;
	bool others = row + 1 == k->rows->rows;

	if (!keyed_row_is_shown(k->r, k->rows, row))
		return;
	k->rows->put(t, k->r, k->rows->answer, row);
	if (k->r->q.query.by == MAYFLY_BY_STACK)
		COLUMN(t, "STACK");
	if (k->r->q.query.by == MAYFLY_BY_STACK && !others)
		table_format(t, "%zu.", row + 1);
	else
		report_put_key(t, k->r, &k->rows->row[row], others);
}

bool report_print_rows(const struct report *r, const struct keyed_rows *rows)
{
	bool stacks = r->q.query.by == MAYFLY_BY_STACK;

	if (!table_print_rows(&r->out, rows->rows, put_keyed_row, &(struct keyed_table){r, rows}))
		return false;
	if (stacks)
		print_numbered_stacks(r, rows->row, rows->rows - 1);
	return true;
}

/* ---- rows that hold everything through one another ---- */

static bool collapses(const struct report *r)
{
	return r->q.query.sort == MAYFLY_SORT_TOTAL && !r->all &&
	       (r->q.query.by == MAYFLY_BY_FUNCTION || r->q.query.by == MAYFLY_BY_LINE);
}

#define NAMED_PASS_THROUGH 3

/* "3 more pass nearly all of it on: main, run, start (--all shows them)" */
static void print_pass_through(const struct report *r, const struct mayfly_result *result,
			       const bool *pass_through, size_t count)
{
	char names[512] = "", key[NAME_BYTES], fitted[128];
	size_t named = 0;

	for (size_t i = 0; i < result->rows && named < NAMED_PASS_THROUGH; i++) {
		if (!pass_through[i])
			continue;
		report_row_key(key, sizeof(key), r, &result->row[i]);
		text_append(names, sizeof(names), "%s%s", named++ ? ", " : "",
			    name_fit(fitted, sizeof(fitted), &r->out, key, 40));
	}
	print_wrapped(&r->out, STYLE_DIM, 2,
		      "  %zu more %s nearly all of it on: %s%s (--all shows %s)", count,
		      count == 1 ? "passes" : "pass", names, named < count ? ", ..." : "",
		      count == 1 ? "it" : "them");
}

bool report_show_answer(const struct report *r, const struct mayfly_result *result, size_t top,
			size_t depth)
{
	struct rank_options options = report_rank_options(r, top);
	struct ranking ranking;
	bool printed = true, *pass_through = NULL;
	int error = 0;

	if (collapses(r))
		pass_through = find_pass_through(r->file.trace, &r->q.query, result, &error);
	if (error)
		return false;
	options.skip = pass_through;
	if (!rank_rows(&r->q.query, result, options, &ranking)) {
		free(pass_through);
		return false;
	}
	print_answer_title(r, result);
	if (!(result->total.bytes.estimate > 0)) {
		report_print_none(r);
	} else {
		if (r->q.query.by == MAYFLY_BY_STACK)
			print_answer_stacks(r, result, &ranking, depth);
		else
			printed = report_print_table(r, result, &ranking);
		print_unshown(r, &ranking);
		if (ranking.skipped)
			print_pass_through(r, result, pass_through, ranking.skipped);
	}
	free(pass_through);
	free(ranking.row);
	return printed;
}

size_t report_stacks_needed(const struct report *r, size_t rows)
{
	return r->exact && !r->all ? rows : 0;
}

size_t report_rows_wanted(struct report *r)
{
	r->q.query.stack_rows = report_stacks_needed(r, r->top);
	return r->top ? r->top : SIZE_MAX;
}

/* Whether the rows hold malloc's blocks as well as blocks that lie in them. */
static bool shows_twice(const struct report *r)
{
	const uint32_t malloc_heap = 1u << MAYFLY_HEAP_MALLOC;
	const struct mayfly_query *q = &r->q.query;

	return (trace_overlaps(r->file.info) || trace_has_pools(r->file.info)) &&
	       (q->heaps ? q->heaps & malloc_heap && q->heaps != malloc_heap
			 : q->by == MAYFLY_BY_HEAP);
}

/* Whether the question is about labels of pool blocks, which are left out. */
static bool hides_pools(const struct report *r)
{
	const struct mayfly_query *q = &r->q.query;

	if (!trace_has_pools(r->file.info) || q->heaps)
		return false;
	return q->label.matches ||
	       (q->by == MAYFLY_BY_LABEL && (!q->label_key || strcmp(q->label_key, "pool") == 0));
}

/* No row has the label: the key may be wrong. */
static void print_label_hint(const struct report *r)
{
	const struct mayfly_trace *trace = r->file.trace;
	const char *key = r->q.query.label_key;

	if (r->q.query.by != MAYFLY_BY_LABEL || trace_has_label(trace, key))
		return;
	putchar('\n');
	if (trace_has_label(trace, NULL))
		print_wrapped(&r->out, STYLE_PLAIN, 0,
			      "No label has the key '%s'; 'mayfly info' lists the keys.", key);
	else
		print_wrapped(&r->out, STYLE_PLAIN, 0,
			      "This trace has no labels; programs set labels with mayfly.h.");
}

int report_print_answer(struct report *r)
{
	struct mayfly_result *result;
	bool printed;
	int error;

	r->q.query.stack_rows = report_stacks_needed(r, r->top);
	error = mayfly_query_run(r->file.trace, &r->q.query, &result);
	if (error)
		return report_failed(r, error);
	printed = report_show_answer(r, result, r->top, r->depth);
	mayfly_result_free(result);
	print_label_hint(r);
	if (shows_twice(r) || hides_pools(r)) {
		putchar('\n');
		print_overlap(&r->out, r->file.trace, shows_twice(r));
	}
	return printed ? CLI_OK : cli_error("out of memory");
}

void report_print_legend(const struct report *r)
{
	if (r->exact)
		return;
	putchar('\n');
	print_wrapped(&r->out, STYLE_DIM, 0, "%s and a..b: 95 %% interval; <=: its upper end.",
		      r->out.utf8 ? "±" : "+-");
}
