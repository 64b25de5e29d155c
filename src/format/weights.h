/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one sample stands for: its weight in bytes and in blocks, and the variance of each.
 * doc/INTERNALS.md, "Estimates", has the rules and the reasons.
 */
#ifndef MAYFLY_WEIGHTS_H
#define MAYFLY_WEIGHTS_H

#include <mayfly/trace.h>

/* Of blocks in the heaps of OCaml: a Bernoulli trial on each word, hits of which succeeded. */
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

/* The same without the variance. */
void sample_weight(enum mayfly_sampler sampler, double interval, uint64_t size, uint32_t hits,
		   double *bytes, double *blocks);

#endif
