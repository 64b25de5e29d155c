/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which allocations to sample: one sampler per thread, seeing the thread's allocations as one long
 * run of bytes. The rules, with their estimators, are in doc/FORMAT.md, "Weights".
 *
 * Fast path, in the hook (one compare):
 *	if (size < s->left) { s->left -= size; return; }	// not sampled
 *	hits = sampler_take(s, size);				// rare
 *
 * No libc, no floating-point library; signal safety is the caller's (one sampler is not used by
 * two calls at once).
 */
#ifndef MAYFLY_SAMPLER_H
#define MAYFLY_SAMPLER_H

#include <stdint.h>

enum sampler_kind { SAMPLER_STRATIFIED = 0, SAMPLER_POISSON = 1 }; /* = enum spool_sampler */

struct sampler {
	uint64_t left;	  /* bytes until sampler_take must be asked; at most the interval */
	uint64_t carried; /* stratified, Poisson: rest of the gap, not yet handed out in left */
	uint64_t point;	  /* stratified: place of the last point in its stratum, [0, interval) */
	uint64_t handed;  /* all that was ever put into left, plus 1 per weight-1 block */
	uint64_t random[4];
	uint32_t kind;
	uint32_t interval_log2;
};

#define SAMPLER_SKIP (-1)

/* interval_log2 0..40. With interval 1 left stays 0, so every allocation reaches sampler_take and
 * is recorded with weight 1, also those of 0 bytes, whatever the kind. */
void sampler_init(struct sampler *s, uint32_t kind, uint32_t interval_log2, uint64_t seed);

/* Another interval from now on; a fresh first point, which keeps the estimates unbiased. */
void sampler_set_interval(struct sampler *s, uint32_t interval_log2);

/* The slow path: size >= s->left. SAMPLER_SKIP: not sampled after all. 0: record with weight 1.
 * n > 0: record, n points fell into the block (Poisson: always 1). */
int32_t sampler_take(struct sampler *s, uint64_t size);

/* A number that every allocation of at least one byte changes: two equal readings mean that the
 * thread allocated nothing in between. */
static inline uint64_t sampler_position(const struct sampler *s)
{
	return s->handed - s->left;
}

#endif
