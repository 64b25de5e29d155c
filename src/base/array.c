/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays that grow: see array.h. */
#include "base/array.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Bytes beyond which an array grows by an eighth: then it is memory that is not used that costs most,
 * and realloc() moves whole pages without copying them. */
#define LARGE ((size_t)16 << 20)

bool array_reserve(void *array, size_t *capacity, size_t count, size_t item_bytes)
{
	void *items, *grown;
	size_t wanted = *capacity + *capacity / (*capacity < LARGE / item_bytes ? 2 : 8) + 64;

	if (count < *capacity)
		return true;
	if (wanted <= count)
		wanted = count + 1;
	if (wanted > SIZE_MAX / 2 / item_bytes)
		return false;
	memcpy(&items, array, sizeof(items));
	grown = realloc(items, wanted * item_bytes);
	if (!grown)
		return false;
	memcpy(array, &grown, sizeof(grown));
	*capacity = wanted;
	assert(count < *capacity);
	return true;
}

bool array_reserve_filled(void *array, size_t *capacity, size_t count, size_t item_bytes, int fill)
{
	size_t before = *capacity;
	char *items;

	if (!array_reserve(array, capacity, count, item_bytes))
		return false;
	if (*capacity > before) {
		memcpy(&items, array, sizeof(items));
		memset(items + before * item_bytes, fill, (*capacity - before) * item_bytes);
	}
	return true;
}
