/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compression of blocks of memory, and memory that is used again from chunk to chunk: fresh pages
 * cost more than decoding does. compress.c is the only file that knows which library compresses.
 */
#ifndef MAYFLY_COMPRESS_H
#define MAYFLY_COMPRESS_H

#include <stdbool.h>
#include <stddef.h>

struct compress; /* working memory, used again from block to block */

/* level: zstd's; it does not matter for expanding. NULL: out of memory. */
struct compress *compress_new(int level);
void compress_free(struct compress *c);

/* The most that `size` bytes can become. */
size_t compress_bound(size_t size);

/* Returns the compressed size, 0 when it failed. */
size_t compress_block(struct compress *c, void *to, size_t room, const void *from, size_t size);

/* 0 if `from` was sound and became exactly `size` bytes, else MAYFLY_E_DAMAGED, or MAYFLY_E_MEMORY. */
int compress_expand(struct compress *c, void *to, size_t size, const void *from, size_t compressed);

/* Memory of `size` bytes, with any contents unless `zeroed`; NULL: out of memory. compress_free()
 * frees only memory that was given back before. */
void *compress_take(struct compress *c, size_t size, bool zeroed);
void compress_give_back(struct compress *c, void *memory);

#endif
