/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From samples to figures with 95 % intervals. Weight each sample first (weights.h), then sum.
 *
 * doc/INTERNALS.md, "Estimates" and "Uncertainty", has the rules and their sources.
 */
#ifndef MAYFLY_ESTIMATE_H
#define MAYFLY_ESTIMATE_H

#include <mayfly/trace.h>

#include "format/weights.h"

/* The number of moments at which the peak is looked at: peak.h. */
#define PEAK_MOMENTS 4

/* A running sum of samples. All zero is the empty sum; two sums add field by field. */
struct tally {
	double exact_bytes, exact_blocks;	/* recorded with weight 1 */
	double sampled_bytes, sampled_blocks;	/* weighted */
	double variance_bytes, variance_blocks; /* as if samples were independent */
	/* What of that does not exist, as samples of one stratum exclude each other: strata.h. */
	double shared_bytes, shared_blocks;
	double choice_bytes, choice_blocks; /* struct estimated_sum */
	double seen_bytes;		    /* unweighted bytes of the sampled blocks */
	double log_size, log_size_squared;  /* sums over the sampled blocks */
	uint32_t seen_blocks;		    /* number of sampled blocks */
	uint32_t other_blocks;		    /* blocks, of both kinds, outside of OCaml's heaps */
	uint64_t exact_count;
	double largest_interval; /* R of the coarsest sample */
	double heaviest_block;	 /* the largest weight in blocks of a sample */
	double at[PEAK_MOMENTS]; /* only of a peak: all bytes, live at each of these moments */
};

/* Adds a block of `size` bytes; hits 0: its weight is 1. One that was bound to be recorded counts as
 * exact, too. */
void tally_add(struct tally *t, enum mayfly_sampler sampler, double interval, uint64_t size,
	       uint32_t hits);
/* A sum that somebody else has estimated, from so many samples, with its standard errors. What single
 * samples would have told is taken from the mean size. */
struct estimated_sum {
	double bytes, blocks, bytes_stderror, blocks_stderror;
	/* Standard errors that all sums of the trace have in common: they add up as they are, not as
	 * squares, since what was left out is left out of all. Independent of the others. */
	double choice_bytes, choice_blocks;
	uint32_t samples;
};
void tally_add_sum(struct tally *t, double interval, const struct estimated_sum *sum);
void tally_merge(struct tally *into, const struct tally *from);

/*
 * How much the sizes of a row's samples differ: the variance of their logarithms, pooled over the
 * rows of an answer. A row with few samples does not show how small its unseen blocks may be; rows
 * of its kind do. All zero: no rows yet.
 */
struct spread {
	double squares, freedom; /* within rows */
	struct tally all;
};

void spread_add(struct spread *s, const struct tally *row);
double spread_variance(const struct spread *s);
/* The spread of all samples, for the sum of all rows; 1 if there are fewer than two. */
double spread_all(const struct spread *s);

/* What a sum cannot know of itself. */
struct unseen {
	double interval; /* R of the trace: a sum without samples has up to 3 R; 0: nothing */
	double spread;	 /* spread_variance() of the rows that the sum is one of, or of all sizes */
	bool peak;	 /* tally.at counts */
};

struct mayfly_estimate tally_estimate(const struct tally *t, struct unseen unseen);

/* What of that needs no quantile, for answers with very many figures. */
struct tally_brief {
	double bytes, blocks, bytes_stderror, blocks_stderror;
	uint64_t samples;
};

struct tally_brief tally_brief(const struct tally *t);

/* The quantile q of the gamma distribution with this shape and scale 1. */
double gamma_quantile(double q, double shape);

#endif
