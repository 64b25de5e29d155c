/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers that are the same in each run: Marsaglia's xorshift. */
#ifndef MAYFLY_RANDOM_NUMBERS_H
#define MAYFLY_RANDOM_NUMBERS_H

#include <stdint.h>

static uint64_t random_state = 88172645463325252u;

static inline uint64_t random_number(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

static inline uint32_t below(uint32_t limit)
{
	return (uint32_t)(random_number() >> 33) % limit;
}

#endif
