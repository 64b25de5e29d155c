/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which allocations to sample: one sampler per thread, seeing the thread's allocations as one long
 * run of bytes. The rules, with their estimators, are in doc/FORMAT.md, "Weights".
 *
 * Fast path, in the hook (one compare):
 *	if (size < s->left) { s->left -= size; return; }	// not sampled
 *	hits = sampler_take(s, size, caller);			// rare
 *
 * No libc, no floating-point library; signal safety is the caller's (one sampler is not used by
 * two calls at once).
 */
#ifndef MAYFLY_SAMPLER_H
#define MAYFLY_SAMPLER_H

#include <stdint.h>

/* Of the points of one class of blocks one in 16 is taken; points are at least 4 KiB apart. */
#define SAMPLER_CLASSES		256u
#define SAMPLER_GROUP_LOG2	4u
#define SAMPLER_LEAST_STEP_LOG2 12u

enum sampler_kind { SAMPLER_STRATIFIED = 0, SAMPLER_POISSON = 1 }; /* = enum spool_sampler */

struct sampler {
	uint64_t left;	  /* bytes until sampler_take must be asked; at most the interval */
	uint64_t carried; /* stratified, Poisson: rest of the gap, not yet handed out in left */
	uint64_t point;	  /* stratified: place of the last point in its stratum, [0, step) */
	uint64_t handed;  /* all that was ever put into left, plus 1 per weight-1 block */
	uint64_t check; /* left is used up at this position at the latest; UINT64_MAX: never mind */
	uint64_t random[4];
	uint32_t kind;
	uint32_t interval_log2;
	uint32_t step_log2; /* stratified: length of a stratum */
	uint32_t limited;   /* there is a budget: strata are as long as the interval */
	/* By class: how many points of the open group were seen << 4 | which of them is taken. */
	uint8_t turn[SAMPLER_CLASSES];
};

/* splitmix64: the numbers of a stream are sampler_splitmix(seed + n * step). */
#define SAMPLER_SPLITMIX_STEP 0x9e3779b97f4a7c15u

static inline uint64_t sampler_splitmix(uint64_t z)
{
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

#define SAMPLER_SKIP (-1)

/* interval_log2 0..40. With interval 1 left stays 0, so every allocation reaches sampler_take and
 * is recorded with weight 1, also those of 0 bytes, whatever the kind. */
void sampler_init(struct sampler *s, uint32_t kind, uint32_t interval_log2, uint64_t seed);

/*
 * Another interval from now on, with a fresh first point. Estimates stay unbiased as long as
 * nothing that led to the change depends on where the point of the stratum at hand lies, nor on
 * which points of the open groups are taken: the rest of both is given up.
 */
void sampler_set_interval(struct sampler *s, uint32_t interval_log2);

/* The slow path: size >= s->left. SAMPLER_SKIP: not sampled after all. 0: record with weight 1.
 * n > 0: record, n points in the block were taken (Poisson: always 1). caller: of the allocator;
 * blocks of one caller and about one size are a class. */
int32_t sampler_take(struct sampler *s, uint64_t size, uintptr_t caller);

/* A number that every allocation of at least one byte changes: two equal readings mean that the
 * thread allocated nothing in between. */
static inline uint64_t sampler_position(const struct sampler *s)
{
	return s->handed - s->left;
}

/*
 * A thread's budget: the share of its time that samples may cost. The interval is doubled when a
 * window of time was more expensive, halved when it was four times cheaper.
 *
 *	window          |<------------------------------>|<---------- ...
 *	looks (bytes)   |    |    |    |    |    |    |  |
 *	strata          |-----x-------|----------x---|----   x: a sample, which costs time
 *
 * Looks come at fixed distances in the thread's bytes, whatever is sampled, and count the cost of
 * finished strata only. So a change depends on no point of the stratum that it cuts off. A group of
 * 16 points may stay open for ever, so while there is a budget each stratum is one of R bytes, and
 * its point is taken.
 */
struct sampler_budget {
	uint64_t start;	    /* of the window, in ticks; 0: not begun */
	uint64_t spent;	    /* in this window, by finished strata */
	uint64_t open;	    /* by strata that were not finished when it was counted */
	uint64_t open_ends; /* the position where they are */
	uint64_t large;	    /* bytes of weight-1 blocks since the last look */
};

#define SAMPLER_SHARE_ONE   10000u /* shares are in 1/10000 */
#define SAMPLER_BUDGET_MOST 30u	   /* log2 of the longest interval that is chosen */

/* There is a budget from now on. Like a change of the interval. */
void sampler_begin_budget(struct sampler *s);

/* Something has cost so many ticks. since: the sampler_position when it was brought about; 0 for
 * what had to come, wherever the points lie. */
void sampler_charge(struct sampler *s, struct sampler_budget *b, uint64_t cost, uint64_t since);

/*
 * After each slow path. now: ticks, not 0; window: in ticks; share: of the time; least_log2: the
 * shortest interval. size, hits: of the block that came, hits as sampler_take gave them.
 */
void sampler_look(struct sampler *s, struct sampler_budget *b, uint64_t now, uint64_t window,
		  uint32_t share, uint32_t least_log2, uint64_t size, int32_t hits);

/* No budget any more. Like a change of the interval. */
void sampler_end_budget(struct sampler *s, struct sampler_budget *b);

#endif
