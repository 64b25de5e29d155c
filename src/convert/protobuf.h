/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of protocol buffers, as far as writing them goes: three wire types.
 *
 *	field number << 3 | type, then	0 varint   1 eight bytes   2 length as varint, bytes
 *
 * A message inside another is made in a buffer of its own first, since its length comes first.
 */
#ifndef MAYFLY_PROTOBUF_H
#define MAYFLY_PROTOBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct protobuf {
	uint8_t *data;
	size_t size, capacity;
	bool failed; /* out of memory */
};

void protobuf_clear(struct protobuf *p); /* empty; keeps its memory */
void protobuf_free(struct protobuf *p);

void protobuf_varint(struct protobuf *p, uint64_t value); /* bare, of packed fields */
void protobuf_unsigned(struct protobuf *p, uint32_t field, uint64_t value);
void protobuf_signed(struct protobuf *p, uint32_t field, int64_t value); /* int64, not sint64 */
void protobuf_double(struct protobuf *p, uint32_t field, double value);
void protobuf_fixed64(struct protobuf *p, uint32_t field, uint64_t value);
void protobuf_bytes(struct protobuf *p, uint32_t field, const void *bytes, size_t size);
/* What is not UTF-8 becomes U+FFFD. */
void protobuf_text(struct protobuf *p, uint32_t field, const char *text);
/* A message, or a packed field; `inner` is left as it is. */
void protobuf_message(struct protobuf *p, uint32_t field, const struct protobuf *inner);

#endif
