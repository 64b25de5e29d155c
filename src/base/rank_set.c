/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks in sets: see rank_set.h. */
#include "base/rank_set.h"

#include <stdlib.h>

bool rank_set_begin(struct rank_set *r, size_t limit)
{
	size_t words = limit / 64 + 1;

	*r = (struct rank_set){.words = words};
	r->bits = calloc(words, sizeof(*r->bits));
	r->before = malloc(words * sizeof(*r->before));
	if (r->bits && r->before)
		return true;
	rank_set_free(r);
	return false;
}

void rank_set_count(struct rank_set *r)
{
	r->count = 0;
	for (size_t i = 0; i < r->words; i++) {
		r->before[i] = (uint32_t)r->count;
		r->count += count_bits(r->bits[i]);
	}
}

void rank_set_free(struct rank_set *r)
{
	free(r->bits);
	free(r->before);
	*r = (struct rank_set){0};
}
