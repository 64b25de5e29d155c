/* SPDX-License-Identifier: Apache-2.0 */
/* RowBinary: see row_binary.h. */
#include "fleet/database/row_binary.h"

#include <string.h>

uint64_t row_binary_fixed(struct row_binary *r, unsigned bytes)
{
	uint64_t value = 0;

	if ((size_t)(r->end - r->at) < bytes) {
		r->short_ = true;
		r->at = r->end;
		return 0;
	}
	for (unsigned i = 0; i < bytes; i++)
		value |= (uint64_t)r->at[i] << 8 * i;
	r->at += bytes;
	return value;
}

double row_binary_real(struct row_binary *r)
{
	uint64_t bits = row_binary_fixed(r, 8);
	double value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

size_t row_binary_length(struct row_binary *r, size_t item)
{
	uint64_t value = 0;

	for (unsigned shift = 0; shift < 64; shift += 7) {
		uint64_t byte = row_binary_fixed(r, 1);

		value |= (byte & 0x7f) << shift;
		if (!(byte & 0x80))
			break;
	}
	if (value > (size_t)(r->end - r->at) / item) {
		r->short_ = true;
		r->at = r->end;
		return 0;
	}
	return (size_t)value;
}

void row_binary_put_text(struct bytes *b, const char *text)
{
	size_t length = strlen(text);

	bytes_put_u(b, length);
	bytes_put(b, text, length);
}

void row_binary_put_real(struct bytes *b, double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	bytes_put_fixed(b, bits, 8);
}
