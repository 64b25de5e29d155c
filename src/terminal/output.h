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

struct table;
struct table *table_new(const struct column *columns, size_t count);
/* Cells fill the rows from left to right. */
bool table_cell(struct table *t, const char *text);
/* Plain cells of the row that the last cell belongs to are printed so. */
bool table_row_style(struct table *t, enum style style);
size_t table_rows(const struct table *t);
/* False: out of memory. */
bool table_print(const struct table *t, const struct output *o, int indent);
void table_free(struct table *t);

/* The same in one call: put() adds the cells of one row, or none to leave it out. Nothing is
 * printed when there are no rows. False: out of memory. */
bool table_print_rows(const struct output *o, const struct column *columns, size_t count,
		      size_t rows, bool (*put)(struct table *t, const void *context, size_t row),
		      const void *context);

#endif
