/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mayfly check, in parts:
 *
 *	cmd_check.c	options; each limit is judged by a query
 *	check_limits.c	limits, from options and from files
 *	check_output.c	the verdicts as text, JSON and JUnit's XML
 *
 * A file of limits has one on each line, and # begins a comment:
 *
 *	METRIC LIMIT [function RE]	peak 10M function ^parse
 */
#ifndef MAYFLY_CHECK_H
#define MAYFLY_CHECK_H

#include "cli/report/report.h"
#include "cli/suppressions.h"

enum check_metric {
	CHECK_PEAK,
	CHECK_ALLOCATED,
	CHECK_LEAKED,
	CHECK_TEMPORARY,
	CHECK_BLOCKS, /* how many were allocated */
	CHECK_METRICS,
};

/* As limits say them; the list ends with NULL. */
extern const char *const check_metric_names[];

/* A stack that a limit was exceeded with. */
struct guilt {
	struct mayfly_estimate estimate;
	double change;	/* against the baseline; 0: not compared */
	char *text;	/* a place a line, indented */
	json_t *places; /* NULL: no JSON was asked for */
};

struct limit {
	enum check_metric metric;
	bool relative;	/* to the baseline: value is by how much it may be more, .1 is 10 % */
	double value;	/* bytes, or blocks */
	char *function; /* NULL: the whole program */
	struct pattern focus;
	char *where; /* "--max-peak", "limits.txt:3" */

	/* The verdict. */
	struct mayfly_estimate found, base;
	double bound; /* what must not be exceeded */
	/* How far above the bound: estimate and interval. */
	double excess, excess_low, excess_high;
	bool exceeded;
	bool blind;	     /* a converted trace does not say how certain its figures are */
	struct guilt *guilt; /* the guilty stacks, [guilty] */
	size_t guilty;
};

struct limits {
	struct limit *item;
	size_t count, room;
};

/* Each returns false after a line on stderr. option: "--max-peak". */
bool limits_add(struct limits *l, const char *option, enum check_metric metric, const char *value);
bool limits_add_increases(struct limits *l, const char *option, const char *list);
bool limits_add_file(struct limits *l, const char *path);
bool limits_are_relative(const struct limits *l);
void limits_free(struct limits *l);

static inline const struct mayfly_figure *limit_figure(const struct limit *limit,
						       const struct mayfly_estimate *e)
{
	return limit->metric == CHECK_BLOCKS ? &e->blocks : &e->bytes;
}

/* The other verdict is possible, too. */
static inline bool limit_straddles(const struct limit *limit)
{
	return limit->blind || (limit->excess_low <= 0 && limit->excess_high > 0 &&
				limit->excess_low < limit->excess_high);
}

/* ---- check_output.c ---- */

/* Adds a guilty stack. False: out of memory. */
bool check_add_guilt(const struct report *r, struct limit *limit, const struct mayfly_row *row,
		     double change);
void check_print_text(const struct report *r, const struct limits *limits);
/* Both return an exit status, CLI_OK when it was written. */
int check_print_json(const struct report *r, const struct limits *limits, bool confident);
int check_write_junit(const char *path, const struct report *r, const struct limits *limits);

#endif
