/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading protocol buffers, field by field, from untrusted bytes.
 *
 *	struct protobuf in = protobuf_begin(bytes, size);
 *	struct protobuf_field f;
 *	while (protobuf_next(&in, &f))
 *		switch (f.number) { case 1: f.value ... case 2: f.bytes, f.size ... }
 *	if (in.bad) ...
 */
#ifndef MAYFLY_PROTOBUF_READ_H
#define MAYFLY_PROTOBUF_READ_H

#include "base/varint.h"

struct protobuf {
	struct varint_in in;
	bool bad; /* damage: there are bytes, but no valid next field */
};

struct protobuf_field {
	uint32_t number;
	uint64_t value;	      /* for numbers */
	const uint8_t *bytes; /* for texts, messages and packed lists; otherwise NULL */
	size_t size;
};

static inline struct protobuf protobuf_begin(const void *data, size_t size)
{
	return (struct protobuf){.in = varint_begin(data, size)};
}

static inline bool protobuf_next(struct protobuf *p, struct protobuf_field *f)
{
	uint64_t tag, length;

	if (p->bad || !varint_left(&p->in))
		return false;
	tag = varint_u(&p->in);
	*f = (struct protobuf_field){.number = (uint32_t)(tag >> 3)};
	switch (tag & 7) {
	case 0:
		f->value = varint_u(&p->in);
		break;
	case 1:
		f->value = varint_fixed(&p->in, 8);
		break;
	case 2:
		length = varint_u(&p->in);
		f->bytes = varint_bytes(&p->in, length);
		f->size = (size_t)length;
		break;
	case 5:
		f->value = varint_fixed(&p->in, 4);
		break;
	default:
		p->in.bad = true;
	}
	p->bad = p->in.bad || !f->number || tag > UINT32_MAX;
	return !p->bad;
}

/* Calls take() for each number of a repeated field, packed or not, until it returns other than 0,
 * and returns that. */
static inline int protobuf_numbers(const struct protobuf_field *f,
				   int (*take)(void *context, uint64_t value), void *context)
{
	struct varint_in in;
	int result = 0;

	if (!f->bytes)
		return take(context, f->value);
	in = varint_begin(f->bytes, f->size);
	while (!result && varint_left(&in)) {
		uint64_t value = varint_u(&in);

		result = in.bad ? -1 : take(context, value);
	}
	return result;
}

#endif
