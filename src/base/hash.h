/* SPDX-License-Identifier: Apache-2.0 */
/* Hashes of numbers and texts, for tables in memory. */
#ifndef MAYFLY_HASH_H
#define MAYFLY_HASH_H

#include <stdint.h>

/* A good hash of a number. */
static inline uint64_t hash_mix(uint64_t x)
{
	x = (x ^ x >> 32) * 0xd6e8feb86659fd93u;
	x = (x ^ x >> 32) * 0xd6e8feb86659fd93u;
	return x ^ x >> 32;
}

/* A hash of a text that ends with a zero. */
uint64_t hash_string(const char *text);

#endif
