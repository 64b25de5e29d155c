/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits on what a program may need, and verdicts on them. Each limit is a query by stack: its
 * total is compared with the limit, and its largest rows are the guilty stacks. A limit on an
 * increase puts the same query to a baseline.
 *
 * A figure of a sampled trace exceeds its limit only when that is certain. Otherwise chance would
 * fail unchanged programs: every second one whose limit is what it needs. Where it is certain neither
 * that the limit is exceeded nor that it is not, it is undecided, and limit_plan.c tells with which
 * interval it would be decided.
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

/* Intervals that limit_plan() knows: from 4 KiB on. */
#define LIMIT_INTERVALS 13
static inline uint64_t limit_interval(size_t i)
{
	return (uint64_t)4096 << i;
}

/* The margin of a figure is half of its 95 % interval, 2 standard errors. Two margins above the bound are
 * seen in 97 of 100 recordings; one, in every second. */
#define LIMIT_SEEN_MARGINS 2

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
	/* A figure of about this much would be above the bound for certain, every second time; and one
	 * that would nearly always be. */
	double certain_from, sees_from;
	bool exceeded;
	bool undecided;	     /* neither it is exceeded nor it is not, for certain */
	bool certain;	     /* chance did not decide */
	bool blind;	     /* a converted trace does not say how certain its figures are */
	struct guilt *guilt; /* the guilty stacks, [guilty] */
	size_t guilty, guilt_room;
	struct mayfly_result *result; /* rows are of one of these */
	struct trace_diff *growth;

	/* If `planned`, limit_plan() has set: sees_from with each interval, and the index of the coarsest one
	 * that would decide, or LIMIT_INTERVALS if only a record of every allocation would. */
	bool planned;
	double sees_with[LIMIT_INTERVALS];
	size_t decides;
};

struct limits {
	struct limit *item;
	size_t count, room;
	bool undecided_fails; /* what is undecided does not pass */
};

/* What limits are judged by. */
struct limit_case {
	const struct mayfly_trace *trace, *baseline; /* baseline: may be NULL */
	struct mayfly_query query;		     /* which frames are hidden */
	struct mayfly_match suppressed;		     /* leaks that do not count */
	size_t top;				     /* guilty stacks */
	bool strict;	  /* exceeded when the estimate is above the bound, certain or not */
	uint32_t sampler; /* enum mayfly_sampler: that limit_plan() is about */
};

/* NULL: out of memory. */
struct limit *limits_new(struct limits *l, enum limit_metric metric, const char *where);
/* end_focus: releases the context of a limit's focus, when it has one. */
void limits_free(struct limits *l, void (*end_focus)(void *context));
bool limits_are_relative(const struct limits *l);
size_t limits_exceeded(const struct limits *l);
size_t limits_undecided(const struct limits *l);
bool limit_metric_named(const char *text, size_t length, enum limit_metric *metric);

struct mayfly_query limit_query(const struct limit *limit, const struct limit_case *c);
/* Fills the verdict. 0 or a negative enum mayfly_error. */
int limit_judge(struct limit *limit, const struct limit_case *c);

static inline const struct mayfly_figure *limit_figure(const struct limit *limit,
						       const struct mayfly_estimate *e)
{
	return limit->metric == LIMIT_BLOCKS ? &e->blocks : &e->bytes;
}

/* certain_from or sees_from as an increase over the baseline, .1 is 10 %; NAN: there is none, or nothing in
 * it. */
double limit_increase(const struct limit *limit, double figure);

/* The figure that would be above the bound by so many times its margin. */
double limit_find_seen(const struct limit *limit, double margins);

/* Fills in what other intervals would see, of a limit that was judged. finer: a finer one is wanted, as these
 * traces could not decide. 0 or a negative enum mayfly_error. */
int limit_plan(struct limit *limit, const struct limit_case *c, bool finer);

/* Members of an object that is open. */
void json_limits(struct json *j, const struct limits *l, const struct limit_case *c);

#endif
