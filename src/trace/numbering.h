/* SPDX-License-Identifier: Apache-2.0 */
/* Growing arrays, and numbers for keys: what queries keep their state in. */
#ifndef MAYFLY_NUMBERING_H
#define MAYFLY_NUMBERING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NUMBERING_NONE UINT32_MAX

/* Makes room for item number `count` of the array that the pointer at `array` points to. */
bool array_reserve(void *array, size_t *capacity, size_t count, size_t item_bytes);

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
/* Makes room for `count` keys, to begin with or when there are more. */
bool numbering_grow(struct numbering *n, size_t count);
void numbering_free(struct numbering *n);

uint64_t numbering_mix(uint64_t x); /* a good hash of a number */

#endif
