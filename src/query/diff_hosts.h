/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A difference between two fleets: is it larger than what differs between their hosts?
 *
 * A side is the sum over many processes, and its hosts are put into groups. The same query to each group
 * alone shows how much what a process has differs from group to group: the variance of the side's sum when
 * hosts like these were drawn anew. It includes the error of sampling within processes.
 *
 *	T_g, n_g: what group g has, and its processes; m = sum of T_g / sum of n_g
 *	variance of the sum = G / (G - 1) sum of (T_g - m n_g)^2	the ratio estimator: W. Cochran, "Sampling
 *									Techniques", 3rd edition, 6.4
 *	change / root of both variances: Student's distribution, with the degrees of freedom of B. Welch,
 *									Biometrika 34, 1947
 *
 * The less certain of this test and the one of sampling counts, and so does the wider interval.
 */
#ifndef MAYFLY_DIFF_HOSTS_H
#define MAYFLY_DIFF_HOSTS_H

#include "query/diff.h"

struct diff_host_group {
	const struct mayfly_trace *trace; /* of the group alone */
	double processes;
};

/* The hosts of one side. With fewer than two groups nothing is known of what differs between them. */
struct diff_hosts {
	const struct diff_host_group *group;
	size_t groups;
};

/* What the groups have of one figure. */
struct host_sums {
	double sum, squares, products; /* of T, T^2 and T n */
};

struct host_estimate {
	struct host_sums bytes, blocks;
};

/* The totals of summaries, by side. */
struct host_totals {
	struct host_estimate allocated[2], live_at_end[2];
};

/* 0 or a negative enum mayfly_error. */
int host_totals_find(const struct diff_hosts hosts[2], struct host_totals *totals);

/* Both figures of an estimate, from what the groups of each side have of it. */
void diff_widen(struct diff_figure *bytes, struct diff_figure *blocks,
		const struct host_estimate of[2], const struct diff_hosts hosts[2],
		struct diff_per per);

/* All figures of a difference, which has been made from these traces with this query. 0 or a negative enum
 * mayfly_error. */
int diff_between_hosts(struct trace_diff *d, const struct mayfly_trace *const side[2],
		       const struct mayfly_query *query, const struct diff_hosts hosts[2],
		       struct diff_per per);

#endif
