/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text for people: units, names, bars and tables that fit the terminal.
 *
 * Text functions write into a caller's buffer of `size` bytes and return it.
 */
#ifndef MAYFLY_OUTPUT_H
#define MAYFLY_OUTPUT_H

#include <mayfly/trace.h>
#include <stdio.h>

#include "answer/figures.h"
#include "terminal/fit_text.h"

struct output {
	int width;   /* columns */
	bool colour; /* see terminal.h */
	bool utf8;   /* bars, the plus-minus sign and ellipses may be UTF-8 */
	bool wide;   /* names in full, lines may exceed the width */
};

/* Looks at standard output, COLUMNS, NO_COLOR, --color and the locale (which must have been set); sets
 * all but `wide`. To be called after the options were taken, and before pager_start(). */
void output_detect(struct output *o);

/* A bar of `part` of `whole` in at most `columns`. */
char *text_bar(char *buffer, size_t size, const struct output *o, double part, double whole,
	       int columns);
char *text_sparkline(char *buffer, size_t size, const struct output *o, const double *value,
		     size_t count);

enum style {
	STYLE_PLAIN,
	STYLE_BOLD,
	STYLE_DIM,
	STYLE_BAR,
	STYLE_NOTE,
	STYLE_MORE, /* an increase, which is rarely wanted */
	STYLE_LESS,
};

/* Writes text in a style, plain when there is no colour. */
void write_styled(FILE *to, const struct output *o, enum style style, const char *text);
/* On standard output. */
void print_styled(const struct output *o, enum style style, const char *text);
/* Words filled into the width, further lines indented by `indent`. */
void print_wrapped(const struct output *o, enum style style, int indent, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* A field of a summary: its name, and its value from column FIELD_INDENT on, wrapped there. */
#define FIELD_INDENT 13
void print_field(const struct output *o, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/*
 * A table. The last column takes the rest of the line and is shortened like names (names_fit()); when
 * it would get too little, those with the highest `drop` go first (0 stays).
 */
struct column {
	const char *title;
	bool right;
	int drop;
	enum style style;
	bool close; /* to the column before it */
};

/*
 * `o` must live as long as the table. Only table_end() says that memory ran out; what comes before may
 * be called all the same, also with NULL, which is what table_new() returns then:
 *
 *	struct table *t = table_new(&o);
 *
 *	for (...) {
 *		table_row(t);
 *		table_bytes(COLUMN(t, "LIVE", true), row->live);
 *		table_cell(COLUMN(t, "FUNCTION"), row->function);
 *	}
 *	return table_end(t, 0);
 */
struct table;
struct table *table_new(const struct output *o);
void table_row(struct table *t); /* begins one; without cells it is left out */
/* The column of the next cell, unless it has one already. All rows must have the same ones; what counts
 * is what the first row says. Returns t. */
struct table *table_column(struct table *t, const struct column *column);
#define COLUMN(t, ...) table_column(t, &(struct column){__VA_ARGS__})
/* What would not be shown as it is becomes '?', in titles, too. */
void table_cell(struct table *t, const char *text);
void table_format(struct table *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void table_bytes(struct table *t, double bytes);
void table_count(struct table *t, double count);
void table_duration(struct table *t, double ns);
void table_percent(struct table *t, double part, double whole);
/* Two cells: the value, and its error, which has a column of its own, with this `drop`. */
void table_figure(struct table *t, int drop, const struct mayfly_figure *f, uint64_t samples);
/* Plain cells of the row that the last cell belongs to are printed so. */
void table_row_style(struct table *t, enum style style);
size_t table_rows(const struct table *t); /* 0 when memory ran out */
/* Prints the rows, if there are any, and releases the table. False: out of memory. */
bool table_end(struct table *t, int indent);

/* The same in one call: put() adds the cells of one row. */
bool table_print_rows(const struct output *o, size_t rows,
		      void (*put)(struct table *t, const void *context, size_t row),
		      const void *context);

#endif
