/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mayfly report, in parts:
 *
 *	cmd_report.c		options, and which of these answers
 *	report_overview.c	nothing was asked for: a summary and the first tables
 *	report_failed.c		why the trace has no answer
 *	report_rank.c		rows -> ranked rows, and one line for those that are too uncertain
 *	report_rows.c		a table or a list of stacks
 *	report_series.c		rows over time
 *	report_histogram.c	rows by class of size or lifetime
 *	report_churn.c		rows and what they keep alive of what they allocate
 *	report_reallocs.c	rows of chains of realloc
 *	report_json.c		rows as JSON
 *	report_rss.c		what the resident memory consists of
 *	report_fragmentation.c	whose blocks hold nearly empty pages
 *	report_survival.c	what becomes of blocks in OCaml's minor heap
 *	report_events.c		spans and what they allocate; spans, instants and counters
 */
#ifndef MAYFLY_REPORT_H
#define MAYFLY_REPORT_H

#include "cli/message.h"
#include "cli/json.h"
#include "cli/open_trace.h"
#include "cli/output.h"
#include "cli/places.h"
#include "cli/question.h"

#define NAME_BYTES   65536 /* for one name; C++ has names of many KB */
#define MOST_MOMENTS 10000 /* of a series */

/* What is shown. */
enum report_view {
	VIEW_ROWS, /* or the overview, when nothing was asked for */
	VIEW_SERIES,
	VIEW_HISTOGRAM,
	VIEW_CHURN,
	VIEW_REALLOCS,
	VIEW_SURVIVAL,
	VIEW_RSS,
	VIEW_FRAGMENTATION,
	VIEW_SPANS,
	VIEW_EVENTS,
};

struct report {
	const char *path;
	struct opened_trace file;
	struct output out;
	struct question q;
	enum report_view view;
	bool all, json;
	bool top_given, depth_given;
	bool callers; /* the overview's table of callers: totals only */
	bool exact;   /* figures have no error */
	size_t top, depth;
	size_t moments;		/* of the series */
	enum mayfly_by classes; /* of the histogram */
	const char *sort;	/* --sort, whose values depend on the view */
	int span_sort;		/* of spans: report_set_span_sort() */
};

/* ---- cmd_report.c ---- */

#define REPORT_DEFAULT_TOP   20
#define REPORT_DEFAULT_DEPTH 24

/* How rows are shown: options of all commands that show rows. Their struct is struct report. */
extern const struct option_row report_show_rows[];

/* ---- report_failed.c ---- */

/* "--churn"; "" for VIEW_ROWS */
const char *report_view_option(enum report_view view);
/* Prints why a question has no answer; returns an exit status. */
int report_failed(const struct report *r, int error);

/* ---- report_overview.c ---- */

int report_print_overview(struct report *r);

/* ---- report_rank.c ---- */

/* A sum of rows whose blocks are distinct. */
struct sum {
	size_t rows;
	uint64_t samples;
	double bytes, variance, seen;
};

/* Rows in the order in which they are shown, and what was left out. */
struct ranking {
	const struct mayfly_row **row;
	size_t rows;
	struct sum few;	 /* too few samples to be ranked */
	struct sum more; /* ranked, but beyond --top */
};

const struct mayfly_estimate *report_sorted_by(const struct report *r,
					       const struct mayfly_row *row);
enum sureness report_sureness(const struct report *r, const struct mayfly_row *row);
struct mayfly_figure report_sum_figure(const struct sum *sum);
/* False: out of memory. ranking->row is to be freed. */
bool report_rank(const struct report *r, const struct mayfly_result *result, size_t top,
		 struct ranking *ranking);

/* ---- report_rows.c ---- */

/* A figure in a sentence. */
char *report_say_figure(char *buffer, size_t size, const struct output *o,
			const struct mayfly_estimate *e);
/* "worker (4711)" */
void report_thread_name(char *buffer, size_t size, const struct report *r, uint32_t index);
/* What a row is called, but for its source line. */
void report_row_key(char *buffer, size_t size, const struct report *r,
		    const struct mayfly_row *row);
/* "function", "thread that frees": as sentences say it. */
const char *report_by_text(const struct report *r);
const char *report_key_title(const struct report *r);
/* The same with the source line, where that is part of the key. others: the row for what is not
 * shown. */
void report_full_key(char *buffer, size_t size, const struct report *r,
		     const struct mayfly_row *row, bool others);
/* "Live at the peak (1.82 s)", with the window. */
void report_metric_text(char *buffer, size_t size, const struct report *r, int64_t time_ns);
/* Value, error, percent: three cells. */
bool report_put_estimate(struct table *t, const struct report *r, const struct mayfly_estimate *e,
			 const struct mayfly_estimate *whole);
/* Rows by stack have their number in the table; the stacks stand below it. */
void report_print_numbered_stacks(const struct report *r, const struct mayfly_row *row,
				  size_t rows);
/* False: out of memory. */
bool report_print_table(const struct report *r, const struct mayfly_result *result,
			const struct ranking *ranking);
bool report_show_answer(const struct report *r, const struct mayfly_result *result, size_t top,
			size_t depth);
/* Exact traces have very many stacks, and those that are shown are the first ones. */
size_t report_stacks_needed(const struct report *r, size_t rows);
int report_print_answer(struct report *r);
void report_print_legend(const struct report *r);

/* ---- report_series.c ---- */

int report_print_series(struct report *r);

/* ---- report_histogram.c, report_churn.c, report_reallocs.c ---- */

int report_print_histogram(struct report *r);
int report_print_churn(struct report *r);
int report_print_reallocs(struct report *r);

/* ---- report_json.c ---- */

/* Each returns NULL when out of memory. The key alone; with its figures; all rows. */
json_t *report_json_key(const struct report *r, const struct mayfly_row *row);
json_t *report_json_row(const struct report *r, const struct mayfly_row *row);
json_t *report_json_rows(const struct report *r, const struct mayfly_result *result);
int report_print_json(struct report *r);

/* ---- report_survival.c ---- */

int report_print_survival(struct report *r);

/* ---- report_events.c ---- */

/* --sort, which has more choices there. False after a line on stderr. */
bool report_set_span_sort(struct report *r, const char *value);
bool report_sorts_blocks(const struct report *r); /* by what spans allocate */
int report_print_spans(struct report *r);
int report_print_events(struct report *r);

#endif
