/* SPDX-License-Identifier: Apache-2.0 */
/* Compression by zstd, and memory that is used again. */
#include "format/compress.h"

#include <mayfly/trace.h>

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#define KEPT_BLOCKS 64
#define KEPT_BYTES  ((size_t)64 << 20)
#define KEPT_LEAST  1024 /* smaller blocks are left to malloc */

/* Stands before each block of memory. */
union block_head {
	size_t size; /* without the head */
	max_align_t align;
};

struct compress {
	int level;
	ZSTD_CCtx *in;	/* made when first needed */
	ZSTD_DCtx *out; /* likewise */
	union block_head *kept[KEPT_BLOCKS];
	size_t kept_count, kept_bytes;
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
	while (c->kept_count)
		free(c->kept[--c->kept_count]);
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

int compress_expand(struct compress *c, void *to, size_t size, const void *from, size_t compressed)
{
	if (!c->out)
		c->out = ZSTD_createDCtx();
	if (!c->out)
		return MAYFLY_E_MEMORY;
	/* An error code is larger than any size. */
	return ZSTD_decompressDCtx(c->out, to, size, from, compressed) == size ? 0
									       : MAYFLY_E_DAMAGED;
}

/* The smallest kept block that is large enough and not twice as large as wanted. */
static union block_head *find_kept(struct compress *c, size_t size)
{
	size_t best = SIZE_MAX;
	union block_head *block;

	for (size_t i = 0; i < c->kept_count; i++)
		if (c->kept[i]->size >= size && c->kept[i]->size / 2 <= size &&
		    (best == SIZE_MAX || c->kept[i]->size < c->kept[best]->size))
			best = i;
	if (best == SIZE_MAX)
		return NULL;
	block = c->kept[best];
	c->kept[best] = c->kept[--c->kept_count];
	c->kept_bytes -= block->size;
	return block;
}

void *compress_take(struct compress *c, size_t size, bool zeroed)
{
	union block_head *block = find_kept(c, size);

	if (block) {
		if (zeroed)
			memset(block + 1, 0, size);
		return block + 1;
	}
	if (size > SIZE_MAX - sizeof(*block))
		return NULL;
	/* Large fresh memory is zero anyway and calloc knows it. */
	block = zeroed ? calloc(1, sizeof(*block) + size) : malloc(sizeof(*block) + size);
	if (!block)
		return NULL;
	block->size = size;
	return block + 1;
}

void compress_give_back(struct compress *c, void *memory)
{
	union block_head *block = memory;

	if (!memory)
		return;
	block--;
	if (block->size < KEPT_LEAST || block->size > KEPT_BYTES - c->kept_bytes) {
		free(block);
		return;
	}
	if (c->kept_count == KEPT_BLOCKS) {
		/* The oldest ones are freed: the sizes of chunks may have changed. */
		c->kept_bytes -= c->kept[0]->size;
		free(c->kept[0]);
		c->kept[0] = c->kept[--c->kept_count];
	}
	c->kept[c->kept_count++] = block;
	c->kept_bytes += block->size;
}
