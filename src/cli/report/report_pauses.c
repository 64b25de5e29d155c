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
	const struct output *out;
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
	struct pauses p = {.first = MAYFLY_SPAN_CLASSES, .out = &v->r->out};
	const struct mayfly_spans *spans = v->rows.spans;

	for (size_t k = 0; k < v->rows.pauses.types; k++)
		for (size_t i = 0; i < spans->rows; i++)
			if (spans->row[i].type == v->rows.pauses.type[k])
				add_pauses(&p, &spans->row[i]);
	return p;
}

static bool put_pause_cells(struct table *t, const void *context, size_t row)
{
	const struct pauses *p = context;
	size_t class = p->first + row;
	int64_t low = mayfly_span_class_ns(class), high = mayfly_span_class_ns(class + 1);
	char text[256], from[FIGURE_TEXT], to[FIGURE_TEXT];

	for (size_t i = 0; i < p->rows; i++) {
		uint64_t count = p->row[i]->in_class[class];

		text_bar(text, sizeof(text), p->out, (double)count, (double)p->most, PAUSE_BAR);
		if (!put_event_count(t, count) || !table_cell(t, text))
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

/* ---- by thread: OCaml 5 collects in the thread of each domain ---- */

static bool put_thread_pauses(struct table *t, const void *context, size_t i)
{
	const struct event_view *v = context;
	const struct thread_pauses *p = &v->rows.pauses;
	char name[NAME_BYTES], clean[NAME_BYTES];

	for (size_t k = 0; k < p->types; k++) {
		const struct pause_sum *sum = &p->row[i].of[k];

		if (!put_event_count(t, sum->count) || !put_event_time(t, (double)sum->total_ns) ||
		    !put_event_time(t, (double)sum->max_ns))
			return false;
	}
	thread_name(name, sizeof(name), v->rows.trace, p->row[i].thread);
	text_clean(clean, sizeof(clean), name);
	return table_cell(t, clean);
}

static bool print_pauses_by_thread(const struct event_view *v)
{
	const struct thread_pauses *p = &v->rows.pauses;
	struct column columns[3 * PAUSE_TYPES + 1];
	char title[PAUSE_TYPES][64];
	size_t rows = events_shown(v, p->rows);

	if (p->rows < 2)
		return true;
	for (size_t k = 0; k < p->types; k++) {
		text_clean(title[k], sizeof(title[k]), event_type(v, p->type[k])->name);
		columns[3 * k] = (struct column){title[k], true, 0, STYLE_PLAIN, false};
		columns[3 * k + 1] = (struct column){"TOTAL", true, 0, STYLE_PLAIN, false};
		columns[3 * k + 2] = (struct column){"MAX", true, 0, STYLE_PLAIN, false};
	}
	columns[3 * p->types] = (struct column){"THREAD", false, 0, STYLE_PLAIN, false};
	events_print_section(v, "Pauses for OCaml's collector, by thread");
	if (!table_print_rows(&v->r->out, columns, 3 * p->types + 1, rows, put_thread_pauses, v))
		return false;
	events_print_more(v, p->rows);
	return true;
}

bool print_pauses(const struct event_view *v)
{
	struct pauses p = find_pauses(v);
	struct column columns[2 * PAUSE_TYPES + 1];
	char title[PAUSE_TYPES][64];

	if (!p.rows)
		return true;
	for (size_t i = 0; i < p.rows; i++) {
		text_clean(title[i], sizeof(title[i]), event_type(v, p.row[i]->type)->name);
		columns[2 * i] = (struct column){title[i], true, 0, STYLE_PLAIN, false};
		columns[2 * i + 1] = (struct column){"", false, 1, STYLE_BAR, true};
	}
	columns[2 * p.rows] = (struct column){"DURATION", false, 0, STYLE_PLAIN, false};
	events_print_section(v, "Pauses for OCaml's collector, by duration");
	return table_print_rows(&v->r->out, columns, 2 * p.rows + 1, p.last - p.first + 1,
				put_pause_cells, &p) &&
	       print_pauses_by_thread(v);
}
