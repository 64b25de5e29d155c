/* SPDX-License-Identifier: Apache-2.0 */
/* Hash tables beside arrays: see hash_index.h. */
#include "base/hash_index.h"

#include <stdlib.h>

bool hash_index_reserve(struct hash_index *s, size_t items,
			uint64_t (*hash_of)(const void *context, uint32_t item),
			const void *context)
{
	size_t bigger = s->count ? s->count * 2 : 64;
	uint32_t *fresh;

	if (items < s->count / 2)
		return true;
	fresh = calloc(bigger, sizeof(*fresh));
	if (!fresh)
		return false;
	for (size_t i = 0; i < items; i++) {
		size_t at = hash_of(context, (uint32_t)i) & (bigger - 1);

		while (fresh[at])
			at = (at + 1) & (bigger - 1);
		fresh[at] = (uint32_t)i + 1;
	}
	free(s->slot);
	*s = (struct hash_index){fresh, bigger};
	return true;
}
