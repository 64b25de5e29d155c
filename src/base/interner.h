/* SPDX-License-Identifier: Apache-2.0 */
/* Growing arrays, hashes, numbers for keys, ranks in sets. */
#ifndef MAYFLY_NUMBERING_H
#define MAYFLY_NUMBERING_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NUMBERING_NONE UINT32_MAX

/* Makes room for item number `count` of the array that the pointer at `array` points to. False: no
 * memory, and nothing has changed. */
bool array_reserve(void *array, size_t *capacity, size_t count, size_t item_bytes);
/* Sets the bytes of new items to `fill`. */
bool array_reserve_filled(void *array, size_t *capacity, size_t count, size_t item_bytes, int fill);

struct key {
	uint64_t word[4];
};

/* Numbers from 0 for distinct keys, in order of first appearance. All zero: empty. */
struct numbering {
	struct key *key;
	size_t count, capacity;
	uint32_t *slot; /* open addressing: number + 1, or 0 */
	size_t slots;	/* a power of two */
};

/* The number of a key; *is_new when it was not there. NUMBERING_NONE: out of memory. */
uint32_t numbering_of(struct numbering *n, struct key key, bool *is_new);
/* The number that a key has; NUMBERING_NONE: it has none. */
uint32_t numbering_find(const struct numbering *n, struct key key);
void numbering_free(struct numbering *n);

/* A good hash of a number. */
static inline uint64_t numbering_mix(uint64_t x)
{
	x = (x ^ x >> 32) * 0xd6e8feb86659fd93u;
	x = (x ^ x >> 32) * 0xd6e8feb86659fd93u;
	return x ^ x >> 32;
}

/* A hash of a text that ends with a zero. */
uint64_t numbering_text(const char *text);

/*
 * A set of numbers below a limit. A number's rank is how many smaller ones are in the set, so that
 * arrays have an item for each member instead of one for each number:
 *
 *	bits	. 1 . . 1 1 . .
 *	rank	  0     1 2
 */
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

/* Of any number below the limit, also one that is not in the set. */
static inline uint32_t rank_set_rank(const struct rank_set *r, size_t number)
{
	uint64_t below = r->bits[number / 64] & (((uint64_t)1 << number % 64) - 1);

	return r->before[number / 64] + count_bits(below);
}

#endif
