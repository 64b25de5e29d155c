/* SPDX-License-Identifier: Apache-2.0 */
/* Which blocks stay when a recording is thinned: see thin_rule.h. */
#include "trace/write/thin_rule.h"

#include <math.h>

uint64_t thin_coin(uint64_t seed, uint64_t serial)
{
	uint64_t z = seed ^ (serial + 1) * 0x9e3779b97f4a7c15u;

	for (unsigned i = 0; i < 2; i++) {
		z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
		z = (z ^ z >> 27) * 0x94d049bb133111ebu;
		z ^= z >> 31;
		z += seed;
	}
	return z;
}

/* The chance of a block to have a point of a Poisson process. */
static double poisson_chance(uint64_t size, uint32_t interval_log2)
{
	return -expm1(-ldexp((double)(size ? size : 1), -(int)interval_log2));
}

/* The chance that the block stays; *hits: what it then has. */
static double keep_chance(uint32_t sampler, uint32_t interval_log2, const struct trace_block *b,
			  uint32_t *hits)
{
	double size = b->size ? (double)b->size : 1; /* as weights count it */

	*hits = b->hits ? b->hits : 1;
	if (sampler == MAYFLY_POISSON && !mayfly_heap_is_ocaml(MAYFLY_FLAG_HEAP(b->flags)))
		return poisson_chance(b->size, interval_log2) /
		       (b->hits ? poisson_chance(b->size, b->interval_log2) : 1);
	if (b->hits)
		return ldexp(1, (int)b->interval_log2 - (int)interval_log2);
	if (size < ldexp(1, (int)interval_log2))
		return ldexp(size, -(int)interval_log2);
	*hits = 0;
	return 1;
}

bool thin_block(uint32_t sampler, uint32_t interval_log2, uint64_t coin, struct trace_block *block)
{
	double chance;
	uint32_t hits;

	if (block->interval_log2 >= interval_log2)
		return true;
	chance = keep_chance(sampler, interval_log2, block, &hits);
	/* 53 bits of the coin: all that a double holds. */
	if (ldexp((double)(coin >> 11), -53) >= chance)
		return false;
	block->hits = hits;
	block->interval_log2 = (uint8_t)interval_log2;
	if (hits)
		block->flags |= MAYFLY_FLAG_THINNED;
	return true;
}
