/* SPDX-License-Identifier: Apache-2.0 */
/* A growing block of bytes. */
#include "base/bytes.h"

#include <stdlib.h>
#include <string.h>

#include "base/varint.h"

#define FIRST_SIZE 256

uint8_t *bytes_extend(struct bytes *b, size_t count)
{
	size_t size = b->size ? b->size : FIRST_SIZE;
	uint8_t *bigger;

	if (b->failed || count > SIZE_MAX / 4 - b->used) {
		b->failed = true;
		return NULL;
	}
	while (size - b->used < count)
		size *= 2;
	if (size != b->size) {
		bigger = realloc(b->at, size);
		if (!bigger) {
			b->failed = true;
			return NULL;
		}
		b->at = bigger;
		b->size = size;
	}
	return b->at + b->used;
}

void bytes_put(struct bytes *b, const void *data, size_t size)
{
	uint8_t *to = bytes_extend(b, size);

	if (!to || !size)
		return;
	memcpy(to, data, size);
	b->used += size;
}

void bytes_put_u(struct bytes *b, uint64_t value)
{
	uint8_t *to = bytes_extend(b, 10);

	if (to)
		b->used += varint_store(to, value);
}

void bytes_put_s(struct bytes *b, int64_t value)
{
	bytes_put_u(b, varint_zigzag(value));
}

void bytes_put_fixed(struct bytes *b, uint64_t value, unsigned count)
{
	uint8_t *to = bytes_extend(b, count);

	if (!to)
		return;
	for (unsigned i = 0; i < count; i++)
		to[i] = (uint8_t)(value >> (8 * i));
	b->used += count;
}

void bytes_free(struct bytes *b)
{
	free(b->at);
	*b = (struct bytes){0};
}

bool bytes_all_zero(const void *data, size_t size)
{
	const uint8_t *at = data;

	/* All bytes equal the next one: memcmp() compares many at a time. */
	return !size || (!*at && memcmp(at, at + 1, size - 1) == 0);
}
