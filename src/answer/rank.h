/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranking: the rows of an answer in the order in which they are shown, and one sum for those that
 * have too few samples to be ranked.
 *
 *	answer ──> row, row, row ...	shown, the largest first
 *		   more			ranked, but beyond the first `top`
 *		   few			with fewer than 4 samples, more or less
 */
#ifndef MAYFLY_RANK_H
#define MAYFLY_RANK_H

#include <mayfly/trace.h>

#include "answer/figures.h"

/* A sum of rows whose blocks are distinct. */
struct rank_sum {
	size_t rows;
	uint64_t samples;
	double bytes, variance, seen;
};

struct ranking {
	const struct mayfly_row **row;
	size_t rows;
	struct rank_sum few, more;
	size_t skipped;
};

struct rank_options {
	size_t top; /* 0: all */
	bool all;   /* also rows with too few samples, and those that allocate nothing themselves */
	const bool *skip; /* [rows]: these are not shown; NULL: none */
	bool sorted; /* by what was asked for, so not in the order of classes of size or lifetime */
	bool few;    /* rank_rows() sets it: rows with too few samples are ranked like others */
};

/* What the query sorts rows by. */
const struct mayfly_estimate *sorted_by(const struct mayfly_query *query,
					const struct mayfly_row *row);
enum confidence row_confidence(const struct mayfly_query *query, const struct mayfly_row *row);
struct mayfly_figure sum_figure(const struct rank_sum *sum);

/* False: out of memory. ranking->row is to be freed. */
bool rank_rows(const struct mayfly_query *query, const struct mayfly_result *result,
	       struct rank_options options, struct ranking *ranking);

#endif
