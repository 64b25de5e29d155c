/* SPDX-License-Identifier: Apache-2.0 */
/* top_table.c: the rows, and below one of them its stacks. */
#include "cli/top/top_frame.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define VALUE_COLUMNS	 13
#define ERROR_COLUMNS	 7
#define PERCENT_COLUMNS	 7
#define BAR_COLUMNS	 10
#define ERRORS_FROM	 150 /* columns of the terminal: each value has its error */
#define PERCENT_FROM	 70
#define FREED_FROM	 72
#define ALLOCATED_FROM	 56
#define BAR_FROM	 110
#define LOCATION_FROM	 120
#define LOCATION_COLUMNS 36
#define LEAST_NAME	 12u
#define STACKS_SHOWN	 5
#define DEPTH_SHOWN	 12

/* ---- columns ---- */

/* The narrower the terminal, the fewer columns stand before the name. */
static bool has_column(const struct top *t, enum top_column column)
{
	bool marked = t->mark_ns != TOP_NO_MARK;
	int width = t->r.out.width;

	if (column == t->facts.sorted)
		return true;
	switch (column) {
	case TOP_LIVE:
	case TOP_COLUMNS:
		break;
	case TOP_ALLOCATED:
		return width >= (marked ? ALLOCATED_FROM + VALUE_COLUMNS : ALLOCATED_FROM);
	case TOP_FREED:
		return width >= (marked ? FREED_FROM + VALUE_COLUMNS : FREED_FROM);
	case TOP_SINCE:
		return marked;
	}
	return true;
}

static bool has_error(const struct top *t, enum top_column column)
{
	return !t->r.exact && (column == t->facts.sorted || t->r.out.width >= ERRORS_FROM);
}

static const char *column_title(const struct top *t, enum top_column column)
{
	switch (column) {
	case TOP_LIVE:
		return t->peak ? "AT PEAK" : "LIVE";
	case TOP_ALLOCATED:
		return "ALLOCATED";
	case TOP_FREED:
		return "FREED";
	case TOP_SINCE:
		return "SINCE MARK";
	case TOP_COLUMNS:
		break;
	}
	return "";
}

static void put_right(struct top_frame *f, enum style style, const char *text, size_t columns)
{
	size_t wide = text_columns(text);

	frame_pad(f, f->columns + (columns > wide ? columns - wide : 0));
	frame_put(f, style, "%s", text);
}

static void put_left(struct top_frame *f, enum style style, const char *text, size_t columns)
{
	size_t until = f->columns + columns;

	frame_put(f, style, "%s", text);
	frame_pad(f, until);
}

/* What the first column of the table is about, in words. */
static const char *sorted_text(const struct top *t)
{
	switch (t->facts.sorted) {
	case TOP_LIVE:
		return t->peak		   ? "Live at the peak"
		       : t->source.goes_on ? "Live"
					   : "Live at the end";
	case TOP_ALLOCATED:
		return "Allocated";
	case TOP_FREED:
		return "Allocated and freed again";
	case TOP_SINCE:
		return "Allocated since the mark";
	case TOP_COLUMNS:
		break;
	}
	return "";
}

static void put_table_title(struct top_frame *f, const struct top *t)
{
	const struct mayfly_result *result = t->facts.of[t->facts.sorted];
	char figure[128], text[512], mark[FIGURE_TEXT] = "";

	if (t->mark_ns != TOP_NO_MARK)
		text_duration(mark, sizeof(mark), (double)t->mark_ns);
	snprintf(text, sizeof(text), "%s by %s: %s%s%s%s%s", sorted_text(t), report_by_text(&t->r),
		 text_estimate(figure, sizeof(figure), f->o->utf8, &result->total),
		 t->r.q.filtered ? ", filtered" : "", *mark ? "; the mark is at " : "", mark, "");
	frame_put_fitted(f, STYLE_BOLD, text, (size_t)f->o->width);
	frame_end_line(f);
}

void frame_table_head(struct top_frame *f, const struct top *t)
{
	put_table_title(f, t);
	for (enum top_column c = TOP_LIVE; c < TOP_COLUMNS; c++) {
		char title[32];

		if (!has_column(t, c))
			continue;
		snprintf(title, sizeof(title), "%s%s",
			 c == t->facts.sorted ? f->o->utf8 ? "▾" : "*" : "", column_title(t, c));
		put_right(f, c == t->facts.sorted ? STYLE_BOLD : STYLE_DIM, title, VALUE_COLUMNS);
		frame_pad(f, f->columns + (has_error(t, c) ? ERROR_COLUMNS : 0));
		if (c == t->facts.sorted && f->o->width >= PERCENT_FROM)
			put_right(f, STYLE_DIM, "%", PERCENT_COLUMNS);
		if (c == t->facts.sorted && f->o->width >= BAR_FROM)
			frame_pad(f, f->columns + BAR_COLUMNS + 1);
	}
	frame_put(f, STYLE_PLAIN, "  ");
	frame_put(f, STYLE_DIM, "%s",
		  t->r.q.query.by == MAYFLY_BY_STACK ? "STACK" : report_key_title(&t->r));
	frame_end_line(f);
}

/* ---- rows ---- */

/* A range may take the room of the error that it does not have, or shows its upper end only. */
static void put_value(struct top_frame *f, const struct top *t, const struct mayfly_estimate *e,
		      enum top_column column)
{
	char value[FIGURE_TEXT] = "-", error[FIGURE_TEXT] = "", high[FIGURE_TEXT];
	enum style style = column == t->facts.sorted ? STYLE_BOLD : STYLE_PLAIN;

	if (e && (e->samples || t->r.exact)) {
		text_figure_value(value, sizeof(value), &e->bytes, e->samples);
		text_figure_error(error, sizeof(error), f->o->utf8, &e->bytes, e->samples);
	}
	if (text_columns(value) >= VALUE_COLUMNS && has_error(t, column) && !*error) {
		put_right(f, style, value, VALUE_COLUMNS + ERROR_COLUMNS);
		return;
	}
	if (text_columns(value) >= VALUE_COLUMNS)
		snprintf(value, sizeof(value), "<= %s",
			 text_bytes(high, sizeof(high), e->bytes.high));
	put_right(f, style, value, VALUE_COLUMNS);
	if (has_error(t, column)) {
		frame_put(f, STYLE_PLAIN, " ");
		put_left(f, STYLE_DIM, error, ERROR_COLUMNS - 1);
	}
}

static void put_share(struct top_frame *f, const struct top *t, const struct mayfly_estimate *e)
{
	const struct mayfly_estimate *whole = &t->facts.of[t->facts.sorted]->total;
	bool known = figure_confidence(&e->bytes, e->samples) >= FIGURE_RANGE;
	char text[FIGURE_TEXT] = "", bar[BAR_COLUMNS * 4 + 1];

	if (f->o->width >= PERCENT_FROM) {
		if (known)
			text_percent(text, sizeof(text), e->bytes.estimate, whole->bytes.estimate);
		put_right(f, STYLE_PLAIN, text, PERCENT_COLUMNS);
	}
	if (f->o->width < BAR_FROM)
		return;
	frame_put(f, STYLE_PLAIN, " ");
	text_bar(bar, sizeof(bar), f->o, known ? e->bytes.estimate : 0, whole->bytes.estimate,
		 BAR_COLUMNS);
	put_left(f, STYLE_BAR, bar, BAR_COLUMNS);
}

/* The folder and line beside functions, where there is room. */
static void put_name(struct top_frame *f, const struct top *t, const struct mayfly_row *row)
{
	static char name[NAME_BYTES], fitted[NAME_BYTES], place[NAME_BYTES];
	size_t width = (size_t)f->o->width, room;
	bool by_function = t->r.q.query.by == MAYFLY_BY_FUNCTION;
	bool has_place = by_function && width >= LOCATION_FROM && *row->function;

	frame_put(f, STYLE_PLAIN, "  ");
	room = width > f->columns + LEAST_NAME ? width - f->columns : LEAST_NAME;
	report_full_key(name, sizeof(name), &t->r, row, false);
	if (has_place) {
		location_text(name + sizeof(name) / 2, sizeof(name) / 2, row->file, row->line,
			      row->module, false);
		place_fit(place, sizeof(place), f->o, name + sizeof(name) / 2, LOCATION_COLUMNS);
		room = room > text_columns(place) + 2 + LEAST_NAME ? room - text_columns(place) - 2
								   : LEAST_NAME;
	}
	frame_put(f, STYLE_PLAIN, "%s", name_fit(fitted, sizeof(fitted), f->o, name, room));
	if (has_place)
		frame_put(f, STYLE_DIM, "  %s", place);
}

static void put_row(struct top_frame *f, const struct top *t, const struct mayfly_row *row)
{
	for (enum top_column c = TOP_LIVE; c < TOP_COLUMNS; c++) {
		const struct mayfly_estimate *e = top_cell(t, row, c);

		if (!has_column(t, c))
			continue;
		put_value(f, t, e, c);
		if (c == t->facts.sorted)
			put_share(f, t, e);
	}
	put_name(f, t, row);
	frame_end_line(f);
}

/* ---- the stacks of a row ---- */

/* Lines as a file of text has them. */
static void put_lines(struct top_frame *f, char *text)
{
	for (char *save, *line = strtok_r(text, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save)) {
		frame_put_fitted(f, STYLE_PLAIN, line, (size_t)f->o->width);
		frame_end_line(f);
	}
}

static void put_stack(struct top_frame *f, const struct mayfly_row *row, size_t number)
{
	struct output plain = *f->o;
	char figure[128], *text = NULL;
	size_t size;
	FILE *to = open_memstream(&text, &size);

	frame_put(f, STYLE_BOLD, "  %zu. %s", number,
		  text_estimate(figure, sizeof(figure), f->o->utf8, &row->self));
	frame_end_line(f);
	plain.colour = false;
	if (!to) {
		f->failed = true;
		return;
	}
	write_stack(to, &plain, row->stack, row->stack_length, DEPTH_SHOWN);
	if (fclose(to) == 0 && text)
		put_lines(f, text);
	free(text);
}

static void put_stacks(struct top_frame *f, struct top *t, const struct mayfly_row *row)
{
	struct top_stacks s = {0};
	int error;

	if (t->r.q.query.by == MAYFLY_BY_STACK) {
		put_stack(f, row, 1);
		return;
	}
	error = top_stacks_ask(t, row, &s);
	if (error) {
		frame_put(f, STYLE_NOTE, "     %s",
			  error == MAYFLY_E_ABSENT ? "rows of this kind have no stacks here"
						   : mayfly_error_text(error));
		frame_end_line(f);
		return;
	}
	for (size_t i = 0; i < s.rows && i < STACKS_SHOWN; i++)
		put_stack(f, s.row[i], i + 1);
	if (s.rows > STACKS_SHOWN) {
		frame_put(f, STYLE_DIM, "     %zu more stacks", s.rows - STACKS_SHOWN);
		frame_end_line(f);
	}
	if (!s.rows) {
		frame_put(f, STYLE_DIM, "     no stacks");
		frame_end_line(f);
	}
	top_stacks_free(&s);
}

/* ---- all ---- */

static void put_rest(struct top_frame *f, const struct top *t)
{
	const struct ranking *r = &t->facts.ranking;
	char text[128];

	if (r->more.rows) {
		struct mayfly_estimate e = {sum_figure(&r->more), {0}, r->more.samples};

		frame_put(f, STYLE_DIM, "  %zu more: %s", r->more.rows,
			  text_estimate(text, sizeof(text), f->o->utf8, &e));
		frame_end_line(f);
	}
	if (r->few.rows) {
		struct mayfly_estimate e = {sum_figure(&r->few), {0}, r->few.samples};

		frame_put(f, STYLE_DIM, "  %zu with fewer than 4 samples%s: %s", r->few.rows,
			  r->few.rows == 1 ? "" : " each, together",
			  text_estimate(text, sizeof(text), f->o->utf8, &e));
		frame_end_line(f);
	}
	if (!r->rows && !r->more.rows && !r->few.rows) {
		frame_put(f, STYLE_DIM, "  nothing");
		frame_end_line(f);
	}
}

/* The row that the user has chosen, wherever it is now. */
static void find_again(const struct top *t, struct top_cursor *cursor)
{
	const struct ranking *ranking = &t->facts.ranking;
	static char name[NAME_BYTES];

	for (size_t i = 0; *cursor->name && i < ranking->rows; i++) {
		report_full_key(name, sizeof(name), &t->r, ranking->row[i], false);
		if (strcmp(name, cursor->name) != 0)
			continue;
		cursor->row = i;
		return;
	}
	cursor->expanded = false;
	if (cursor->row >= ranking->rows)
		cursor->row = ranking->rows ? ranking->rows - 1 : 0;
}

void frame_rows(struct top_frame *f, struct top *t, struct top_cursor *cursor)
{
	const struct ranking *ranking = &t->facts.ranking;

	if (cursor)
		find_again(t, cursor);
	for (size_t i = 0; i < ranking->rows && !f->failed; i++) {
		bool chosen = cursor && i == cursor->row;

		if (chosen)
			f->selected = f->lines;
		put_row(f, t, ranking->row[i]);
		if (chosen && cursor->expanded) {
			put_stacks(f, t, ranking->row[i]);
			f->expanded = f->lines - f->selected - 1;
		}
	}
	put_rest(f, t);
}
