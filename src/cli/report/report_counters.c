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

static void put_instant_cells(struct table *t, const struct event_view *v,
			      const struct mayfly_track_sum *sum)
{
	put_event_count(COLUMN(t, "COUNT", true), sum->count);
	table_duration(COLUMN(t, "FIRST", true, 1), (double)sum->first_ns);
	table_duration(COLUMN(t, "LAST", true, 2), (double)sum->last_ns);
	put_event_type(t, v, "INSTANT", sum->type);
}

/* A sum is meaningful if values belong to events, as in an eventlog, and not to moments. */
static bool has_sums(const struct event_view *v)
{
	return trace_has_no_blocks(v->r->file.info);
}

static void put_counter_cells(struct table *t, const struct event_view *v,
			      const struct mayfly_track_sum *sum)
{
	static const struct column columns[] = {
	    {"MIN", true, 2}, {"MEAN", true}, {"MAX", true}, {"LAST", true, 1}, {"SUM", true, 4}};
	const double values[] = {sum->min, sum->mean, sum->max, sum->last, sum->total};
	const char *unit = event_type(v, sum->type)->unit;
	char text[FIGURE_TEXT];

	put_event_count(COLUMN(t, "VALUES", true), sum->count);
	for (size_t i = 0; i < (has_sums(v) ? 5u : 4u); i++)
		table_cell(table_column(t, &columns[i]),
			   track_number(text, sizeof(text), unit, values[i]));
	put_event_type(t, v, "COUNTER", sum->type);
}

static bool print_sums(struct event_view *v, enum event_section section,
		       void (*put)(struct table *, const struct event_view *,
				   const struct mayfly_track_sum *))
{
	const struct mayfly_track_sums *sums = v->rows.sums;
	struct table *t = table_new(&v->r->out);
	size_t rows = 0;
	bool done;

	v->categories = false;
	for (size_t i = 0; i < sums->rows; i++)
		if (event_section(event_type(v, sums->row[i].type)) == section)
			v->categories |= *event_type(v, sums->row[i].type)->category != 0;
	for (size_t i = 0; i < sums->rows; i++) {
		if (event_section(event_type(v, sums->row[i].type)) != section)
			continue;
		if (rows++ < events_shown(v, SIZE_MAX)) {
			table_row(t);
			put(t, v, &sums->row[i]);
		}
	}
	if (table_rows(t))
		events_print_section(v, section == SECTION_INSTANTS ? "Instants" : "Counters");
	done = table_end(t, 0);
	if (done)
		events_print_more(v, rows);
	return done;
}

bool print_instants(struct event_view *v)
{
	return print_sums(v, SECTION_INSTANTS, put_instant_cells);
}

bool print_counters(struct event_view *v)
{
	return print_sums(v, SECTION_COUNTERS, put_counter_cells);
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

static void put_bucket_cells(struct table *t, const void *context, size_t i)
{
	const struct buckets *b = context;
	double total = b->sum[i]->total;
	const char *name = event_type(b->v, b->sum[i]->type)->name + strlen("alloc ");
	char text[FIGURE_TEXT], bar[256];

	table_cell(COLUMN(t, "BLOCKS", true),
		   total > 0 ? text_count(text, sizeof(text), total) : "0");
	table_percent(COLUMN(t, "%", true), total, b->whole);
	table_cell(COLUMN(t, "", false, 1, STYLE_BAR),
		   text_bar(bar, sizeof(bar), &b->v->r->out, total, b->most, BUCKET_BAR));
	table_cell(COLUMN(t, "WORDS"), *name == '0' && name[1] ? name + 1 : name);
}

static bool print_bucket_table(struct buckets *b)
{
	for (size_t i = 0; i < b->count; i++) {
		b->most = fmax(b->most, b->sum[i]->total);
		b->whole += b->sum[i]->total;
	}
	events_print_section(b->v,
			     "Blocks allocated in OCaml's major heap, promoted ones too, by size");
	return table_print_rows(&b->v->r->out, b->count, put_bucket_cells, b);
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

static void put_thread_cells(struct table *t, const void *view, size_t i)
{
	const struct event_view *v = view;
	const struct mayfly_thread_cpu *cpu = &v->rows.sums->thread[i];
	char name[NAME_BYTES];

	table_duration(COLUMN(t, "CPU TIME", true), (double)cpu->cpu_ns);
	table_cell(COLUMN(t, "THREAD"),
		   thread_name(name, sizeof(name), v->rows.trace, cpu->thread));
}

bool print_cpu_by_thread(const struct event_view *v)
{
	size_t rows = v->rows.sums->threads;

	if (!rows)
		return true;
	events_print_section(v, "CPU time by thread, as last seen");
	if (!table_print_rows(&v->r->out, events_shown(v, rows), put_thread_cells, v))
		return false;
	events_print_more(v, rows);
	return true;
}
