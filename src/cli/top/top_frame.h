/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is shown, as lines of text with styles in them, for curses and for plain output. A byte
 * FRAME_STYLE + s changes the style from there on to enum style s; texts have no such bytes, since
 * text_clean() and its relatives replace control characters.
 */
#ifndef MAYFLY_TOP_FRAME_H
#define MAYFLY_TOP_FRAME_H

#include "cli/top/top.h"

#define FRAME_STYLE 1
#define FRAME_BYTES 16384 /* of a line */

/* Where the user is in the table. */
struct top_cursor {
	size_t row;	       /* of the ranking */
	size_t first;	       /* line of the table that is the first one shown */
	bool expanded;	       /* this row */
	char name[NAME_BYTES]; /* of the row, to find it in the next answer */
};

struct top_frame {
	const struct output *o;
	char **line;
	size_t lines, room;
	size_t head;	 /* lines before the rows */
	size_t selected; /* line of the cursor's row, and how many lines are expanded below it */
	size_t expanded;
	bool failed; /* out of memory */
	char text[FRAME_BYTES];
	size_t used, columns; /* of the line that is being made */
};

/* ---- top_frame.c ---- */

void frame_put(struct top_frame *f, enum style style, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* A text that comes from the program or the trace, in at most so many columns. */
void frame_put_fitted(struct top_frame *f, enum style style, const char *text, size_t columns);
/* Spaces up to a column. */
void frame_pad(struct top_frame *f, size_t column);
void frame_end_line(struct top_frame *f);
void frame_free(struct top_frame *f);
/* On standard output. */
void frame_print(const struct top_frame *f);

/* ---- top_head.c, top_table.c ---- */

void frame_head(struct top_frame *f, const struct top *t);
void frame_table_head(struct top_frame *f, const struct top *t);
void frame_rows(struct top_frame *f, struct top *t, struct top_cursor *cursor);

/* ---- top_whole.c ---- */

/* The whole. cursor: NULL: all rows that were asked for, and no stacks. False: out of memory. */
bool frame_make(struct top_frame *f, struct top *t, struct top_cursor *cursor);

#endif
