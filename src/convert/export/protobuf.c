/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of protocol buffers: see protobuf.h. */
#include "convert/export/protobuf.h"

#include <string.h>

#include "convert/out.h"

enum wire_type { VARINT = 0, FIXED = 1, BYTES = 2 };

static void tag(struct bytes *p, uint32_t field, enum wire_type type)
{
	bytes_put_u(p, (uint64_t)field << 3 | type);
}

void protobuf_unsigned(struct bytes *p, uint32_t field, uint64_t value)
{
	tag(p, field, VARINT);
	bytes_put_u(p, value);
}

void protobuf_signed(struct bytes *p, uint32_t field, int64_t value)
{
	protobuf_unsigned(p, field, (uint64_t)value);
}

void protobuf_fixed(struct bytes *p, uint32_t field, uint64_t value)
{
	tag(p, field, FIXED);
	bytes_put_fixed(p, value, 8);
}

void protobuf_double(struct bytes *p, uint32_t field, double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	protobuf_fixed(p, field, bits);
}

void protobuf_bytes(struct bytes *p, uint32_t field, const void *bytes, size_t size)
{
	tag(p, field, BYTES);
	bytes_put_u(p, size);
	bytes_put(p, bytes, size);
}

/* Readers refuse text that is not UTF-8. */
void protobuf_text(struct bytes *p, uint32_t field, const char *text)
{
	const char *at = text;
	size_t size = 0, length;

	for (; *at; at += length ? length : 1) {
		length = utf8_length(at);
		size += length ? length : strlen(UTF8_REPLACEMENT);
	}
	tag(p, field, BYTES);
	bytes_put_u(p, size);
	for (at = text; *at; at += length ? length : 1) {
		length = utf8_length(at);
		if (length)
			bytes_put(p, at, length);
		else
			bytes_put(p, UTF8_REPLACEMENT, strlen(UTF8_REPLACEMENT));
	}
}

void protobuf_message(struct bytes *p, uint32_t field, struct bytes *inner)
{
	p->failed |= inner->failed;
	protobuf_bytes(p, field, inner->at, inner->used);
	inner->used = 0;
}
