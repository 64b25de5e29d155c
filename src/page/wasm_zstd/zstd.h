/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What format/compress.c uses of zstd, for WebAssembly: Debian has no zstd for it. The page brings
 * a decoder (zstddec of npm) and lends it to the reader. Nothing is compressed there: the linker
 * leaves out what calls the functions for that.
 */
#ifndef MAYFLY_WASM_ZSTD_H
#define MAYFLY_WASM_ZSTD_H

#include <stddef.h>

typedef struct zstd_context ZSTD_CCtx;
typedef struct zstd_context ZSTD_DCtx;

ZSTD_CCtx *ZSTD_createCCtx(void);
size_t ZSTD_freeCCtx(ZSTD_CCtx *context);
size_t ZSTD_compressBound(size_t size);
size_t ZSTD_compressCCtx(ZSTD_CCtx *context, void *to, size_t room, const void *from, size_t size,
			 int level);
ZSTD_DCtx *ZSTD_createDCtx(void);
size_t ZSTD_freeDCtx(ZSTD_DCtx *context);
size_t ZSTD_decompressDCtx(ZSTD_DCtx *context, void *to, size_t room, const void *from,
			   size_t size);
unsigned ZSTD_isError(size_t result);

#endif
