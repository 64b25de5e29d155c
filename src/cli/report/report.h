/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mayfly report, in parts:
 *
 *	cmd_report.c			options, and which of these answers
 *	report_views.c			the views, and what each can be combined with
 *	report_overview.c		without options: a summary and the first tables
 *	report_rows.c			a table or a list of stacks
 *	report_series.c			rows over time
 *	report_histogram.c		rows by class of size or lifetime
 *	report_churn.c			rows and what they keep alive of what they allocate
 *	report_reallocs.c		rows of chains of realloc
 *	report_json.c			rows as JSON
 *	report_rss.c			what the resident memory consists of
 *	report_fragmentation.c		whose blocks hold nearly empty pages
 *	report_survival.c		what becomes of blocks in OCaml's minor heap
 *	report_spans.c			spans and what they allocate
 *	report_events.c			all events: spans, and
 *	  report_pauses.c		pauses of OCaml's collector
 *	  report_counters.c		instants, counters, CPU time by thread
 *	report_tree.c			the call tree
 *	report_callers.c		the callers or the callees of a function
 *	report_many.c			many traces: a table of processes, and sums
 *	report_failed.c			why there is no answer
 *
 * What is printed here is computed below: in query/, and in answer/ (ranking, names, RSS, JSON).
 */
#ifndef MAYFLY_REPORT_H
#define MAYFLY_REPORT_H

#include "answer/event_rows.h"
#include "answer/figures.h"
#include "answer/trace_names.h"
#include "answer/rank.h"
#include "terminal/message.h"
#include "cli/input/open_trace.h"
#include "terminal/output.h"
#include "terminal/print_json.h"
#include "question/question.h"
#include "cli/stack_lines.h"

#define MOST_MOMENTS 10000 /* of a series */

/* What is shown. */
enum report_view {
	VIEW_ROWS, /* or the overview, when there are no options */
	VIEW_SERIES,
	VIEW_HISTOGRAM,
	VIEW_CHURN,
	VIEW_REALLOCS,
	VIEW_SURVIVAL,
	VIEW_RSS,
	VIEW_FRAGMENTATION,
	VIEW_SPANS,
	VIEW_EVENTS,
	VIEW_TREE,
	VIEW_CALLERS,
	VIEW_CALLEES,
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
	bool mine_given;
	bool folding_said; /* a table above has said that frames are folded */
	size_t top, depth;
	size_t moments;	      /* of the series */
	const char *sort;     /* --sort, whose values depend on the view */
	const char *function; /* of --callers and --callees */
	const char *fleet_by; /* --by host, version, service or label.KEY, for a fleet's database */
	enum mayfly_by classes;	  /* of the histogram */
	enum span_sort span_sort; /* --sort of spans, when it was given */
};

/* ---- cmd_report.c ---- */

#define REPORT_DEFAULT_TOP   20
#define REPORT_DEFAULT_DEPTH 24

/* How rows are shown: options of all commands that show rows. Their struct is struct report. */
extern const struct option_row report_show_rows[];

/* --sort of spans. */
static inline enum span_sort report_span_sort(const struct report *r)
{
	return r->q.sort_given ? r->span_sort : SPAN_SORT_TOTAL;
}

static inline bool report_sorts_blocks(const struct report *r) /* by what spans allocate */
{
	return r->span_sort == SPAN_SORT_ALLOCATED || r->span_sort == SPAN_SORT_LIVE;
}

static inline struct rank_options report_rank_options(const struct report *r, size_t top)
{
	return (struct rank_options){.top = top, .all = r->all, .sorted = r->q.sort_given};
}

/* ---- report_views.c ---- */

/* Options of a question that only some views take. */
enum takes {
	TAKES_METRIC = 1u << 0,
	TAKES_BY = 1u << 1,
	TAKES_SORT = 1u << 2,
	TAKES_AT = 1u << 3,
	TAKES_WINDOW = 1u << 4,
	TAKES_HEAP = 1u << 5,
	TAKES_LIFETIME = 1u << 6,
	TAKES_FILTERS = 1u << 7, /* that choose blocks, other than these two and --thread */
	TAKES_HIDE = 1u << 8,
	TAKES_THREAD = 1u << 9,
	TAKES_SHOW = 1u << 10,
	TAKES_ALL = (1u << 11) - 1,
	TAKES_PICTURE = 1u << 11,
};

extern const struct report_view_kind {
	const char *option;  /* that asks for it: "--churn"; "" for VIEW_ROWS */
	unsigned takes;	     /* other options that it can be combined with: enum takes */
	bool only_allocated; /* the metric is always `allocated` */
	bool needs_blocks;   /* each with its own size and times */
} report_views[];	     /* by enum report_view */

/* ---- views with an answer of their own ---- */

/* An exit status. `run` gets the answer; with --json, `put_json` puts it into the document `j`, else `show`
 * prints it; `release` frees it. */
#define REPORT_ANSWER(r, run, put_json, show, release)                                             \
	({                                                                                         \
		int status_ = run;                                                                 \
                                                                                                   \
		if (status_) {                                                                     \
			status_ = report_failed(r, status_);                                       \
		} else {                                                                           \
			if ((r)->json) {                                                           \
				struct json j = json_document();                                   \
                                                                                                   \
				put_json;                                                          \
				status_ = json_print(&j);                                          \
			} else {                                                                   \
				status_ = show;                                                    \
			}                                                                          \
			release;                                                                   \
		}                                                                                  \
		status_;                                                                           \
	})

/* ---- report_failed.c ---- */

/* Prints a line instead of a table without rows. */
void report_print_none(const struct report *r);
/* Prints why a question has no answer; returns an exit status. */
int report_failed(const struct report *r, int error);

/* ---- report_rows.c ---- */

/* The name of a row, without its source line. */
void report_row_key(char *buffer, size_t size, const struct report *r,
		    const struct mayfly_row *row);
/* "function", "thread that freed": for sentences. */
const char *report_by_text(const struct report *r);
const char *report_key_title(const struct report *r);
/* The name with the source line, if that is part of the key. others: the row is the sum of those
 * that are not shown. */
void report_full_key(char *buffer, size_t size, const struct report *r,
		     const struct mayfly_row *row, bool others);
/* "Live at the peak (1.82 s)", with the window. */
void report_metric_text(char *buffer, size_t size, const struct report *r, int64_t time_ns);
/* Cells. Value and error, in the column `first` and one like it, and percentage, in one with this
 * `drop`; the source line in at most `columns`; report_full_key(). */
void report_put_estimate(struct table *t, const struct column *first, int drop,
			 const struct mayfly_estimate *e, const struct mayfly_estimate *whole);
void report_put_location(struct table *t, const struct report *r, const struct mayfly_row *row,
			 size_t columns);
void report_put_key(struct table *t, const struct report *r, const struct mayfly_row *row,
		    bool others);

/* A table of rows by key, with columns of its own before the key, which is the last column. */
struct keyed_rows {
	const struct mayfly_row *row; /* [rows], the last one: all others */
	size_t rows;
	const void *answer;
	/* Adds the cells before the key. */
	void (*put)(struct table *t, const struct report *r, const void *answer, size_t row);
	/* Whether there is something to show; NULL: when its figure is above 0. */
	bool (*has)(const void *answer, size_t row);
};

/* Rows by stack have their number in the table; the stacks stand below it. False: out of memory. */
bool report_print_rows(const struct report *r, const struct keyed_rows *rows);
/* Says, when frames were folded, that they were. */
void report_print_folded(const struct report *r);
/* False: out of memory. */
bool report_print_table(const struct report *r, const struct mayfly_result *result,
			const struct ranking *ranking);
bool report_show_answer(const struct report *r, const struct mayfly_result *result, size_t top,
			size_t depth);
/* Exact traces have very many stacks; only the first ones are shown, and needed. */
size_t report_stacks_needed(const struct report *r, size_t rows);
/* How many rows --top asks for; the query makes no more stacks than these. */
size_t report_rows_wanted(struct report *r);
int report_print_answer(struct report *r);
void report_print_legend(const struct report *r);

/* ---- report_json.c ---- */

/* A document in which absent values are null. */
struct json report_document(uint32_t absent);
/* All rows, or as many as --top says. */
/* All that the trace says of itself, as an object. */
void report_json_info(struct json *j, const char *key, const struct report *r,
		      const struct mayfly_summary *s);
void report_json_rows(struct json *j, const struct report *r, const struct mayfly_result *result);
int report_print_json(struct report *r);

/* ---- one file each ---- */

int report_print_overview(struct report *r);
int report_print_series(struct report *r);
int report_print_histogram(struct report *r);
int report_print_churn(struct report *r);
int report_print_reallocs(struct report *r);
int report_print_survival(struct report *r);
int report_print_rss(struct report *r);
int report_print_fragmentation(struct report *r);
int report_print_spans(struct report *r);
int report_print_events(struct report *r);
int report_print_tree(struct report *r);
int report_print_callers(struct report *r);

#endif
