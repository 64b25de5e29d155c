/* SPDX-License-Identifier: Apache-2.0 */
/* What one sample stands for: see weights.h. doc/INTERNALS.md, "Estimates", has the reasons. */
#include "format/weights.h"

#include <math.h>

#define WORD 8.0 /* bytes, of OCaml */

/* Sampling points only fall into blocks that have bytes; damaged traces may say otherwise. */
static double positive(uint64_t size)
{
	return size > 0 ? (double)size : 1;
}

struct weight weigh_sample(enum mayfly_sampler sampler, double r, uint64_t size, uint32_t hits)
{
	double z = positive(size);
	struct weight w = {0};

	if (hits == 0) {
		w.bytes = (double)size;
		w.blocks = 1;
	} else if (sampler == ESTIMATE_WORDS) {
		w.bytes = hits * r;
		w.blocks = hits * (r / z);
		/* At one sample per word there is no variance. */
		w.variance_bytes = hits * r * r * fmax(0, 1 - WORD / r);
		w.variance_blocks = hits * (r / z) * (r / z) * fmax(0, 1 - WORD / r);
	} else if (sampler == MAYFLY_POISSON) {
		double p = r > 0 ? -expm1(-z / r) : 1;

		w.bytes = z / p;
		w.blocks = 1 / p;
		w.variance_bytes = w.bytes * w.bytes * (1 - p);
		w.variance_blocks = w.blocks * w.blocks * (1 - p);
	} else {
		/*
		 * A block whose size is the share p of a stratum has one point with the chance p,
		 * or lies across two strata. Averaged over all places, the variance of its hits is
		 * p - p^2 + p^3/3.
		 */
		double p = fmin(z / r, 1), v = hits * (1 - p + p * p / 3);

		w.bytes = hits * r;
		w.blocks = hits * (r / z);
		w.variance_bytes = v * r * r;
		w.variance_blocks = v * (r / z) * (r / z);
	}
	return w;
}

void sample_weight(enum mayfly_sampler sampler, double interval, uint64_t size, uint32_t hits,
		   double *bytes, double *blocks)
{
	struct weight w = weigh_sample(sampler, interval, size, hits);

	*bytes = w.bytes;
	*blocks = w.blocks;
}
