/* SPDX-License-Identifier: Apache-2.0 */
/* What `mayfly diff` and `mayfly check --max-increase` say of two runs of one program, and of a
 * program in which one function has grown. */
#ifndef MAYFLY_COVERAGE_PAIRS_H
#define MAYFLY_COVERAGE_PAIRS_H

#include "coverage_score.h"

/* diff: the metrics it is asked for. Numbers of pairs. */
#define COVERAGE_DIFFS 4
extern const enum coverage_metric coverage_diffs[COVERAGE_DIFFS];

struct coverage_pairs {
	unsigned pairs;
	unsigned functions, stacks; /* pairs in which any row is called a real change */
	unsigned total;		    /* pairs in which the total is */
	unsigned grown, found; /* with a function that is 30 % larger: pairs, and it is found */
};

/* pairs: [COVERAGE_DIFFS] */
void coverage_compare(const struct coverage_stream *s, const struct coverage_plan *plan,
		      struct coverage_pairs *pairs);

/* check --max-increase: metrics times allowed increases. */
#define COVERAGE_CHECKS	   3
#define COVERAGE_INCREASES 2
extern const enum coverage_metric coverage_checks[COVERAGE_CHECKS];
extern const double coverage_increases[COVERAGE_INCREASES];

struct coverage_verdicts {
	unsigned pairs;
	unsigned failed; /* by the verdict that is the default */
	unsigned above;	 /* the estimate is above the limit */
	unsigned surely; /* the whole interval is */
};

void coverage_check(const struct coverage_stream *s, const struct coverage_plan *plan,
		    struct coverage_verdicts verdicts[COVERAGE_CHECKS][COVERAGE_INCREASES]);

#endif
