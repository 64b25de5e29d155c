/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What changed from one trace to another: the same question to both, rows that mean the same side
 * by side, and for each how large the change is and whether it may be chance.
 *
 *	before: rows --+--> by what they say --> pairs --> change, interval, p --> corrected for
 *	after:  rows --+    (moved lines too)                                      many rows
 *
 * doc/INTERNALS.md, "Comparing two traces", has the rules and how often they were right.
 */
#ifndef MAYFLY_DIFF_H
#define MAYFLY_DIFF_H

#include <mayfly/trace.h>

enum diff_verdict {
	DIFF_SAME,    /* no change at all */
	DIFF_FEW,     /* too few samples to say anything */
	DIFF_UNKNOWN, /* a converted trace does not say how certain its figures are */
	DIFF_NOISE,   /* may be chance */
	DIFF_REAL,    /* significant; of exact traces: a change */
};

/* A figure of both traces, each divided by what it is counted per. */
struct diff_figure {
	double before, after;
	double change, stderror;
	double low, high; /* of the change: the 95 % interval */
	double p;	  /* the chance of such a change when there is none; 1: not tested */
	double adjusted;  /* p, corrected for the number of rows */
	enum diff_verdict verdict;
};

struct diff_row {
	const struct mayfly_row *before, *after; /* one of them may be NULL */
	/* Of the row itself or its total, as the query sorts. The verdict is on the bytes. */
	struct diff_figure bytes, blocks;
};

struct trace_diff {
	struct mayfly_result *before, *after;
	struct diff_figure bytes, blocks; /* of all */
	struct diff_row *row;		  /* what is most certain to have changed most is first */
	size_t rows;
};

/* What the figures are divided by: requests served, files read. */
struct diff_per {
	double before, after;
};

/* 5 %: of the rows that are called significant, about so many are not. */
#define DIFF_LEVEL 0.05

/* One figure; n: how many samples it stands on. */
struct diff_figure diff_compare(const struct mayfly_figure *before, uint64_t n_before,
				const struct mayfly_figure *after, uint64_t n_after,
				struct diff_per per);

/* 0 or a negative enum mayfly_error. */
int trace_diff_run(const struct mayfly_trace *before, const struct mayfly_trace *after,
		   const struct mayfly_query *query, struct diff_per per, struct trace_diff **diff);
void trace_diff_free(struct trace_diff *diff);

/* ---- diff_align.c ---- */

/* Which row of `after` goes with each row of `before`; SIZE_MAX: none. NULL: out of memory. */
size_t *diff_align(const struct mayfly_trace *before_trace, const struct mayfly_result *before,
		   const struct mayfly_trace *after_trace, const struct mayfly_result *after,
		   enum mayfly_by by);

#endif
