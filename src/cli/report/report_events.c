/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report_events.c: what happened beside the blocks.
 *
 *	--spans		types of spans, with what their threads allocated meanwhile
 *	--events	spans, pauses of OCaml's collector, instants, counters, CPU time by thread:
 *			a table each
 */
#include "cli/report/report.h"

#include "cli/track_text.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const span_sorts[] = {"self", "total", "count", "allocated", "live", NULL};
enum span_sort { SORT_SELF, SORT_TOTAL, SORT_COUNT, SORT_ALLOCATED, SORT_LIVE };

/* All that is shown. */
struct view {
	const struct report *r;
	struct mayfly_spans *spans;
	struct mayfly_track_sums *sums;	    /* NULL: --spans */
	const struct mayfly_span_row **row; /* in the order in which they are shown */
	bool blocks;			    /* what spans allocate is shown */
	bool categories;		    /* the types of the table at hand have some */
};

static const struct mayfly_track_type *type_of(const struct view *v, uint32_t index)
{
	return mayfly_trace_track_type(v->r->file.trace, index);
}

/* ---- order ---- */

bool report_set_span_sort(struct report *r, const char *value)
{
	int choice;

	if (!option_choice("--sort", value, span_sorts, &choice))
		return false;
	r->span_sort = choice;
	return true;
}

bool report_sorts_blocks(const struct report *r)
{
	return r->span_sort == SORT_ALLOCATED || r->span_sort == SORT_LIVE;
}

static double sort_value(const struct mayfly_span_row *row, int sort)
{
	switch (sort) {
	case SORT_SELF:
		return (double)row->self_ns;
	case SORT_COUNT:
		return (double)row->count;
	case SORT_ALLOCATED:
		return row->allocated.bytes.estimate;
	case SORT_LIVE:
		return row->live.bytes.estimate;
	}
	return (double)row->total_ns;
}

static int compare_rows(const void *a, const void *b, void *sort)
{
	const struct mayfly_span_row *x = *(const struct mayfly_span_row *const *)a;
	const struct mayfly_span_row *y = *(const struct mayfly_span_row *const *)b;
	double first = sort_value(x, *(const int *)sort),
	       second = sort_value(y, *(const int *)sort);

	if (first != second)
		return first > second ? -1 : 1;
	return x < y ? -1 : x > y; /* as the library has them */
}

static bool sort_rows(struct view *v)
{
	int sort = v->r->q.sort_given ? v->r->span_sort : SORT_TOTAL;

	v->row = calloc(v->spans->rows + 1, sizeof(const struct mayfly_span_row *));
	if (!v->row)
		return false;
	for (size_t i = 0; i < v->spans->rows; i++)
		v->row[i] = &v->spans->row[i];
	qsort_r(v->row, v->spans->rows, sizeof(const struct mayfly_span_row *), compare_rows,
		&sort);
	return true;
}

/* ---- text: what all tables share ---- */

static size_t shown(const struct view *v, size_t rows)
{
	return v->r->top && v->r->top < rows ? v->r->top : rows;
}

static void print_more(const struct view *v, size_t rows)
{
	if (shown(v, rows) < rows)
		print_wrapped(&v->r->out, STYLE_DIM, 2, "  %zu more (--top 0 shows all)",
			      rows - shown(v, rows));
}

static bool put_duration(struct table *t, double ns)
{
	char text[FIGURE_TEXT];

	return table_cell(t, text_duration(text, sizeof(text), ns));
}

/* Of spans that ended. */
static bool put_of_ended(struct table *t, const struct mayfly_span_row *row, double ns)
{
	return row->count ? put_duration(t, ns) : table_cell(t, "-");
}

/* Numbers as they are, while they are short. */
static bool put_count(struct table *t, uint64_t count)
{
	char text[FIGURE_TEXT];

	if (count < 100000)
		snprintf(text, sizeof(text), "%" PRIu64, count);
	else
		text_count(text, sizeof(text), (double)count);
	return table_cell(t, text);
}

/* The last two cells of a row. */
static bool put_type(struct table *t, const struct view *v, uint32_t index)
{
	const struct mayfly_track_type *type = type_of(v, index);
	char name[NAME_BYTES], category[NAME_BYTES];

	text_clean(category, sizeof(category), type->category);
	if (v->categories && !table_cell(t, category))
		return false;
	return table_cell(t, track_type_name(name, sizeof(name), type));
}

#define MOST_COLUMNS 16

/* And their columns; a table has at most MOST_COLUMNS. */
static size_t add_type_columns(const struct view *v, struct column *c, size_t n, const char *title)
{
	if (v->categories)
		c[n++] = (struct column){"CATEGORY", false, 3, STYLE_DIM, false};
	c[n++] = (struct column){title, false, 0, STYLE_PLAIN, false};
	return n;
}

/* The rows of a table are handed over one after the other. */
static bool print_rows(const struct view *v, const struct column *columns, size_t count,
		       size_t rows, bool (*put)(struct table *, const struct view *, size_t row))
{
	struct table *t = table_new(columns, count);
	bool done = t != NULL;

	for (size_t i = 0; done && i < rows; i++)
		done = put(t, v, i);
	if (done)
		table_print(t, &v->r->out, 0);
	table_free(t);
	return done;
}

static void print_section(const struct view *v, const char *title)
{
	putchar('\n');
	print_wrapped(&v->r->out, STYLE_BOLD, 0, "%s", title);
}

static char *window_text(char *buffer, size_t size, const struct report *r)
{
	const struct mayfly_query *q = &r->q.query;
	char from[FIGURE_TEXT], to[FIGURE_TEXT] = "the end";

	*buffer = 0;
	if (!r->q.window_given)
		return buffer;
	text_duration(from, sizeof(from), (double)q->from_ns);
	if (q->to_ns < r->file.info->duration_ns)
		text_duration(to, sizeof(to), (double)q->to_ns);
	snprintf(buffer, size, ", from %s to %s", from, to);
	return buffer;
}

/* ---- text: spans ---- */

static bool put_figure(struct table *t, const struct view *v, const struct mayfly_estimate *e)
{
	char value[FIGURE_TEXT], error[FIGURE_TEXT];

	text_figure_value(value, sizeof(value), &e->bytes, e->samples);
	text_figure_error(error, sizeof(error), &v->r->out, &e->bytes, e->samples);
	return table_cell(t, value) && table_cell(t, error);
}

static bool put_span(struct table *t, const struct view *v, size_t i)
{
	const struct mayfly_span_row *row = v->row[i];

	if (!put_count(t, row->count) || !put_of_ended(t, row, (double)row->total_ns) ||
	    !put_of_ended(t, row, (double)row->self_ns))
		return false;
	if (!v->blocks && !put_of_ended(t, row, (double)row->total_ns / (double)row->count))
		return false;
	if (!put_of_ended(t, row, (double)row->p50_ns) ||
	    (!v->blocks && !put_of_ended(t, row, (double)row->p90_ns)) ||
	    !put_of_ended(t, row, (double)row->p99_ns) ||
	    !put_of_ended(t, row, (double)row->max_ns))
		return false;
	if (v->blocks && (!put_figure(t, v, &row->allocated) || !put_figure(t, v, &row->live)))
		return false;
	return put_type(t, v, row->type);
}

static size_t span_columns(const struct view *v, struct column *c)
{
	size_t n = 0;

	c[n++] = (struct column){"COUNT", true, 0, STYLE_PLAIN, false};
	c[n++] = (struct column){"TOTAL", true, 0, STYLE_PLAIN, false};
	c[n++] = (struct column){"SELF", true, 4, STYLE_PLAIN, false};
	if (!v->blocks)
		c[n++] = (struct column){"MEAN", true, 2, STYLE_PLAIN, false};
	c[n++] = (struct column){"P50", true, v->blocks ? 5 : 0, STYLE_PLAIN, false};
	if (!v->blocks)
		c[n++] = (struct column){"P90", true, 5, STYLE_PLAIN, false};
	c[n++] = (struct column){"P99", true, v->blocks ? 2 : 0, STYLE_PLAIN, false};
	c[n++] = (struct column){"MAX", true, 1, STYLE_PLAIN, false};
	if (v->blocks) {
		c[n++] = (struct column){"ALLOCATED", true, 0, STYLE_PLAIN, false};
		c[n++] = (struct column){"", false, 0, STYLE_DIM, true};
		c[n++] = (struct column){"LIVE", true, 0, STYLE_PLAIN, false};
		c[n++] = (struct column){"", false, 0, STYLE_DIM, true};
	}
	return add_type_columns(v, c, n, "SPAN");
}

static uint64_t open_spans(const struct mayfly_spans *spans)
{
	uint64_t open = 0;

	for (size_t i = 0; i < spans->rows; i++)
		open += spans->row[i].open;
	return open;
}

/* Ended, open and ignored. */
static uint64_t all_spans(const struct mayfly_spans *spans)
{
	uint64_t count = spans->ignored + open_spans(spans);

	for (size_t i = 0; i < spans->rows; i++)
		count += spans->row[i].count;
	return count;
}

/* What the figures leave out. */
static void print_left_out(const struct view *v)
{
	const struct mayfly_spans *s = v->spans;
	uint64_t open = open_spans(s), lost = v->sums ? 0 : v->r->file.info->dropped_events;

	if (lost)
		print_wrapped(&v->r->out, STYLE_DIM, 2,
			      "  %" PRIu64
			      " %s could not be recorded: some spans may lack their begin "
			      "or end",
			      lost, lost == 1 ? "event" : "events");
	if (open)
		print_wrapped(&v->r->out, STYLE_DIM, 2,
			      "  %" PRIu64 " %s not ended: not in COUNT and the times", open,
			      open == 1 ? "span had" : "spans had");
	if (s->unmatched)
		print_wrapped(&v->r->out, STYLE_DIM, 2,
			      "  %" PRIu64 " %s of spans whose begin is not recorded", s->unmatched,
			      s->unmatched == 1 ? "end" : "ends");
	if (s->ignored)
		print_wrapped(&v->r->out, STYLE_DIM, 2,
			      "  %" PRIu64 " %s left out: too many were open on their thread",
			      s->ignored, s->ignored == 1 ? "span is" : "spans are");
}

static bool print_span_table(struct view *v)
{
	struct column columns[MOST_COLUMNS];
	size_t rows = v->spans->rows;

	v->categories = false;
	for (size_t i = 0; i < rows; i++)
		v->categories |= *type_of(v, v->spans->row[i].type)->category != 0;
	if (rows && !print_rows(v, columns, span_columns(v, columns), shown(v, rows), put_span))
		return false;
	print_more(v, rows);
	print_left_out(v);
	return true;
}

static const char *sort_text(const struct report *r)
{
	static const char *const texts[] = {"self time", "total time", "count",
					    "what they allocate", "what is live of them"};

	return texts[r->q.sort_given ? r->span_sort : SORT_TOTAL];
}

static void print_spans_legend(const struct view *v)
{
	putchar('\n');
	if (v->blocks)
		print_wrapped(&v->r->out, STYLE_DIM, 0,
			      "ALLOCATED: by its thread while a span was open, spans inside it "
			      "included; LIVE: what of that is live at the end. TOTAL and SELF: "
			      "time, SELF without spans inside.");
	else
		print_wrapped(&v->r->out, STYLE_DIM, 0,
			      "Single blocks are not known, so not what spans allocate. SELF: time "
			      "without spans inside.");
	if (v->blocks && !v->r->exact)
		print_wrapped(&v->r->out, STYLE_DIM, 0,
			      "%s and a..b: 95 %% interval; <=: its upper end. 1 KB is 1024 B.",
			      v->r->out.utf8 ? "±" : "+-");
}

static int print_spans_text(struct view *v)
{
	uint64_t count = all_spans(v->spans);
	char window[192];

	print_wrapped(
	    &v->r->out, STYLE_BOLD, 0, "Spans by %s: %" PRIu64 " of %zu %s%s%s", sort_text(v->r),
	    count, v->spans->rows, v->spans->rows == 1 ? "type" : "types",
	    window_text(window, sizeof(window), v->r), v->r->q.filtered ? "; filtered" : "");
	if (!v->spans->rows)
		puts("  No span fits these options.");
	if (!print_span_table(v))
		return cli_error("out of memory");
	print_spans_legend(v);
	return cli_finish();
}

/* ---- text: pauses ---- */

#define MOST_PAUSES 4 /* kinds of them, beside each other */
#define PAUSE_BAR   12

/* Phases of OCaml's collector in which the program waits; parts of them have a '/' in their name.
 */
static bool is_pause(const struct mayfly_track_type *type)
{
	return strcmp(type->category, "ocaml") == 0 && !strchr(type->name, '/') &&
	       (strncmp(type->name, "minor", 5) == 0 || strncmp(type->name, "major", 5) == 0);
}

struct pauses {
	const struct mayfly_span_row *row[MOST_PAUSES];
	size_t rows;
	uint64_t most;	    /* in a class */
	size_t first, last; /* classes that are not empty */
};

static void add_pauses(struct pauses *p, const struct mayfly_span_row *row)
{
	p->row[p->rows++] = row;
	for (size_t k = 0; k < MAYFLY_SPAN_CLASSES; k++) {
		if (!row->in_class[k])
			continue;
		p->first = k < p->first ? k : p->first;
		p->last = k > p->last ? k : p->last;
		p->most = row->in_class[k] > p->most ? row->in_class[k] : p->most;
	}
}

/* Those of minor collections first. */
static struct pauses find_pauses(const struct view *v)
{
	struct pauses p = {.first = MAYFLY_SPAN_CLASSES};

	for (int major = 0; major < 2; major++) {
		for (size_t i = 0; i < v->spans->rows && p.rows < MOST_PAUSES; i++) {
			const struct mayfly_span_row *row = &v->spans->row[i];
			const struct mayfly_track_type *type = type_of(v, row->type);

			if (is_pause(type) && row->count && (type->name[1] == 'a') == major)
				add_pauses(&p, row);
		}
	}
	return p;
}

static bool put_class(struct table *t, const struct view *v, const struct pauses *p, size_t class)
{
	int64_t low = mayfly_span_class_ns(class), high = mayfly_span_class_ns(class + 1);
	char text[256], from[FIGURE_TEXT], to[FIGURE_TEXT];

	for (size_t i = 0; i < p->rows; i++) {
		uint64_t count = p->row[i]->in_class[class];

		text_bar(text, sizeof(text), &v->r->out, (double)count, (double)p->most, PAUSE_BAR);
		if (!put_count(t, count) || !table_cell(t, text))
			return false;
	}
	text_duration(from, sizeof(from), (double)low);
	if (high == INT64_MAX)
		snprintf(text, sizeof(text), "%s and more", from);
	else if (low == 0)
		snprintf(text, sizeof(text), "below %s",
			 text_duration(to, sizeof(to), (double)high));
	else
		snprintf(text, sizeof(text), "%s to %s", from,
			 text_duration(to, sizeof(to), (double)high));
	return table_cell(t, text);
}

static bool print_pauses(const struct view *v)
{
	struct pauses p = find_pauses(v);
	struct column columns[2 * MOST_PAUSES + 1];
	char title[MOST_PAUSES][64];
	struct table *t;
	bool done = true;

	if (!p.rows)
		return true;
	for (size_t i = 0; i < p.rows; i++) {
		text_clean(title[i], sizeof(title[i]), type_of(v, p.row[i]->type)->name);
		columns[2 * i] = (struct column){title[i], true, 0, STYLE_PLAIN, false};
		columns[2 * i + 1] = (struct column){"", false, 1, STYLE_BAR, true};
	}
	columns[2 * p.rows] = (struct column){"DURATION", false, 0, STYLE_PLAIN, false};
	print_section(v, "Pauses for OCaml's collector, by duration");
	t = table_new(columns, 2 * p.rows + 1);
	for (size_t class = p.first; t && done && class <= p.last; class ++)
		done = put_class(t, v, &p, class);
	if (t && done)
		table_print(t, &v->r->out, 0);
	table_free(t);
	return t && done;
}

/* ---- text: instants and counters ---- */

/* How many blocks OCaml's runtime allocated of a class of sizes: counters of their own kind. */
static bool is_bucket(const struct mayfly_track_type *type)
{
	return type->kind == MAYFLY_TYPE_COUNTER && strcmp(type->category, "ocaml") == 0 &&
	       strncmp(type->name, "alloc ", 6) == 0;
}

/* It grows, for each thread by itself, so its least and mean say nothing: it has its own table. */
static bool is_thread_cpu(const struct mayfly_track_type *type)
{
	return type->kind == MAYFLY_TYPE_COUNTER && strcmp(type->category, "thread") == 0 &&
	       strcmp(type->name, "thread.cpu") == 0;
}

enum section { INSTANTS, COUNTERS, BUCKETS, THREADS };

static enum section section_of(const struct view *v, const struct mayfly_track_sum *sum)
{
	const struct mayfly_track_type *type = type_of(v, sum->type);

	if (type->kind != MAYFLY_TYPE_COUNTER)
		return INSTANTS;
	if (is_thread_cpu(type))
		return THREADS;
	return is_bucket(type) ? BUCKETS : COUNTERS;
}

static bool put_instant(struct table *t, const struct view *v, const struct mayfly_track_sum *sum)
{
	return put_count(t, sum->count) && put_duration(t, (double)sum->first_ns) &&
	       put_duration(t, (double)sum->last_ns) && put_type(t, v, sum->type);
}

/* A sum says something where values are of events, as in an eventlog, and not of moments. */
static bool has_sums(const struct view *v)
{
	return trace_has_no_blocks(v->r->file.info);
}

static bool put_counter(struct table *t, const struct view *v, const struct mayfly_track_sum *sum)
{
	const double values[] = {sum->min, sum->mean, sum->max, sum->last, sum->total};
	const char *unit = type_of(v, sum->type)->unit;
	char text[FIGURE_TEXT];

	if (!put_count(t, sum->count))
		return false;
	for (size_t i = 0; i < (has_sums(v) ? 5u : 4u); i++)
		if (!table_cell(t, track_number(text, sizeof(text), unit, values[i])))
			return false;
	return put_type(t, v, sum->type);
}

static bool
print_sums(const struct view *v, enum section section, const struct column *columns, size_t count,
	   bool (*put)(struct table *, const struct view *, const struct mayfly_track_sum *))
{
	struct table *t = table_new(columns, count);
	size_t rows = 0;
	bool done = t != NULL;

	for (size_t i = 0; done && i < v->sums->rows; i++) {
		if (section_of(v, &v->sums->row[i]) != section)
			continue;
		if (rows++ < shown(v, SIZE_MAX))
			done = put(t, v, &v->sums->row[i]);
	}
	if (done && rows) {
		print_section(v, section == INSTANTS ? "Instants" : "Counters");
		table_print(t, &v->r->out, 0);
		print_more(v, rows);
	}
	table_free(t);
	return done;
}

static void find_categories(struct view *v, enum section section)
{
	v->categories = false;
	for (size_t i = 0; i < v->sums->rows; i++)
		if (section_of(v, &v->sums->row[i]) == section)
			v->categories |= *type_of(v, v->sums->row[i].type)->category != 0;
}

static bool print_instants(struct view *v)
{
	struct column c[MOST_COLUMNS] = {
	    {"COUNT", true, 0, STYLE_PLAIN, false},
	    {"FIRST", true, 1, STYLE_PLAIN, false},
	    {"LAST", true, 2, STYLE_PLAIN, false},
	};

	find_categories(v, INSTANTS);
	return print_sums(v, INSTANTS, c, add_type_columns(v, c, 3, "INSTANT"), put_instant);
}

static bool print_counters(struct view *v)
{
	struct column c[MOST_COLUMNS] = {
	    {"VALUES", true, 0, STYLE_PLAIN, false}, {"MIN", true, 2, STYLE_PLAIN, false},
	    {"MEAN", true, 0, STYLE_PLAIN, false},   {"MAX", true, 0, STYLE_PLAIN, false},
	    {"LAST", true, 1, STYLE_PLAIN, false},   {"SUM", true, 4, STYLE_PLAIN, false},
	};

	find_categories(v, COUNTERS);
	return print_sums(v, COUNTERS, c, add_type_columns(v, c, has_sums(v) ? 6 : 5, "COUNTER"),
			  put_counter);
}

/* Names of buckets are in the order of their sizes. */
static int compare_buckets(const void *a, const void *b, void *view)
{
	const struct mayfly_track_sum *x = *(const struct mayfly_track_sum *const *)a;
	const struct mayfly_track_sum *y = *(const struct mayfly_track_sum *const *)b;

	return strcmp(type_of(view, x->type)->name, type_of(view, y->type)->name);
}

#define BUCKET_BAR 24

static bool put_bucket(struct table *t, const struct view *v, const struct mayfly_track_sum *sum,
		       const double *most, double whole)
{
	const char *name = type_of(v, sum->type)->name + strlen("alloc ");
	char text[FIGURE_TEXT], bar[256];

	text_count(text, sizeof(text), sum->total);
	if (!table_cell(t, sum->total > 0 ? text : "0") ||
	    !table_cell(t, text_percent(text, sizeof(text), sum->total, whole)) ||
	    !table_cell(t, text_bar(bar, sizeof(bar), &v->r->out, sum->total, *most, BUCKET_BAR)))
		return false;
	text_clean(text, sizeof(text), *name == '0' && name[1] ? name + 1 : name);
	return table_cell(t, text);
}

static bool print_bucket_table(const struct view *v, const struct mayfly_track_sum **sum,
			       size_t count)
{
	static const struct column columns[] = {{"BLOCKS", true, 0, STYLE_PLAIN, false},
						{"%", true, 0, STYLE_PLAIN, false},
						{"", false, 1, STYLE_BAR, false},
						{"WORDS", false, 0, STYLE_PLAIN, false}};
	struct table *t = table_new(columns, 4);
	double most = 0, whole = 0;
	bool done = t != NULL;

	for (size_t i = 0; i < count; i++) {
		most = fmax(most, sum[i]->total);
		whole += sum[i]->total;
	}
	print_section(v, "Blocks allocated in OCaml's major heap, promoted ones too, by size");
	for (size_t i = 0; done && i < count; i++)
		done = put_bucket(t, v, sum[i], &most, whole);
	if (done)
		table_print(t, &v->r->out, 0);
	table_free(t);
	return done;
}

static bool print_buckets(const struct view *v)
{
	const struct mayfly_track_sum **sum = calloc(v->sums->rows + 1, sizeof(*sum));
	size_t count = 0;
	bool done = true;

	if (!sum)
		return false;
	for (size_t i = 0; i < v->sums->rows; i++)
		if (section_of(v, &v->sums->row[i]) == BUCKETS)
			sum[count++] = &v->sums->row[i];
	qsort_r(sum, count, sizeof(*sum), compare_buckets, (void *)(uintptr_t)v);
	if (count)
		done = print_bucket_table(v, sum, count);
	free(sum);
	return done;
}

/* ---- text: threads ---- */

static bool put_thread(struct table *t, const struct view *v, size_t i)
{
	const struct mayfly_thread_cpu *cpu = &v->sums->thread[i];
	char name[NAME_BYTES], clean[NAME_BYTES];

	report_thread_name(name, sizeof(name), v->r, cpu->thread);
	text_clean(clean, sizeof(clean), name);
	return put_duration(t, (double)cpu->cpu_ns) && table_cell(t, clean);
}

static bool print_threads(const struct view *v)
{
	static const struct column columns[] = {{"CPU TIME", true, 0, STYLE_PLAIN, false},
						{"THREAD", false, 0, STYLE_PLAIN, false}};
	size_t rows = v->sums->threads;

	if (!rows)
		return true;
	print_section(v, "CPU time by thread, as last seen");
	if (!print_rows(v, columns, 2, shown(v, rows), put_thread))
		return false;
	print_more(v, rows);
	return true;
}

/* ---- text: all events ---- */

static struct track_counts counts_of(const struct view *v)
{
	struct track_counts c = {.spans = all_spans(v->spans), .span_types = v->spans->rows};

	for (size_t i = 0; i < v->sums->rows; i++) {
		const struct mayfly_track_sum *sum = &v->sums->row[i];

		if (section_of(v, sum) == INSTANTS)
			c.instants += sum->count;
		else
			c.values += sum->count;
	}
	return c;
}

static void print_events_title(const struct view *v)
{
	const struct mayfly_info *info = v->r->file.info;
	struct track_counts counts = counts_of(v);
	char text[256], window[192], dropped[96] = "";

	track_counts_text(text, sizeof(text), &counts);
	if (info->dropped_events)
		snprintf(dropped, sizeof(dropped), "; %" PRIu64 " more could not be recorded",
			 info->dropped_events);
	print_wrapped(&v->r->out, STYLE_BOLD, 0, "Events: %s%s%s%s", *text ? text : "none",
		      window_text(window, sizeof(window), v->r),
		      v->r->q.filtered ? "; filtered" : "", dropped);
	if (trace_has_no_blocks(info) && *info->note)
		print_wrapped(&v->r->out, STYLE_DIM, 2, "%s", info->note);
}

static int print_events_text(struct view *v)
{
	print_events_title(v);
	if (v->spans->rows || v->spans->unmatched)
		print_section(v, "Spans");
	if (!print_span_table(v) || !print_pauses(v) || !print_instants(v) || !print_counters(v) ||
	    !print_threads(v) || !print_buckets(v))
		return cli_error("out of memory");
	return cli_finish();
}

/* ---- JSON ---- */

static bool set(json_t *object, const char *key, json_t *value)
{
	return json_object_set_new(object, key, value) == 0;
}

static json_t *json_named(const struct view *v, uint32_t index)
{
	const struct mayfly_track_type *type = type_of(v, index);

	return json_pack("{s:o, s:o}", "name", json_text(type->name), "category",
			 json_text_or_null(type->category));
}

static json_t *json_durations(const struct mayfly_span_row *row)
{
	json_t *list = json_array();

	for (size_t i = 0; list && i < MAYFLY_SPAN_CLASSES; i++) {
		int64_t high = mayfly_span_class_ns(i + 1);

		if (row->in_class[i] &&
		    json_array_append_new(
			list,
			json_pack("{s:I, s:o, s:o}", "low_ns", (json_int_t)mayfly_span_class_ns(i),
				  "high_ns", high == INT64_MAX ? json_null() : json_integer(high),
				  "count", json_unsigned(row->in_class[i]))) != 0) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

static bool set_times(json_t *o, const struct mayfly_span_row *row)
{
	int64_t mean = row->count ? llround((double)row->total_ns / (double)row->count) : 0;

	return set(o, "count", json_unsigned(row->count)) &&
	       set(o, "open", json_unsigned(row->open)) &&
	       set(o, "total_ns", json_integer(row->total_ns)) &&
	       set(o, "self_ns", json_integer(row->self_ns)) &&
	       set(o, "mean_ns", json_integer(mean)) &&
	       set(o, "min_ns", json_integer(row->min_ns)) &&
	       set(o, "p50_ns", json_integer(row->p50_ns)) &&
	       set(o, "p90_ns", json_integer(row->p90_ns)) &&
	       set(o, "p99_ns", json_integer(row->p99_ns)) &&
	       set(o, "max_ns", json_integer(row->max_ns)) &&
	       set(o, "durations", json_durations(row));
}

static json_t *json_span(const struct view *v, size_t i)
{
	const struct mayfly_span_row *row = v->row[i];
	json_t *o = json_named(v, row->type);

	if (set_times(o, row) &&
	    (!v->blocks || (set(o, "allocated", json_estimate(&row->allocated)) &&
			    set(o, "self_allocated", json_estimate(&row->self_allocated)) &&
			    set(o, "live", json_estimate(&row->live)))))
		return o;
	json_decref(o);
	return NULL;
}

static json_t *json_sum(const struct view *v, const struct mayfly_track_sum *sum)
{
	const struct mayfly_track_type *type = type_of(v, sum->type);
	json_t *o = json_named(v, sum->type);
	bool done = set(o, "count", json_unsigned(sum->count)) &&
		    set(o, "first_ns", json_integer(sum->first_ns)) &&
		    set(o, "last_ns", json_integer(sum->last_ns));

	if (done && type->kind == MAYFLY_TYPE_COUNTER)
		done = set(o, "unit", json_text_or_null(type->unit)) &&
		       set(o, "min", json_real(sum->min)) && set(o, "mean", json_real(sum->mean)) &&
		       set(o, "max", json_real(sum->max)) && set(o, "last", json_real(sum->last)) &&
		       set(o, "total", json_real(sum->total));
	if (done)
		return o;
	json_decref(o);
	return NULL;
}

/* All rows, unless a number of them was asked for. */
static size_t json_rows(const struct view *v, size_t rows)
{
	return v->r->top_given ? shown(v, rows) : rows;
}

static json_t *json_spans(const struct view *v)
{
	json_t *list = json_array();

	for (size_t i = 0; list && i < json_rows(v, v->spans->rows); i++) {
		if (json_array_append_new(list, json_span(v, i)) != 0) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

static json_t *json_sums(const struct view *v, bool counters)
{
	json_t *list = json_array();
	size_t rows = 0;

	for (size_t i = 0; list && i < v->sums->rows; i++) {
		const struct mayfly_track_sum *sum = &v->sums->row[i];

		if ((section_of(v, sum) != INSTANTS) != counters ||
		    rows++ >= json_rows(v, SIZE_MAX))
			continue;
		if (json_array_append_new(list, json_sum(v, sum)) != 0) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

static json_t *json_threads(const struct view *v)
{
	json_t *list = json_array();

	for (size_t i = 0; list && i < json_rows(v, v->sums->threads); i++) {
		const struct mayfly_thread_cpu *cpu = &v->sums->thread[i];
		const struct mayfly_thread *thread =
		    mayfly_trace_thread(v->r->file.trace, cpu->thread);

		if (json_array_append_new(list, json_pack("{s:o, s:I, s:I}", "thread",
							  json_text(thread->name), "tid",
							  (json_int_t)thread->tid, "cpu_ns",
							  (json_int_t)cpu->cpu_ns)) != 0) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

static bool set_window(json_t *o, const struct report *r)
{
	const struct mayfly_query *q = &r->q.query;
	int64_t end = r->file.info->duration_ns;

	return set(o, "from_ns", json_integer(q->from_ns)) &&
	       set(o, "to_ns", json_integer(q->to_ns < end ? q->to_ns : end));
}

static bool fill_json(json_t *o, const struct view *v)
{
	int sort = v->r->q.sort_given ? v->r->span_sort : SORT_TOTAL;

	if (!set_window(o, v->r) || !set(o, "sort", json_string(span_sorts[sort])) ||
	    !set(o, "spans", json_spans(v)) ||
	    !set(o, "unmatched_ends", json_unsigned(v->spans->unmatched)) ||
	    !set(o, "ignored_spans", json_unsigned(v->spans->ignored)))
		return false;
	if (v->sums &&
	    (!set(o, "instants", json_sums(v, false)) || !set(o, "counters", json_sums(v, true)) ||
	     !set(o, "cpu_by_thread", json_threads(v))))
		return false;
	return set(o, "dropped_events", json_unsigned(v->r->file.info->dropped_events));
}

static int print_json(const struct view *v)
{
	json_t *o = json_object();

	if (!o || !fill_json(o, v)) {
		json_decref(o);
		o = NULL;
	}
	return json_print(o);
}

/* ---- the answers ---- */

static int print_view(struct view *v)
{
	if (!sort_rows(v))
		return cli_error("out of memory");
	if (v->r->json)
		return print_json(v);
	return v->sums ? print_events_text(v) : print_spans_text(v);
}

static bool has_spans(const struct report *r)
{
	for (size_t i = 0; r->file.info->track_events && i < r->file.info->track_types; i++)
		if (mayfly_trace_track_type(r->file.trace, i)->kind == MAYFLY_TYPE_SPAN)
			return true;
	return false;
}

int report_print_spans(struct report *r)
{
	bool blocks = !trace_has_no_blocks(r->file.info) && !r->file.info->snapshot_ns;
	struct view v = {.r = r, .blocks = blocks};
	int error, status;

	if (!has_spans(r))
		return cli_error("%s: has no spans, which --spans is about; a program makes some "
				 "with mayfly.h",
				 r->path);
	if (!blocks && report_sorts_blocks(r))
		return cli_error("%s: has no single blocks, which --sort %s needs", r->path,
				 span_sorts[r->span_sort]);
	if (!blocks && r->q.chooses_more)
		return cli_error("%s: has no single blocks that options could choose", r->path);
	error = mayfly_spans_run(r->file.trace, &r->q.query, &v.spans);
	if (error)
		return report_failed(r, error);
	status = print_view(&v);
	free(v.row);
	mayfly_spans_free(v.spans);
	return status;
}

int report_print_events(struct report *r)
{
	struct view v = {.r = r};
	struct mayfly_query times = r->q.query;
	int error, status;

	if (!(r->file.info->absent & MAYFLY_ABSENT_SIZES)) {
		times.min_size = 1; /* of no block */
		times.max_size = 0;
	}
	if (!r->file.info->track_events && !r->file.info->dropped_events)
		return cli_error("%s: has no events: no spans, instants or counters", r->path);
	error = mayfly_spans_run(r->file.trace, &times, &v.spans);
	if (!error)
		error = mayfly_track_sums_run(r->file.trace, &r->q.query, &v.sums);
	status = error ? report_failed(r, error) : print_view(&v);
	free(v.row);
	mayfly_spans_free(v.spans);
	mayfly_track_sums_free(v.sums);
	return status;
}
