/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zstd in the page: see wasm_zstd/zstd.h. What is "compressed" there, for a spool or a file of
 * another tool that becomes a trace in memory, is a frame of blocks as they are:
 *
 *	28 b5 2f fd  a0  size (4)  [ last | size << 3 (3)  bytes ]...
 */
#ifdef __wasm__
#include "page/wasm.h"
#include "page/wasm_zstd/zstd.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define HEAD_BYTES  9
#define BLOCK_BYTES ((size_t)128 << 10)

struct zstd_context {
	char unused;
};

static struct zstd_context the_context;

ZSTD_CCtx *ZSTD_createCCtx(void)
{
	return &the_context;
}

size_t ZSTD_freeCCtx(ZSTD_CCtx *context)
{
	(void)context;
	return 0;
}

size_t ZSTD_compressBound(size_t size)
{
	return HEAD_BYTES + size + 3 * (size / BLOCK_BYTES + 1);
}

size_t ZSTD_compressCCtx(ZSTD_CCtx *context, void *to, size_t room, const void *from, size_t size,
			 int level)
{
	static const uint8_t magic[] = {0x28, 0xb5, 0x2f, 0xfd, 0xa0};
	const uint8_t *at = from;
	uint8_t *end = to;
	bool last = false;

	(void)context;
	(void)level;
	if (room < ZSTD_compressBound(size))
		return SIZE_MAX;
	memcpy(end, magic, sizeof(magic));
	end += sizeof(magic);
	for (int i = 0; i < 4; i++)
		*end++ = (uint8_t)(size >> 8 * i);
	while (!last) {
		size_t part = size < BLOCK_BYTES ? size : BLOCK_BYTES;

		last = part == size;
		for (int i = 0; i < 3; i++)
			*end++ = (uint8_t)((last | part << 3) >> 8 * i);
		if (part)
			memcpy(end, at, part);
		at += part;
		end += part;
		size -= part;
	}
	return (size_t)(end - (uint8_t *)to);
}

ZSTD_DCtx *ZSTD_createDCtx(void)
{
	return &the_context;
}

size_t ZSTD_freeDCtx(ZSTD_DCtx *context)
{
	(void)context;
	return 0;
}

size_t ZSTD_decompressDCtx(ZSTD_DCtx *context, void *to, size_t room, const void *from, size_t size)
{
	(void)context;
	return zstd_decompress(to, room, from, size) ? room : SIZE_MAX;
}

unsigned ZSTD_isError(size_t result)
{
	return result == SIZE_MAX;
}
#endif
