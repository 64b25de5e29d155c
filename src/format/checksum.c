/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CRC-32, eight bytes at a time. Table k says what a byte that is followed by k more bytes adds to
 * the checksum. A checksum is linear, so an entry is the xor of the entries of the byte's single
 * bits, and only those 8 x 8 numbers stand here.
 */
#include "base/bytes.h"
#include "format/format.h"

/* clang-format off */
#define BIT(b, i, one)	((b) >> (i) & 1 ? (one) : 0)
#define ENTRY(b, c0, c1, c2, c3, c4, c5, c6, c7)                                                   \
	(BIT(b, 0, c0) ^ BIT(b, 1, c1) ^ BIT(b, 2, c2) ^ BIT(b, 3, c3) ^                           \
	 BIT(b, 4, c4) ^ BIT(b, 5, c5) ^ BIT(b, 6, c6) ^ BIT(b, 7, c7))
#define FOUR(b, ...)                                                                               \
	ENTRY((b), __VA_ARGS__), ENTRY((b) + 1, __VA_ARGS__), ENTRY((b) + 2, __VA_ARGS__),         \
	ENTRY((b) + 3, __VA_ARGS__)
#define SIXTEEN(b, ...)                                                                            \
	FOUR((b), __VA_ARGS__), FOUR((b) + 4, __VA_ARGS__), FOUR((b) + 8, __VA_ARGS__),            \
	FOUR((b) + 12, __VA_ARGS__)
#define SIXTY_FOUR(b, ...)                                                                         \
	SIXTEEN((b), __VA_ARGS__), SIXTEEN((b) + 16, __VA_ARGS__),                                 \
	SIXTEEN((b) + 32, __VA_ARGS__), SIXTEEN((b) + 48, __VA_ARGS__)
#define SLICE(...)                                                                                 \
	{SIXTY_FOUR(0, __VA_ARGS__), SIXTY_FOUR(64, __VA_ARGS__),                                  \
	 SIXTY_FOUR(128, __VA_ARGS__), SIXTY_FOUR(192, __VA_ARGS__)}

static const uint32_t table[8][256] = {
	SLICE(0x77073096u, 0xee0e612cu, 0x076dc419u, 0x0edb8832u, 0x1db71064u, 0x3b6e20c8u, 0x76dc4190u, 0xedb88320u),
	SLICE(0x191b3141u, 0x32366282u, 0x646cc504u, 0xc8d98a08u, 0x4ac21251u, 0x958424a2u, 0xf0794f05u, 0x3b83984bu),
	SLICE(0x01c26a37u, 0x0384d46eu, 0x0709a8dcu, 0x0e1351b8u, 0x1c26a370u, 0x384d46e0u, 0x709a8dc0u, 0xe1351b80u),
	SLICE(0xb8bc6765u, 0xaa09c88bu, 0x8f629757u, 0xc5b428efu, 0x5019579fu, 0xa032af3eu, 0x9b14583du, 0xed59b63bu),
	SLICE(0x3d6029b0u, 0x7ac05360u, 0xf580a6c0u, 0x30704bc1u, 0x60e09782u, 0xc1c12f04u, 0x58f35849u, 0xb1e6b092u),
	SLICE(0xcb5cd3a5u, 0x4dc8a10bu, 0x9b914216u, 0xec53826du, 0x03d6029bu, 0x07ac0536u, 0x0f580a6cu, 0x1eb014d8u),
	SLICE(0xa6770bb4u, 0x979f1129u, 0xf44f2413u, 0x33ef4e67u, 0x67de9cceu, 0xcfbd399cu, 0x440b7579u, 0x8816eaf2u),
	SLICE(0xccaa009eu, 0x4225077du, 0x844a0efau, 0xd3e51bb5u, 0x7cbb312bu, 0xf9766256u, 0x299dc2edu, 0x533b85dau),
};
/* clang-format on */

uint32_t trace_checksum(uint32_t crc, const void *data, size_t size)
{
	const uint8_t *at = data;

	crc = ~crc;
	for (; size >= 8; size -= 8, at += 8) {
		uint64_t x = bytes_load(at) ^ crc;

		crc = table[7][x & 0xff] ^ table[6][x >> 8 & 0xff] ^ table[5][x >> 16 & 0xff] ^
		      table[4][x >> 24 & 0xff] ^ table[3][x >> 32 & 0xff] ^
		      table[2][x >> 40 & 0xff] ^ table[1][x >> 48 & 0xff] ^ table[0][x >> 56];
	}
	while (size--)
		crc = crc >> 8 ^ table[0][(crc ^ *at++) & 0xff];
	return ~crc;
}
