/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of protocol buffers: see protobuf.h. */
#include "convert/protobuf.h"

#include <stdlib.h>
#include <string.h>

#include "convert/out.h"

enum wire_type { VARINT = 0, FIXED64 = 1, BYTES = 2 };

void protobuf_clear(struct protobuf *p)
{
	p->size = 0;
}

void protobuf_free(struct protobuf *p)
{
	free(p->data);
	*p = (struct protobuf){0};
}

static bool reserve(struct protobuf *p, size_t more)
{
	size_t capacity = p->capacity ? p->capacity : 256;
	uint8_t *bigger;

	if (p->failed || more > SIZE_MAX / 4 - p->size) {
		p->failed = true;
		return false;
	}
	if (p->size + more <= p->capacity)
		return true;
	while (capacity < p->size + more)
		capacity *= 2;
	bigger = realloc(p->data, capacity);
	if (!bigger) {
		p->failed = true;
		return false;
	}
	p->data = bigger;
	p->capacity = capacity;
	return true;
}

void protobuf_varint(struct protobuf *p, uint64_t value)
{
	if (!reserve(p, 10))
		return;
	while (value >= 0x80) {
		p->data[p->size++] = (uint8_t)(value | 0x80);
		value >>= 7;
	}
	p->data[p->size++] = (uint8_t)value;
}

static void tag(struct protobuf *p, uint32_t field, enum wire_type type)
{
	protobuf_varint(p, (uint64_t)field << 3 | type);
}

void protobuf_unsigned(struct protobuf *p, uint32_t field, uint64_t value)
{
	tag(p, field, VARINT);
	protobuf_varint(p, value);
}

void protobuf_signed(struct protobuf *p, uint32_t field, int64_t value)
{
	protobuf_unsigned(p, field, (uint64_t)value);
}

void protobuf_fixed64(struct protobuf *p, uint32_t field, uint64_t value)
{
	tag(p, field, FIXED64);
	if (!reserve(p, 8))
		return;
	for (int i = 0; i < 8; i++)
		p->data[p->size++] = (uint8_t)(value >> 8 * i);
}

void protobuf_double(struct protobuf *p, uint32_t field, double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	protobuf_fixed64(p, field, bits);
}

void protobuf_bytes(struct protobuf *p, uint32_t field, const void *bytes, size_t size)
{
	tag(p, field, BYTES);
	protobuf_varint(p, size);
	if (size == 0 || !reserve(p, size))
		return;
	memcpy(p->data + p->size, bytes, size);
	p->size += size;
}

/* Readers refuse text that is not UTF-8. */
void protobuf_text(struct protobuf *p, uint32_t field, const char *text)
{
	const char *at = text;
	size_t size = 0, length;

	for (; *at; at += length ? length : 1) {
		length = utf8_length(at);
		size += length ? length : strlen(UTF8_REPLACEMENT);
	}
	tag(p, field, BYTES);
	protobuf_varint(p, size);
	if (!reserve(p, size))
		return;
	for (at = text; *at; at += length ? length : 1) {
		length = utf8_length(at);
		size = length ? length : strlen(UTF8_REPLACEMENT);
		memcpy(p->data + p->size, length ? at : UTF8_REPLACEMENT, size);
		p->size += size;
	}
}

void protobuf_message(struct protobuf *p, uint32_t field, const struct protobuf *inner)
{
	p->failed |= inner->failed;
	protobuf_bytes(p, field, inner->data, inner->size);
}
