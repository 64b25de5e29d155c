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

#include "format/bytes.h"

void protobuf_unsigned(struct bytes *p, uint32_t field, uint64_t value);
void protobuf_signed(struct bytes *p, uint32_t field, int64_t value); /* int64, not sint64 */
void protobuf_fixed(struct bytes *p, uint32_t field, uint64_t value); /* fixed64 */
void protobuf_double(struct bytes *p, uint32_t field, double value);
void protobuf_bytes(struct bytes *p, uint32_t field, const void *bytes, size_t size);
/* What is not UTF-8 becomes U+FFFD. */
void protobuf_text(struct bytes *p, uint32_t field, const char *text);
/* A message, or a packed field, whose numbers bytes_put_u() makes; `inner` is left as it is. */
void protobuf_message(struct bytes *p, uint32_t field, const struct bytes *inner);

#endif
