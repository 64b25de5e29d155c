/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives each distinct key a number: 0, 1, 2 in the order in which they first came.
 *
 *	slot	. 2 . . 1 . 3 .		a number + 1 where the hash of its key says, or behind it
 *		  |     |   |
 *	key	[1]   [0]  [2]		by number
 */
#ifndef MAYFLY_INTERNER_H
#define MAYFLY_INTERNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash_index.h"

#define INTERNER_NONE UINT32_MAX

struct key {
	uint64_t word[4];
};

/* All zero: empty. */
struct interner {
	struct key *key;
	size_t count, capacity;
	struct hash_index index;
};

/* The number of a key; *is_new when it was not there. INTERNER_NONE: out of memory. */
uint32_t interner_add(struct interner *n, struct key key, bool *is_new);
/* The number that a key has; INTERNER_NONE: it has none. */
uint32_t interner_find(const struct interner *n, struct key key);
void interner_free(struct interner *n);

#endif
