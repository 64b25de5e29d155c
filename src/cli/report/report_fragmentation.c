/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mayfly report --fragmentation: whose blocks hold nearly empty pages, near the peak and at the
 *end.
 *
 *	stacks' shares of pages --inner-most function that is shown, and line--> rows by waste
 */
#include "cli/report/report_fragmentation.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/message.h"
#include "cli/json.h"

#define NAME_BYTES 65536
/* What a place must leave empty for a sentence about it: of the heap's pages, and bytes. */
#define SENTENCE_SHARE 0.05
#define SENTENCE_BYTES (256 << 10)

struct row {
	const struct mayfly_frame *frame; /* NULL: none is known */
	const struct mayfly_location *location;
	uint64_t blocks, bytes, held;
};

struct fragmentation {
	const struct mayfly_trace *trace;
	const struct output *out;
	const struct fragmentation_request *request;
};

/* ---- rows ---- */

/* The inner-most place on the stack that is worth showing. */
static void find_place(const struct fragmentation *f, uint32_t node, struct row *row)
{
	struct mayfly_match hide = hidden_frames_match(f->request->hidden);

	for (; node; node = mayfly_trace_node(f->trace, node).parent) {
		const struct mayfly_node n = mayfly_trace_node(f->trace, node);
		const struct mayfly_frame *frame = mayfly_trace_frame(f->trace, n.frame);

		for (size_t i = 0; frame && i < frame->locations; i++) {
			const struct mayfly_location *l = &frame->location[i];

			row->frame = frame;
			row->location = l;
			if (!*l->function || !hide.matches ||
			    !hide.matches(hide.context, l->function))
				return;
		}
	}
}

static int compare_text(const char *a, const char *b)
{
	return a == b ? 0 : strcmp(a, b);
}

/* By function and line; of unknown functions by address. */
static int compare_places(const void *a, const void *b)
{
	const struct row *x = a, *y = b;
	int order;

	if (!x->location || !y->location)
		return (x->location != NULL) - (y->location != NULL);
	order = compare_text(x->location->function, y->location->function);
	if (!order)
		order = compare_text(x->location->file, y->location->file);
	if (!order)
		order = (x->location->line > y->location->line) -
			(x->location->line < y->location->line);
	if (!order && !*x->location->function)
		order = x->frame->module != y->frame->module
			    ? (x->frame->module > y->frame->module ? 1 : -1)
			    : (x->frame->address > y->frame->address) -
				  (x->frame->address < y->frame->address);
	return order;
}

static int64_t waste(const struct row *r)
{
	return (int64_t)(r->held - r->bytes);
}

static int compare_waste(const void *a, const void *b)
{
	int64_t x = waste(a), y = waste(b);

	return (x < y) - (x > y);
}

/* The rows, most waste first; NULL: no memory. */
static struct row *make_rows(const struct fragmentation *f, const struct mayfly_fragmentation *m,
			     size_t *rows)
{
	struct row *row = calloc(m->count + 1, sizeof(*row));
	size_t used = 0;

	if (!row)
		return NULL;
	for (size_t i = 0; i < m->count; i++) {
		const struct mayfly_fragment *e = &m->fragment[i];

		row[i] =
		    (struct row){.blocks = e->blocks, .bytes = e->bytes, .held = e->held_bytes};
		find_place(f, e->node, &row[i]);
	}
	qsort(row, m->count, sizeof(*row), compare_places);
	for (size_t i = 0; i < m->count; i++) {
		if (used && !compare_places(&row[used - 1], &row[i])) {
			row[used - 1].blocks += row[i].blocks;
			row[used - 1].bytes += row[i].bytes;
			row[used - 1].held += row[i].held;
		} else {
			row[used++] = row[i];
		}
	}
	qsort(row, used, sizeof(*row), compare_waste);
	*rows = used;
	return row;
}

static char *place_text(char *buffer, size_t size, const struct fragmentation *f,
			const struct row *row)
{
	char location[NAME_BYTES];
	const struct mayfly_module *module;
	size_t used;

	if (!row->frame) {
		snprintf(buffer, size, "[unknown]");
		return buffer;
	}
	frame_name(buffer, size, f->trace, row->frame, row->location);
	used = strlen(buffer);
	module = mayfly_trace_module(f->trace, row->frame->module);
	if (*row->location->file || *row->location->function) {
		location_text(location, sizeof(location), row->location->file, row->location->line,
			      module ? module->path : "", f->out->wide);
		snprintf(buffer + used, size - used, "  %.*s", (int)(size - used) - 3, location);
	}
	return buffer;
}

/* ---- text ---- */

static bool put_row(struct table *t, const struct fragmentation *f, const struct row *row)
{
	char text[NAME_BYTES];

	return table_cell(
		   t, text_bytes(text, sizeof(text), waste(row) > 0 ? (double)waste(row) : 0)) &&
	       table_cell(t, text_bytes(text, sizeof(text), (double)row->held)) &&
	       table_cell(t, text_bytes(text, sizeof(text), (double)row->bytes)) &&
	       table_cell(
		   t, text_percent(text, sizeof(text), (double)row->bytes, (double)row->held)) &&
	       table_cell(t, text_count(text, sizeof(text), (double)row->blocks)) &&
	       table_cell(t, place_text(text, sizeof(text), f, row));
}

static bool print_rows(const struct fragmentation *f, const struct row *row, size_t rows)
{
	static const struct column columns[] = {
	    {"EMPTY", true, 0, STYLE_PLAIN, false},  {"HELD", true, 0, STYLE_PLAIN, false},
	    {"LIVE", true, 0, STYLE_PLAIN, false},   {"FILLED", true, 0, STYLE_DIM, false},
	    {"BLOCKS", true, 1, STYLE_PLAIN, false}, {"PLACE", false, 0, STYLE_PLAIN, false}};
	struct table *t = table_new(columns, 6);
	bool done = t != NULL;
	size_t shown = f->request->top && f->request->top < rows ? f->request->top : rows;

	for (size_t i = 0; done && i < shown; i++)
		done = put_row(t, f, &row[i]);
	if (done)
		table_print(t, f->out, 0);
	if (done && shown < rows)
		printf("  %zu other place%s hold fewer empty bytes (--top 0 shows them)\n",
		       rows - shown, rows - shown == 1 ? "" : "s");
	table_free(t);
	return done;
}

/* Of the worst place, when it matters: what its pages are worth. */
static void print_sentence(const struct fragmentation *f, const struct mayfly_fragmentation *m,
			   const struct row *row)
{
	char place[NAME_BYTES], fitted[256], filled[FIGURE_TEXT], held[FIGURE_TEXT],
	    live[FIGURE_TEXT];

	if (waste(row) < SENTENCE_BYTES ||
	    (double)waste(row) < SENTENCE_SHARE * (double)m->pages * (double)m->page_bytes)
		return;
	frame_name(place, sizeof(place), f->trace, row->frame, row->location);
	print_wrapped(f->out, STYLE_BOLD, 0,
		      "%s holds %" PRIu64 " pages that it fills to %s: %s of memory for %s.",
		      name_fit(fitted, sizeof(fitted), f->out, place, 60),
		      row->held / m->page_bytes,
		      text_percent(filled, sizeof(filled), (double)row->bytes, (double)row->held),
		      text_bytes(held, sizeof(held), (double)row->held),
		      text_bytes(live, sizeof(live), (double)row->bytes));
}

static bool print_moment(const struct fragmentation *f, const struct mayfly_fragmentation *m,
			 bool at_end)
{
	char time[FIGURE_TEXT], live[FIGURE_TEXT], held[FIGURE_TEXT], filled[FIGURE_TEXT];
	double bytes = (double)m->pages * (double)m->page_bytes;
	size_t rows;
	struct row *row = make_rows(f, m, &rows);
	bool done = row != NULL;

	print_wrapped(
	    f->out, STYLE_BOLD, 0, "%s (%s): %s of live blocks in %s of pages, filled to %s",
	    at_end ? "At the end" : "Near the peak",
	    text_duration(time, sizeof(time), (double)m->time_ns),
	    text_bytes(live, sizeof(live), (double)m->bytes), text_bytes(held, sizeof(held), bytes),
	    m->pages ? text_percent(filled, sizeof(filled), (double)m->bytes, bytes) : "0 %");
	if (done && rows) {
		done = print_rows(f, row, rows);
		if (done && row[0].frame)
			print_sentence(f, m, &row[0]);
	}
	free(row);
	return done;
}

/* ---- JSON ---- */

static json_t *json_row(const struct fragmentation *f, const struct row *row)
{
	char name[NAME_BYTES] = "[unknown]";

	if (row->frame)
		frame_name(name, sizeof(name), f->trace, row->frame, row->location);
	return json_pack("{s:o, s:o, s:I, s:o, s:o, s:o}", "function", json_text(name), "file",
			 json_text_or_null(row->location ? row->location->file : ""), "line",
			 (json_int_t)(row->location ? row->location->line : 0), "blocks",
			 json_unsigned(row->blocks), "bytes", json_unsigned(row->bytes),
			 "held_bytes", json_unsigned(row->held));
}

static json_t *json_moment(const struct fragmentation *f, const struct mayfly_fragmentation *m)
{
	size_t rows, top = f->request->top;
	struct row *row;
	json_t *list;

	if (!m)
		return json_null();
	row = make_rows(f, m, &rows);
	list = row ? json_array() : NULL;
	for (size_t i = 0; list && i < rows && (!top || i < top); i++) {
		if (json_array_append_new(list, json_row(f, &row[i]))) {
			json_decref(list);
			list = NULL;
		}
	}
	free(row);
	return json_pack("{s:I, s:o, s:o, s:o, s:o, s:o}", "time_ns", (json_int_t)m->time_ns,
			 "blocks", json_unsigned(m->blocks), "bytes", json_unsigned(m->bytes),
			 "pages", json_unsigned(m->pages), "page_bytes",
			 json_unsigned(m->page_bytes), "rows", list);
}

/* ---- the command ---- */

int report_fragmentation(const struct opened_trace *file, const struct output *out,
			 const struct fragmentation_request *request)
{
	const struct fragmentation f = {file->trace, out, request};
	const struct mayfly_fragmentation *peak = mayfly_trace_fragmentation(f.trace, false);
	const struct mayfly_fragmentation *end = mayfly_trace_fragmentation(f.trace, true);

	if (!peak && !end && file->info->mode == MAYFLY_SAMPLED)
		return cli_error("%s: samples do not tell how full a page is; record with --exact",
				 request->name);
	if (!peak && !end)
		return cli_error("%s: does not hold where blocks lie in memory", request->name);
	if (request->json)
		return json_print(json_pack("{s:o, s:o}", "peak", json_moment(&f, peak), "end",
					    json_moment(&f, end)));
	if (peak && peak != end) {
		if (!print_moment(&f, peak, false))
			return cli_error("out of memory");
		putchar('\n');
	}
	if (end && !print_moment(&f, end, true))
		return cli_error("out of memory");
	return cli_finish();
}
