/* SPDX-License-Identifier: Apache-2.0 */
/* A growing block of bytes. When it cannot grow it says so (`failed`) and ignores what follows. */
#ifndef MAYFLY_BYTES_H
#define MAYFLY_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bytes {
	uint8_t *at;
	size_t used, size;
	bool failed;
};

uint8_t *bytes_extend(struct bytes *b, size_t count); /* room for count more, or NULL */
void bytes_put(struct bytes *b, const void *data, size_t size);
void bytes_put_u(struct bytes *b, uint64_t value);		       /* LEB128 */
void bytes_put_s(struct bytes *b, int64_t value);		       /* zigzag LEB128 */
void bytes_put_fixed(struct bytes *b, uint64_t value, unsigned count); /* little endian */
void bytes_free(struct bytes *b);

bool bytes_all_zero(const void *data, size_t size);

/* Eight bytes, little endian; compilers make one load of it. */
static inline uint64_t bytes_load(const uint8_t *at)
{
	return (uint64_t)at[0] | (uint64_t)at[1] << 8 | (uint64_t)at[2] << 16 |
	       (uint64_t)at[3] << 24 | (uint64_t)at[4] << 32 | (uint64_t)at[5] << 40 |
	       (uint64_t)at[6] << 48 | (uint64_t)at[7] << 56;
}

/* The same for a store. As a loop it would stay a loop: eight stores. */
static inline void bytes_store(uint8_t *at, uint64_t value)
{
	at[0] = (uint8_t)value;
	at[1] = (uint8_t)(value >> 8);
	at[2] = (uint8_t)(value >> 16);
	at[3] = (uint8_t)(value >> 24);
	at[4] = (uint8_t)(value >> 32);
	at[5] = (uint8_t)(value >> 40);
	at[6] = (uint8_t)(value >> 48);
	at[7] = (uint8_t)(value >> 56);
}

#endif
