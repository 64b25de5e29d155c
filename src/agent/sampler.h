/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which allocations to sample. Each thread has one sampler, which sees the thread's allocations as
 * one long sequence of bytes. The rules, with their estimators, are in doc/FORMAT.md, "Weights".
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

#include <stdbool.h>
#include <stdint.h>

#include "format/strata.h"

enum sampler_kind { SAMPLER_STRATIFIED = 0, SAMPLER_POISSON = 1 }; /* = enum spool_sampler */

struct sampler {
	uint64_t left;	  /* bytes until sampler_take must be asked; at most the interval */
	uint64_t carried; /* stratified, Poisson: rest of the gap, not yet handed out in left */
	uint64_t point;	  /* stratified: place of the last point in its stratum, [0, step) */
	uint64_t handed;  /* all that was ever put into left */
	uint64_t apart;	  /* blocks that came here and are not on the line: weight 1, 0 bytes */
	/* left is used up at these places of the line at the latest; UINT64_MAX: no limit */
	uint64_t check; /* the budget's next look */
	uint64_t
	    border; /* the next rule begins at the end of the first block that ends here or later */
	uint64_t random[4];
	uint32_t kind;
	uint32_t interval_log2;
	uint32_t step_log2; /* stratified: length of a stratum */
	bool limited;	    /* strata are as long as the interval: there is a budget, for example */
	bool changing;	    /* the next rule waits: */
	bool next_limited;
	uint8_t next_log2;
	/* By class: the number of points seen of the open group << 4 | the one that is taken. */
	uint8_t turn[STRATA_CLASSES];
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
 * Another interval from now on, with a fresh first point. The rest of the current stratum and of
 * the open groups is given up, so estimates stay unbiased only if the reason for the change depends
 * neither on where the stratum's point lies nor on which points of the groups are taken.
 */
void sampler_set_interval(struct sampler *s, uint32_t interval_log2);

/* The same for strata as long as the interval, or not. */
void sampler_set_limited(struct sampler *s, bool limited);

/*
 * Another interval, strata of another length, or both, as soon as that is right (see sampler.c):
 * whoever finds out where sampler_take is called may ask for it. sampler_settle follows each
 * sampler_take, when its block has been recorded.
 */
void sampler_change(struct sampler *s, uint32_t interval_log2, bool limited);
void sampler_settle(struct sampler *s);

/* For a forked child, which would draw the same numbers as its parent. sampler_reseed at the fork
 * itself: like sampler_set_interval. sampler_branch where sampler_take was called: the point that
 * parent and child have in common is used first, as by sampler_change. */
void sampler_reseed(struct sampler *s, uint64_t seed);
void sampler_branch(struct sampler *s, uint64_t seed);

/* The slow path: size >= s->left. SAMPLER_SKIP: not sampled after all. 0: record with weight 1.
 * n > 0: record, n points in the block were taken (Poisson: always 1). caller: the return
 * address in the program; blocks of one caller and about one size are a class. */
int32_t sampler_take(struct sampler *s, uint64_t size, uintptr_t caller);

/* Every allocation of at least one byte changes this number, and every one that sampler_take was
 * called for. */
static inline uint64_t sampler_position(const struct sampler *s)
{
	return s->handed + s->apart - s->left;
}

/* The thread's next allocation comes to sampler_take, also one of 0 bytes: so when it has recorded a
 * block, equal positions mean that it has allocated nothing since. No position changes. */
static inline void sampler_stop(struct sampler *s)
{
	s->carried += s->left;
	s->handed -= s->left;
	s->left = 0;
}

/*
 * A thread's budget: the share of its time that samples may cost. The interval is doubled after a
 * window of time that cost more, and halved after one that cost less than a quarter.
 *
 *	window          |<------------------------------>|<---------- ...
 *	looks (bytes)   |    |    |    |    |    |    |  |
 *	strata          |-----x-------|----------x---|----   x: a sample, which costs time
 *
 * Looks come at fixed distances in the thread's bytes, whatever is sampled, and count the cost of
 * finished strata only. So a change does not depend on the point of the stratum that it cuts off.
 * As a group of 16 points may stay open forever, each stratum has R bytes while there is a budget,
 * and its point is always taken.
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

/* Charges `cost` ticks. since: the sampler_position of the allocation that caused the cost; 0 if it
 * did not depend on where the points lie. */
void sampler_charge(struct sampler *s, struct sampler_budget *b, uint64_t cost, uint64_t since);

/*
 * After each slow path. now: ticks, not 0; window: in ticks; share: of the time; least_log2: the
 * shortest interval. size, hits: of the block that came, hits as sampler_take gave them.
 */
void sampler_look(struct sampler *s, struct sampler_budget *b, uint64_t now, uint64_t window,
		  uint32_t share, uint32_t least_log2, uint64_t size, int32_t hits);

#endif
