/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A set of numbers below a limit. A number's rank is how many smaller ones are in the set, so that
 * arrays have an item for each member instead of one for each number:
 *
 *	bits	. 1 . . 1 1 . .
 *	rank	  0     1 2
 */
#ifndef MAYFLY_RANK_SET_H
#define MAYFLY_RANK_SET_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rank_set {
	uint64_t *bits;
	uint32_t *before; /* for each word of bits: how many there are in front of it */
	size_t words, count;
};

bool rank_set_begin(struct rank_set *r, size_t limit);
/* When all have been added: makes the ranks. */
void rank_set_count(struct rank_set *r);
void rank_set_free(struct rank_set *r);

static inline void rank_set_add(struct rank_set *r, size_t number)
{
	assert(number / 64 < r->words);
	r->bits[number / 64] |= (uint64_t)1 << number % 64;
}

/* Adds a number; false: it was there. */
static inline bool rank_set_take(struct rank_set *r, size_t number)
{
	uint64_t before = r->bits[number / 64];

	rank_set_add(r, number);
	return r->bits[number / 64] != before;
}

static inline bool rank_set_has(const struct rank_set *r, size_t number)
{
	return r->bits[number / 64] >> number % 64 & 1;
}

/* The number of bits that are set. Not every x86-64 has an instruction for it. */
static inline uint32_t count_bits(uint64_t x)
{
	x -= x >> 1 & 0x5555555555555555u;
	x = (x & 0x3333333333333333u) + (x >> 2 & 0x3333333333333333u);
	x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0fu;
	return (uint32_t)(x * 0x0101010101010101u >> 56);
}

/* The rank of any number below the limit, also of one that is not in the set. */
static inline uint32_t rank_set_rank(const struct rank_set *r, size_t number)
{
	uint64_t below = r->bits[number / 64] & (((uint64_t)1 << number % 64) - 1);

	return r->before[number / 64] + count_bits(below);
}

#endif
