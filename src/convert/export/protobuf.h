/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing messages of protocol buffers, with three wire types.
 *
 *	field number << 3 | type, then	0 varint   1 eight bytes   2 length as varint, bytes
 *
 * A nested message is first made in a separate buffer, since its length precedes it.
 */
#ifndef MAYFLY_PROTOBUF_H
#define MAYFLY_PROTOBUF_H

#include "base/bytes.h"

void protobuf_unsigned(struct bytes *p, uint32_t field, uint64_t value);
void protobuf_signed(struct bytes *p, uint32_t field, int64_t value); /* int64, not sint64 */
void protobuf_fixed(struct bytes *p, uint32_t field, uint64_t value); /* fixed64 */
void protobuf_double(struct bytes *p, uint32_t field, double value);
void protobuf_bytes(struct bytes *p, uint32_t field, const void *bytes, size_t size);
/* Bytes that are not UTF-8 become U+FFFD. */
void protobuf_text(struct bytes *p, uint32_t field, const char *text);
/* A nested message, or a packed field made with bytes_put_u(); `inner` is emptied. */
void protobuf_message(struct bytes *p, uint32_t field, struct bytes *inner);

#endif
