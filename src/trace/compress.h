/* SPDX-License-Identifier: Apache-2.0 */
/* Compression of blocks of memory. compress.c is the only file that knows which library does it. */
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

/* True when `from` was sound and became exactly `size` bytes. */
bool compress_expand(struct compress *c, void *to, size_t size, const void *from,
		     size_t compressed);

#endif
