/* SPDX-License-Identifier: Apache-2.0 */
/* Fields of records: see format/spool_format.h. */
#ifndef MAYFLY_FIELDS_H
#define MAYFLY_FIELDS_H

#include <stddef.h>
#include <stdint.h>

static inline uint64_t zigzag(uint64_t number)
{
	return number << 1 ^ (uint64_t)((int64_t)number >> 63);
}

/* A field of 1, 2, 4 or 8 bytes. 8 are always stored; the next field overwrites the rest.
 * The code of a width by the number of the top byte, two bits each, is 0 1 2 2 3 3 3 3. */
static inline uint8_t *put_field(uint8_t *at, uint64_t number, uint32_t *code)
{
	uint32_t top = 63 ^ (uint32_t)__builtin_clzll(number | 1); /* 63 - ... takes two more */
	uint32_t width = 0xffa4u >> (top >> 2 & 14) & 3;

	__builtin_memcpy(at, &number, 8);
	*code = width;
	return at + (1u << width);
}

static inline uint8_t *put_u16(uint8_t *at, uint32_t number)
{
	uint16_t word = (uint16_t)number;

	__builtin_memcpy(at, &word, 2);
	return at + 2;
}

/* As text without a terminator: at most 20 bytes, of which the number is returned. */
static inline size_t put_decimal(char *out, uint64_t number)
{
	char digits[20];
	size_t length = 0, n = 0;

	do
		digits[length++] = (char)('0' + number % 10);
	while (number /= 10);
	while (length)
		out[n++] = digits[--length];
	return n;
}

/* Unsigned LEB128: at most 10 bytes. */
static inline uint8_t *put_u(uint8_t *at, uint64_t number)
{
	while (number >= 0x80) {
		*at++ = (uint8_t)number | 0x80;
		number >>= 7;
	}
	*at++ = (uint8_t)number;
	return at;
}

#endif
