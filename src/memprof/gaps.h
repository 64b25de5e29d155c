/* SPDX-License-Identifier: Apache-2.0 */
/* Random distances between samples. */
#ifndef MAYFLY_GAPS_H
#define MAYFLY_GAPS_H

#include <stdint.h>

struct gaps {
	uint64_t random; /* of splitmix64 */
	double scale;	 /* -1 / ln(1 - rate); 0: the rate is 1 */
};

/* 0 < rate <= 1 */
void gaps_start(struct gaps *gaps, double rate, uint64_t seed);

/* A stream of its own for each number, that depends on this one. */
void gaps_branch(struct gaps *gaps, uint64_t number);

/* Units up to and including the next chosen one: geometric, at least 1, at most 2^62. */
uint64_t gaps_draw(struct gaps *gaps);

/* The number of chosen units in a block; *left counts down to the next one, that one included. */
uint64_t gaps_take(struct gaps *gaps, uint64_t *left, uint64_t size);

#endif
