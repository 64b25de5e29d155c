/* SPDX-License-Identifier: Apache-2.0 */
/* report_pauses.c: how often and how long a program waited for OCaml's collector. */
#include "cli/report/report_event_cells.h"

#include <inttypes.h>
#include <string.h>

#include "answer/trace_names.h"

#define PAUSE_BAR 12

struct pauses {
	const struct mayfly_span_row *row[PAUSE_TYPES];
	size_t rows;
	uint64_t most;	    /* in a class */
	size_t first, last; /* classes that are not empty */
	const struct event_view *v;
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

static struct pauses find_pauses(const struct event_view *v)
{
	struct pauses p = {.first = MAYFLY_SPAN_CLASSES, .v = v};
	const struct mayfly_spans *spans = v->rows.spans;

	for (size_t k = 0; k < v->rows.pauses.types; k++)
		for (size_t i = 0; i < spans->rows; i++)
			if (spans->row[i].type == v->rows.pauses.type[k])
				add_pauses(&p, &spans->row[i]);
	return p;
}

static void put_pause_cells(struct table *t, const void *context, size_t row)
{
	const struct pauses *p = context;
	size_t class = p->first + row;
	int64_t low = mayfly_span_class_ns(class), high = mayfly_span_class_ns(class + 1);
	char text[256], from[FIGURE_TEXT], to[FIGURE_TEXT];

	for (size_t i = 0; i < p->rows; i++) {
		uint64_t count = p->row[i]->in_class[class];

		text_bar(text, sizeof(text), &p->v->r->out, (double)count, (double)p->most,
			 PAUSE_BAR);
		put_event_count(COLUMN(t, event_type(p->v, p->row[i]->type)->name, true), count);
		table_cell(COLUMN(t, "", false, 1, STYLE_BAR, true), text);
	}
	text_duration(from, sizeof(from), (double)low);
	text_duration(to, sizeof(to), (double)high);
	COLUMN(t, "DURATION");
	if (high == INT64_MAX)
		table_format(t, "%s and more", from);
	else if (low == 0)
		table_format(t, "below %s", to);
	else
		table_format(t, "%s to %s", from, to);
}

/* ---- by thread: OCaml 5 collects in the thread of each domain ---- */

static void put_thread_pauses(struct table *t, const void *context, size_t i)
{
	const struct event_view *v = context;
	const struct thread_pauses *p = &v->rows.pauses;
	char name[NAME_BYTES];

	for (size_t k = 0; k < p->types; k++) {
		const struct pause_sum *sum = &p->row[i].of[k];

		put_event_count(COLUMN(t, event_type(v, p->type[k])->name, true), sum->count);
		table_duration(COLUMN(t, "TOTAL", true), (double)sum->total_ns);
		table_duration(COLUMN(t, "MAX", true), (double)sum->max_ns);
	}
	table_cell(COLUMN(t, "THREAD"),
		   thread_name(name, sizeof(name), v->rows.trace, p->row[i].thread));
}

static bool print_pauses_by_thread(const struct event_view *v)
{
	const struct thread_pauses *p = &v->rows.pauses;
	size_t rows = events_shown(v, p->rows);

	if (p->rows < 2)
		return true;
	events_print_section(v, "Pauses for OCaml's collector, by thread");
	if (!table_print_rows(&v->r->out, rows, put_thread_pauses, v))
		return false;
	events_print_more(v, p->rows);
	return true;
}

bool print_pauses(const struct event_view *v)
{
	struct pauses p = find_pauses(v);

	if (!p.rows)
		return true;
	events_print_section(v, "Pauses for OCaml's collector, by duration");
	return table_print_rows(&v->r->out, p.last - p.first + 1, put_pause_cells, &p) &&
	       print_pauses_by_thread(v);
}
