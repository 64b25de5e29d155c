/* SPDX-License-Identifier: Apache-2.0 */
/* report_pauses.c: how often and how long a program waited for OCaml's collector. */
#include "cli/report/report_event_cells.h"

#define MOST_PAUSES 4 /* kinds of them, beside each other */
#define PAUSE_BAR   12

struct pauses {
	const struct mayfly_span_row *row[MOST_PAUSES];
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

/* Those of minor collections first. */
static struct pauses find_pauses(const struct event_view *v)
{
	struct pauses p = {.first = MAYFLY_SPAN_CLASSES, .out = &v->r->out};

	for (int major = 0; major < 2; major++) {
		for (size_t i = 0; i < v->rows.spans->rows && p.rows < MOST_PAUSES; i++) {
			const struct mayfly_span_row *row = &v->rows.spans->row[i];
			const struct mayfly_track_type *type = event_type(v, row->type);

			if (is_pause(type) && row->count && (type->name[1] == 'a') == major)
				add_pauses(&p, row);
		}
	}
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

bool print_pauses(const struct event_view *v)
{
	struct pauses p = find_pauses(v);
	struct column columns[2 * MOST_PAUSES + 1];
	char title[MOST_PAUSES][64];

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
				put_pause_cells, &p);
}
