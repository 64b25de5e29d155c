/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What changed from one trace to another: both are asked the same question; rows with the same
 * meaning are put side by side; each pair gets the size of its change and whether it may be chance.
 *
 *	before: rows --+--> matched by name --> pairs --> change, interval, p --> corrected for
 *	after:  rows --+    (and moved lines)                                     many rows
 *
 * doc/INTERNALS.md, "Comparing two traces", has the rules and measures how often they are right.
 */
#ifndef MAYFLY_DIFF_H
#define MAYFLY_DIFF_H

#include <mayfly/trace.h>

#include "base/interner.h"

enum diff_verdict {
	DIFF_SAME,    /* no change at all */
	DIFF_FEW,     /* too few samples to say anything */
	DIFF_UNKNOWN, /* a converted trace does not say how certain its figures are */
	DIFF_NOISE,   /* may be chance */
	DIFF_REAL,    /* significant; in exact traces: any change */
};

/* A figure of both traces, each divided by its number of units (struct diff_per). */
struct diff_figure {
	double before, after;
	double change, stderror;
	double low, high; /* of the change: the 95 % interval */
	double p;	  /* the chance of seeing such a change if nothing changed; 1: not tested */
	double adjusted;  /* p, corrected for the number of rows */
	enum diff_verdict verdict;
};

struct diff_row {
	const struct mayfly_row *before, *after; /* one of them may be NULL */
	/* The row's self or total, whichever the query sorts by. The verdict is on the bytes. */
	struct diff_figure bytes, blocks;
};

struct trace_diff {
	struct mayfly_result *before, *after;
	struct diff_figure bytes, blocks; /* the totals of the traces */
	struct diff_row *row;		  /* sorted: the largest certain changes come first */
	size_t rows;
};

/* The number of units that figures are divided by: requests served, files read. */
struct diff_per {
	double before, after;
	double caution; /* variances are multiplied by this; 0: as they are: diff_caution() */
};

/* The expected share of false alarms among the rows that are called significant. */
#define DIFF_LEVEL 0.05

/* One figure; n: the number of samples behind it. */
struct diff_figure diff_compare(const struct mayfly_figure *before, uint64_t n_before,
				const struct mayfly_figure *after, uint64_t n_after,
				struct diff_per per);

/* The caution for two traces. */
double diff_caution(const struct mayfly_trace *before, const struct mayfly_trace *after);
/* Corrects p and the verdicts for the number of figures: the first, and each `stride` bytes on.
 * False: out of memory. */
bool diff_adjust(struct diff_figure *first, size_t stride, size_t figures);
/* Traces without standard errors: nothing can be tested. */
bool diff_is_blind(const struct mayfly_trace *before, const struct mayfly_trace *after);
void diff_forget_verdict(struct diff_figure *f);

/* 0 or a negative enum mayfly_error. */
int trace_diff_run(const struct mayfly_trace *before, const struct mayfly_trace *after,
		   const struct mayfly_query *query, struct diff_per per, struct trace_diff **diff);
void trace_diff_free(struct trace_diff *diff);
/* Corrects the rows' p for their number, and sorts them. False: out of memory. */
bool trace_diff_order(struct trace_diff *diff);

/* ---- diff_align.c ---- */

/* For each row of `before` the index of its row of `after`, or SIZE_MAX; the caller frees the
 * array. NULL: out of memory. */
size_t *diff_align(const struct mayfly_trace *before_trace, const struct mayfly_result *before,
		   const struct mayfly_trace *after_trace, const struct mayfly_result *after,
		   enum mayfly_by by);

/* Equal for the same function of two traces, also of two builds. */
struct key diff_function_key(const struct mayfly_place *place);

#endif
