/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each unit of memory is chosen with probability `rate`, by itself. So the distance G from one
 * chosen unit to the next is geometric: P(G > g) = (1 - rate)^g. Inverted: with u uniform in (0, 1),
 * G = 1 + floor(ln u / ln(1 - rate)). A geometric distance has no memory, so it may be drawn anew at
 * any time, whatever has been counted down.
 *
 * The logarithm is our own, so that a host need not link libm.
 */
#include "memprof/gaps.h"

#include "base/natural_log.h"

#define GAP_MOST (1ull << 62)

/* -ln(1 - rate). 1 - rate would lose the digits of a small rate. */
static double log_of_rest(double rate)
{
	if (rate < 1e-3)
		return rate *
		       (1 + rate * (1.0 / 2 + rate * (1.0 / 3 + rate * (1.0 / 4 + rate / 5))));
	return -natural_log(1 - rate);
}

static uint64_t draw_random(struct gaps *gaps)
{
	uint64_t z = gaps->random += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

void gaps_start(struct gaps *gaps, double rate, uint64_t seed)
{
	gaps->random = seed;
	/* Neighbouring seeds must not give streams that are shifted copies of each other. */
	gaps->random = draw_random(gaps);
	gaps->scale = rate >= 1 ? 0 : 1 / log_of_rest(rate);
}

void gaps_branch(struct gaps *gaps, uint64_t number)
{
	struct gaps other = {.random = number};

	/* A multiple of draw_random()'s step would only move along the same stream. */
	gaps->random ^= draw_random(&other);
	gaps->random = draw_random(gaps);
}

uint64_t gaps_draw(struct gaps *gaps)
{
	double u = ((double)(draw_random(gaps) >> 11) + 0.5) * 0x1p-53;
	double way = -natural_log(u) * gaps->scale;

	return way < (double)GAP_MOST ? (uint64_t)way + 1 : GAP_MOST;
}

uint64_t gaps_take(struct gaps *gaps, uint64_t *left, uint64_t size)
{
	uint64_t hits = 0;

	if (gaps->scale == 0) {
		*left = 1;
		return size;
	}
	while (size >= *left) {
		size -= *left;
		*left = gaps_draw(gaps);
		hits++;
	}
	*left -= size;
	return hits;
}
