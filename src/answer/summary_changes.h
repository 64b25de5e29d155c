/* SPDX-License-Identifier: Apache-2.0 */
/* What changed of two traces as a whole: the figure that says the most comes first. */
#ifndef MAYFLY_SUMMARY_CHANGES_H
#define MAYFLY_SUMMARY_CHANGES_H

#include "answer/json_diff.h"

#define SUMMARY_CHANGES	     3
#define SUMMARY_CHANGE_BYTES 256 /* of a headline */

struct summary_change {
	const char *title; /* "Allocated" */
	enum mayfly_metric metric;
	const struct mayfly_estimate *before, *after; /* of the summaries */
	struct diff_figure bytes, blocks;
};

/*
 * The figures that both traces have: significant changes first, the largest in relation to the figure
 * before the others; otherwise the peak, what was allocated, and what is live at the end. c->query is
 * not used. Returns their number.
 */
size_t summary_changes(const struct json_diff *c, const struct mayfly_summary summary[2],
		       struct summary_change change[SUMMARY_CHANGES]);

/* "Allocated rose: +133 %, from 1.20 MiB to 2.80 MiB."; "" when nothing can be tested. */
char *summary_change_headline(char *buffer, size_t size, const struct summary_change *change,
			      size_t changes);

/* "+18 %", "new", "gone", "x12", "0 %" */
char *change_relative_text(char *buffer, size_t size, const struct diff_figure *d);

/* {"headline", "changes": [{"metric", "title", "before", "after", "relative", "change"}]}: members of an object that
 * is open. 0 or a negative enum mayfly_error. */
int json_summary_changes(struct json *j, const struct json_diff *c);

#endif
