/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading little-endian numbers and LEB128 varints from untrusted bytes. A read past the end or of
 * a number that does not fit gives 0 and sets `bad`, which stays set: check it once at the end.
 */
#ifndef MAYFLY_VARINT_H
#define MAYFLY_VARINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct varint_in {
	const uint8_t *at, *end;
	bool bad;
};

static inline struct varint_in varint_begin(const void *data, size_t size)
{
	/* An empty input may have no address, to which nothing may be added. */
	static const uint8_t nothing = 0;

	if (!data)
		data = &nothing;
	return (struct varint_in){.at = data, .end = (const uint8_t *)data + size};
}

static inline size_t varint_left(const struct varint_in *in)
{
	return (size_t)(in->end - in->at);
}

static inline uint64_t varint_fail(struct varint_in *in)
{
	in->bad = true;
	in->at = in->end;
	return 0;
}

static inline uint8_t varint_byte(struct varint_in *in)
{
	if (in->at == in->end)
		return (uint8_t)varint_fail(in);
	return *in->at++;
}

/* `bytes` (1 to 8) of a little-endian number. */
static inline uint64_t varint_fixed(struct varint_in *in, unsigned bytes)
{
	uint64_t value = 0;

	if (varint_left(in) < bytes)
		return varint_fail(in);
	for (unsigned i = 0; i < bytes; i++)
		value |= (uint64_t)in->at[i] << (8 * i);
	in->at += bytes;
	return value;
}

static inline uint64_t varint_u(struct varint_in *in)
{
	uint64_t value = 0;

	for (unsigned shift = 0; shift < 64; shift += 7) {
		uint8_t byte = varint_byte(in);

		if (shift == 63 && byte > 1)
			return varint_fail(in);
		value |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return value;
	}
	return varint_fail(in);
}

static inline uint64_t varint_zigzag(int64_t value)
{
	return (uint64_t)value << 1 ^ (uint64_t)(value >> 63);
}

/* As unsigned, in which sums may wrap. */
static inline uint64_t varint_unzigzag(uint64_t value)
{
	return value >> 1 ^ -(value & 1);
}

static inline int64_t varint_s(struct varint_in *in)
{
	return (int64_t)varint_unzigzag(varint_u(in));
}

/* A run of bytes; NULL: there are fewer. */
static inline const uint8_t *varint_bytes(struct varint_in *in, uint64_t count)
{
	const uint8_t *bytes = in->at;

	if (count > varint_left(in)) {
		varint_fail(in);
		return NULL;
	}
	in->at += count;
	return bytes;
}

/* Stores at most 10 bytes, returns how many. */
static inline size_t varint_store(uint8_t *to, uint64_t value)
{
	size_t length = 0;

	for (; value >= 0x80; value >>= 7)
		to[length++] = (uint8_t)(value | 0x80);
	to[length++] = (uint8_t)value;
	return length;
}

#endif
