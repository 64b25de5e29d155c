/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mayfly top, in parts:
 *
 *	cmd_top.c	options, and which of these
 *	top_list.c	without a name: the recorded processes
 *	top_source.c	the trace: a recording's that goes on, read again and again, or a file's
 *	top_ask.c	the questions to it, those of mayfly report
 *	top_stacks.c	the stacks of one row
 *	top_json.c	the answers as JSON
 *	top_facts.c	the answers go
 *	top_whole.c	the answers as lines of text: top_head.c, top_table.c, by top_frame.c
 *	top_screen.c	the lines on the terminal, until the user ends it
 *	top_keys.c	what a key changes
 *	top_terminal.c	the terminal: curses, and at the end as it was before
 */
#ifndef MAYFLY_TOP_H
#define MAYFLY_TOP_H

#include "cli/input/ongoing.h"
#include "cli/report/report.h"

/* The columns of the table; it is sorted by one of them. */
enum top_column {
	TOP_LIVE, /* or, when asked for, live at the peak */
	TOP_ALLOCATED,
	TOP_FREED,
	TOP_SINCE, /* allocated since the mark */
	TOP_COLUMNS
};
extern const char *const top_column_names[]; /* as --sort says them; ends with NULL */

#define TOP_NO_MARK (-1)
#define TOP_STEPS   120 /* most points of the curve */

/* Where the trace comes from. */
struct top_source {
	bool goes_on;		/* it is being recorded */
	bool ended;		/* it was, when this command began */
	struct ongoing ongoing; /* unless it is a file */
	char *path;		/* of what is shown */
	pid_t pid;		/* its number here; 0: not known */
	bool recorded_off;	/* it runs, but nothing is recorded now */
	int64_t start_ns;	/* CLOCK_MONOTONIC of time 0; 0: not known */
};

/* What was asked last. */
struct top_facts {
	bool known;
	/* The questions, which the user changes. */
	struct mayfly_result *of[TOP_COLUMNS]; /* NULL: the trace does not tell */
	enum top_column sorted;		       /* by this one */
	struct ranking ranking;
	/* The trace as a whole. */
	struct mayfly_summary summary;
	int64_t rate_ns; /* the rates are of so long before the end; 0: there are none */
	double allocated_rate, freed_rate; /* bytes per second */
	double rss;			   /* < 0: unknown */
	double live[TOP_STEPS];
	size_t steps;
};

struct top {
	struct report r; /* r.file: the trace; r.q: which blocks, and the grouping; r.top: rows */
	bool has_trace;
	struct top_source source;
	int sort; /* enum top_column */
	bool peak;
	int64_t mark_ns; /* or TOP_NO_MARK */
	bool once;
	int64_t every_ns;
	struct top_facts facts;
};

/* ---- top_list.c ---- */

int top_print_list(const struct top *t);
/* The spool of the process with the most resident bytes, to be freed; NULL: none is recorded. */
char *top_largest(void);

/* ---- top_facts.c ---- */

/* The rows; all. */
void top_answers_free(struct top_facts *f);
void top_facts_free(struct top_facts *f);

/* ---- top_source.c ---- */

/* False after a line on stderr. */
bool top_source_open(struct top *t, const char *named);
/* Looks again. now: waits, if need be, for what the recorder has not written yet. False: there is no
 * trace, and none will come; a line on stderr has said so. */
bool top_source_look(struct top *t, bool now);
/* The time there now, or at the end; a trace so far ends with its last event. */
int64_t top_source_now(const struct top *t);
void top_source_close(struct top *t);
/* "on", "off", "ended" or "finished". */
const char *top_state_word(const struct top *t);

/* ---- top_ask.c ---- */

/* The question of a column: that of the report, with its filters. */
struct mayfly_query top_column_query(const struct top *t, enum top_column column);
/* Fills in the facts. 0 or a negative enum mayfly_error; then they are those from before. */
int top_ask(struct top *t);
/* The same rows, sorted by t->sort. False: this column was not asked for. */
bool top_sort_again(struct top *t);
/* What a row has in a column; NULL: the trace does not tell. */
const struct mayfly_estimate *top_cell(const struct top *t, const struct mayfly_row *row,
				       enum top_column column);

/* ---- top_stacks.c ---- */

/* The stacks that a row consists of, the largest first, in terms of the column that sorts. */
struct top_stacks {
	struct mayfly_result *result;
	const struct mayfly_row **row;
	size_t rows;
};
/* 0 or a negative enum mayfly_error; MAYFLY_E_ABSENT: rows of this kind have none. */
int top_stacks_ask(struct top *t, const struct mayfly_row *of, struct top_stacks *s);
void top_stacks_free(struct top_stacks *s);

/* ---- top_json.c ---- */

/* An exit status. */
int top_print_json(const struct top *t);

/* ---- top_screen.c ---- */

/* Shows it until the user ends it. An exit status. */
int top_show(struct top *t);

#endif
