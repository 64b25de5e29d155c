/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report_counters.c: instants, counters, CPU time by thread, and sizes of the blocks in OCaml's major
 * heap: a table each.
 */
#include "cli/report/report_event_cells.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "answer/trace_facts.h"

static bool put_instant_cells(struct table *t, const struct event_view *v,
			      const struct mayfly_track_sum *sum)
{
	return put_event_count(t, sum->count) && put_event_time(t, (double)sum->first_ns) &&
	       put_event_time(t, (double)sum->last_ns) && put_event_type(t, v, sum->type);
}

/* A sum is meaningful if values belong to events, as in an eventlog, and not to moments. */
static bool has_sums(const struct event_view *v)
{
	return trace_has_no_blocks(v->r->file.info);
}

static bool put_counter_cells(struct table *t, const struct event_view *v,
			      const struct mayfly_track_sum *sum)
{
	const double values[] = {sum->min, sum->mean, sum->max, sum->last, sum->total};
	const char *unit = event_type(v, sum->type)->unit;
	char text[FIGURE_TEXT];

	if (!put_event_count(t, sum->count))
		return false;
	for (size_t i = 0; i < (has_sums(v) ? 5u : 4u); i++)
		if (!table_cell(t, track_number(text, sizeof(text), unit, values[i])))
			return false;
	return put_event_type(t, v, sum->type);
}

static bool print_sums(const struct event_view *v, enum event_section section,
		       const struct column *columns, size_t count,
		       bool (*put)(struct table *, const struct event_view *,
				   const struct mayfly_track_sum *))
{
	struct table *t = table_new(columns, count);
	size_t rows = 0;
	bool done = t != NULL;

	for (size_t i = 0; done && i < v->rows.sums->rows; i++) {
		if (event_section(event_type(v, v->rows.sums->row[i].type)) != section)
			continue;
		if (rows++ < events_shown(v, SIZE_MAX))
			done = put(t, v, &v->rows.sums->row[i]);
	}
	if (done && rows) {
		events_print_section(v, section == SECTION_INSTANTS ? "Instants" : "Counters");
		done = table_print(t, &v->r->out, 0);
		events_print_more(v, rows);
	}
	table_free(t);
	return done;
}

static void find_categories(struct event_view *v, enum event_section section)
{
	v->categories = false;
	for (size_t i = 0; i < v->rows.sums->rows; i++)
		if (event_section(event_type(v, v->rows.sums->row[i].type)) == section)
			v->categories |= *event_type(v, v->rows.sums->row[i].type)->category != 0;
}

bool print_instants(struct event_view *v)
{
	struct column c[EVENT_COLUMNS] = {
	    {"COUNT", true, 0, STYLE_PLAIN, false},
	    {"FIRST", true, 1, STYLE_PLAIN, false},
	    {"LAST", true, 2, STYLE_PLAIN, false},
	};

	find_categories(v, SECTION_INSTANTS);
	return print_sums(v, SECTION_INSTANTS, c, add_type_columns(v, c, 3, "INSTANT"),
			  put_instant_cells);
}

bool print_counters(struct event_view *v)
{
	struct column c[EVENT_COLUMNS] = {
	    {"VALUES", true, 0, STYLE_PLAIN, false}, {"MIN", true, 2, STYLE_PLAIN, false},
	    {"MEAN", true, 0, STYLE_PLAIN, false},   {"MAX", true, 0, STYLE_PLAIN, false},
	    {"LAST", true, 1, STYLE_PLAIN, false},   {"SUM", true, 4, STYLE_PLAIN, false},
	};

	find_categories(v, SECTION_COUNTERS);
	return print_sums(v, SECTION_COUNTERS, c,
			  add_type_columns(v, c, has_sums(v) ? 6 : 5, "COUNTER"),
			  put_counter_cells);
}

/* The names of buckets sort by size. */
static int compare_buckets(const void *a, const void *b, void *view)
{
	const struct mayfly_track_sum *x = *(const struct mayfly_track_sum *const *)a;
	const struct mayfly_track_sum *y = *(const struct mayfly_track_sum *const *)b;

	return strcmp(event_type(view, x->type)->name, event_type(view, y->type)->name);
}

#define BUCKET_BAR 24

struct buckets {
	const struct event_view *v;
	const struct mayfly_track_sum **sum;
	size_t count;
	double most, whole;
};

static bool put_bucket_cells(struct table *t, const void *context, size_t i)
{
	const struct buckets *b = context;
	double total = b->sum[i]->total;
	const char *name = event_type(b->v, b->sum[i]->type)->name + strlen("alloc ");
	char text[FIGURE_TEXT], bar[256];

	text_count(text, sizeof(text), total);
	if (!table_cell(t, total > 0 ? text : "0") ||
	    !table_cell(t, text_percent(text, sizeof(text), total, b->whole)) ||
	    !table_cell(t, text_bar(bar, sizeof(bar), &b->v->r->out, total, b->most, BUCKET_BAR)))
		return false;
	text_clean(text, sizeof(text), *name == '0' && name[1] ? name + 1 : name);
	return table_cell(t, text);
}

static bool print_bucket_table(struct buckets *b)
{
	static const struct column columns[] = {{"BLOCKS", true, 0, STYLE_PLAIN, false},
						{"%", true, 0, STYLE_PLAIN, false},
						{"", false, 1, STYLE_BAR, false},
						{"WORDS", false, 0, STYLE_PLAIN, false}};

	for (size_t i = 0; i < b->count; i++) {
		b->most = fmax(b->most, b->sum[i]->total);
		b->whole += b->sum[i]->total;
	}
	events_print_section(b->v,
			     "Blocks allocated in OCaml's major heap, promoted ones too, by size");
	return table_print_rows(&b->v->r->out, columns, 4, b->count, put_bucket_cells, b);
}

bool print_buckets(const struct event_view *v)
{
	struct buckets b = {.v = v};
	bool done = true;

	b.sum = calloc(v->rows.sums->rows + 1, sizeof(const struct mayfly_track_sum *));
	if (!b.sum)
		return false;
	for (size_t i = 0; i < v->rows.sums->rows; i++)
		if (event_section(event_type(v, v->rows.sums->row[i].type)) == SECTION_BUCKETS)
			b.sum[b.count++] = &v->rows.sums->row[i];
	qsort_r(b.sum, b.count, sizeof(const struct mayfly_track_sum *), compare_buckets,
		(void *)(uintptr_t)v);
	if (b.count)
		done = print_bucket_table(&b);
	free(b.sum);
	return done;
}

static bool put_thread_cells(struct table *t, const void *view, size_t i)
{
	const struct event_view *v = view;
	const struct mayfly_thread_cpu *cpu = &v->rows.sums->thread[i];
	char name[NAME_BYTES], clean[NAME_BYTES];

	thread_name(name, sizeof(name), v->rows.trace, cpu->thread);
	text_clean(clean, sizeof(clean), name);
	return put_event_time(t, (double)cpu->cpu_ns) && table_cell(t, clean);
}

bool print_cpu_by_thread(const struct event_view *v)
{
	static const struct column columns[] = {{"CPU TIME", true, 0, STYLE_PLAIN, false},
						{"THREAD", false, 0, STYLE_PLAIN, false}};
	size_t rows = v->rows.sums->threads;

	if (!rows)
		return true;
	events_print_section(v, "CPU time by thread, as last seen");
	if (!table_print_rows(&v->r->out, columns, 2, events_shown(v, rows), put_thread_cells, v))
		return false;
	events_print_more(v, rows);
	return true;
}
