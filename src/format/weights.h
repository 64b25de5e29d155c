/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one sample stands for: its weight in bytes and in blocks, and the variance of each.
 * doc/INTERNALS.md, "Estimates", has the rules and the reasons.
 */
#ifndef MAYFLY_WEIGHTS_H
#define MAYFLY_WEIGHTS_H

#include <mayfly/trace.h>

/* How blocks in the heaps of OCaml are sampled: a Bernoulli trial on each word, hits of which succeeded. */
#define ESTIMATE_WORDS ((enum mayfly_sampler)2)

/* How a block with these flags of its allocation was sampled. */
static inline enum mayfly_sampler estimate_sampler(uint32_t sampler, uint32_t flags)
{
	return mayfly_heap_is_ocaml(MAYFLY_FLAG_HEAP(flags)) ? ESTIMATE_WORDS
							     : (enum mayfly_sampler)sampler;
}

struct weight {
	double bytes, blocks;
	double variance_bytes, variance_blocks;
};

/* A block of `size` bytes as the trace has it: hits 0 = weight 1. */
struct weight weigh_sample(enum mayfly_sampler sampler, double interval, uint64_t size,
			   uint32_t hits);

/*
 * How certain a sample is, from 0, one point that stands for many bytes, to 1, a block that was
 * bound to be recorded: (1 - e^2)^8, with e the relative standard error of its weight. e^2 is the
 * chance to miss the block, of Poisson samples, and one over the number of hits, of OCaml's. With an
 * error of 10 % it is .92, of 30 % .47, of 50 % .1.
 */
static inline double weight_certain(const struct weight *w)
{
	double square = w->bytes * w->bytes;
	double share = w->variance_bytes < square ? 1 - w->variance_bytes / square : 0;

	if (w->variance_bytes <= 0)
		return 1;
	share *= share;
	share *= share;
	return share * share;
}

/* The same without the variance. */
void sample_weight(enum mayfly_sampler sampler, double interval, uint64_t size, uint32_t hits,
		   double *bytes, double *blocks);

#endif
