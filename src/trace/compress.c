/* SPDX-License-Identifier: Apache-2.0 */
/* Compression by zstd. */
#include "trace/compress.h"

#include <stdlib.h>
#include <zstd.h>

struct compress {
	int level;
	ZSTD_CCtx *in;	/* made when first needed */
	ZSTD_DCtx *out; /* likewise */
};

struct compress *compress_new(int level)
{
	struct compress *c = calloc(1, sizeof(*c));

	if (c)
		c->level = level;
	return c;
}

void compress_free(struct compress *c)
{
	if (!c)
		return;
	ZSTD_freeCCtx(c->in);
	ZSTD_freeDCtx(c->out);
	free(c);
}

size_t compress_bound(size_t size)
{
	return ZSTD_compressBound(size);
}

size_t compress_block(struct compress *c, void *to, size_t room, const void *from, size_t size)
{
	size_t result;

	if (!c->in)
		c->in = ZSTD_createCCtx();
	if (!c->in)
		return 0;
	result = ZSTD_compressCCtx(c->in, to, room, from, size, c->level);
	return ZSTD_isError(result) ? 0 : result;
}

bool compress_expand(struct compress *c, void *to, size_t size, const void *from, size_t compressed)
{
	if (!c->out)
		c->out = ZSTD_createDCtx();
	/* An error code is larger than any size. */
	return c->out && ZSTD_decompressDCtx(c->out, to, size, from, compressed) == size;
}
