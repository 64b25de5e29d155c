/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits on what a program may need, and verdicts on them. Each limit is a query by stack: its
 * total is compared with the limit, and its largest rows are the guilty stacks. A limit on an
 * increase puts the same query to a baseline.
 *
 * A figure of a sampled trace exceeds its limit only when that is certain. Otherwise chance would
 * fail unchanged programs: every second one whose limit is what it needs.
 */
#ifndef MAYFLY_LIMITS_H
#define MAYFLY_LIMITS_H

#include <mayfly/trace.h>

#include "answer/json_writer.h"

struct trace_diff;

enum limit_metric {
	LIMIT_PEAK,
	LIMIT_ALLOCATED,
	LIMIT_LEAKED,
	LIMIT_TEMPORARY,
	LIMIT_BLOCKS, /* the number that was allocated */
	LIMIT_METRICS,
};

/* As limits say them; the list ends with NULL. */
extern const char *const limit_metric_names[];

/* A stack that a limit was exceeded with. */
struct guilt {
	const struct mayfly_row *row;
	double change; /* against the baseline; 0: not compared */
};

struct limit {
	enum limit_metric metric;
	bool relative;	/* to the baseline: value is by how much it may be more, .1 is 10 % */
	double value;	/* bytes, or blocks */
	char *function; /* NULL: the whole program */
	struct mayfly_match focus;
	char *where; /* "--max-peak", "limits.txt:3" */

	/* The verdict. */
	struct mayfly_estimate found, base;
	double bound; /* what must not be exceeded */
	/* How far above the bound: estimate and interval. */
	double excess, excess_low, excess_high;
	double certain_from; /* a figure of about this much would be above the bound for certain */
	bool exceeded;
	bool certain;	     /* chance did not decide */
	bool blind;	     /* a converted trace does not say how certain its figures are */
	struct guilt *guilt; /* the guilty stacks, [guilty] */
	size_t guilty;
	struct mayfly_result *result; /* rows are of one of these */
	struct trace_diff *growth;
};

struct limits {
	struct limit *item;
	size_t count, room;
};

/* What limits are judged by. */
struct limit_case {
	const struct mayfly_trace *trace, *baseline; /* baseline: may be NULL */
	struct mayfly_query query;		     /* which frames are hidden */
	struct mayfly_match suppressed;		     /* leaks that do not count */
	size_t top;				     /* guilty stacks */
	bool strict; /* exceeded when the estimate is above the bound, certain or not */
};

/* NULL: out of memory. */
struct limit *limits_new(struct limits *l, enum limit_metric metric, const char *where);
/* end_focus: releases the context of a limit's focus, when it has one. */
void limits_free(struct limits *l, void (*end_focus)(void *context));
bool limits_are_relative(const struct limits *l);
size_t limits_exceeded(const struct limits *l);
bool limit_metric_named(const char *text, size_t length, enum limit_metric *metric);

struct mayfly_query limit_query(const struct limit *limit, const struct limit_case *c);
/* Fills the verdict. 0 or a negative enum mayfly_error. */
int limit_judge(struct limit *limit, const struct limit_case *c);

static inline const struct mayfly_figure *limit_figure(const struct limit *limit,
						       const struct mayfly_estimate *e)
{
	return limit->metric == LIMIT_BLOCKS ? &e->blocks : &e->bytes;
}

/* certain_from as an increase over the baseline, .1 is 10 %; NAN: there is none, or nothing in it. */
double limit_certain_increase(const struct limit *limit);

/* Members of an object that is open. */
void json_limits(struct json *j, const struct limits *l, const struct limit_case *c);

#endif
