/* SPDX-License-Identifier: Apache-2.0 */
/* report_pauses.c: how often and how long a program waited for OCaml's collector. */
#include "cli/report/report_event_cells.h"

#include <inttypes.h>
#include <string.h>

#include "answer/trace_names.h"

#define MOST_PAUSES  4 /* kinds of them, beside each other */
#define PAUSE_BAR    12
#define MOST_THREADS 16 /* that are asked for their pauses, those with most CPU time */

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

/* ---- by thread: OCaml 5 collects in the thread of each domain ---- */

struct thread_pauses {
	char name[NAME_BYTES];
	struct mayfly_span_row row[MOST_PAUSES]; /* as struct pauses has them */
};

struct pauses_by_thread {
	const struct pauses *all;
	size_t rows;
	struct thread_pauses row[MOST_THREADS];
};

static int is_thread_number(void *context, const char *text)
{
	return strcmp(context, text) == 0;
}

/* Adds a row, unless the thread had no pauses. 0 or a negative enum mayfly_error. */
static int add_thread(struct pauses_by_thread *b, const struct event_view *v, uint32_t thread)
{
	struct thread_pauses *row = &b->row[b->rows];
	struct mayfly_query query = v->r->q.query;
	struct mayfly_spans *spans;
	char number[16];
	bool any = false;
	int error;

	snprintf(number, sizeof(number), "%" PRIu32,
		 mayfly_trace_thread(v->rows.trace, thread)->tid);
	query.thread = (struct mayfly_match){is_thread_number, number};
	query.min_size = 1;
	query.max_size = 0; /* no blocks */
	error = mayfly_spans_run(v->rows.trace, &query, &spans);
	if (error)
		return error;
	*row = (struct thread_pauses){.name = ""};
	for (size_t i = 0; i < spans->rows; i++)
		for (size_t k = 0; k < b->all->rows; k++)
			if (spans->row[i].type == b->all->row[k]->type) {
				row->row[k] = spans->row[i];
				any |= spans->row[i].count != 0;
			}
	mayfly_spans_free(spans);
	thread_name(row->name, sizeof(row->name), v->rows.trace, thread);
	b->rows += any;
	return 0;
}

static bool put_thread_pauses(struct table *t, const void *context, size_t i)
{
	const struct pauses_by_thread *b = context;
	const struct thread_pauses *row = &b->row[i];
	char clean[NAME_BYTES];

	for (size_t k = 0; k < b->all->rows; k++)
		if (!put_event_count(t, row->row[k].count) ||
		    !put_event_time(t, (double)row->row[k].total_ns) ||
		    !put_event_time(t, (double)row->row[k].max_ns))
			return false;
	text_clean(clean, sizeof(clean), row->name);
	return table_cell(t, clean);
}

static bool print_pauses_by_thread(const struct event_view *v, const struct pauses *all,
				   char (*title)[64])
{
	struct column columns[3 * MOST_PAUSES + 1];
	struct pauses_by_thread b = {.all = all};
	const struct mayfly_track_sums *sums = v->rows.sums;

	if (!sums || sums->threads < 2)
		return true;
	for (size_t i = 0; i < sums->threads && i < MOST_THREADS; i++)
		if (add_thread(&b, v, sums->thread[i].thread))
			return false;
	if (b.rows < 2)
		return true;
	for (size_t k = 0; k < all->rows; k++) {
		columns[3 * k] = (struct column){title[k], true, 0, STYLE_PLAIN, false};
		columns[3 * k + 1] = (struct column){"TOTAL", true, 0, STYLE_PLAIN, false};
		columns[3 * k + 2] = (struct column){"MAX", true, 0, STYLE_PLAIN, false};
	}
	columns[3 * all->rows] = (struct column){"THREAD", false, 0, STYLE_PLAIN, false};
	events_print_section(v, "Pauses for OCaml's collector, by thread");
	return table_print_rows(&v->r->out, columns, 3 * all->rows + 1, b.rows, put_thread_pauses,
				&b);
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
				put_pause_cells, &p) &&
	       print_pauses_by_thread(v, &p, title);
}
