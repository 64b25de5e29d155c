/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader in the page: what viewer/src/engine/wasm.ts calls. There is one trace, and perhaps one
 * to compare with, for the life of the instance. What the page puts into reader_room() stays there.
 */
#ifndef MAYFLY_PAGE_WASM_H
#define MAYFLY_PAGE_WASM_H

#include <stddef.h>

#ifdef __wasm__
#define WASM_EXPORT(name) __attribute__((export_name(#name)))
#define WASM_IMPORT(name) __attribute__((import_module("env"), import_name(#name)))
#else
#define WASM_EXPORT(name)
#define WASM_IMPORT(name)
#endif

/* NULL: out of memory. */
WASM_EXPORT(reader_room) void *reader_room(size_t size);

/* which: 0 the trace, 1 the base. 0, or another number after which reader_error() has a text. */
WASM_EXPORT(reader_open)
int reader_open(int which, const void *data, size_t size, const char *name);
WASM_EXPORT(reader_error) const char *reader_error(void);

/* The text of a source file. 0, or another number: out of memory. */
WASM_EXPORT(reader_source) int reader_source(const char *path, const char *text, size_t size);

/* Returns an enum view_status and frees the request; the answer is there until reader_release(). */
WASM_EXPORT(reader_ask) int reader_ask(char *request);
WASM_EXPORT(reader_type) const char *reader_type(void);
WASM_EXPORT(reader_answer) const void *reader_answer(void);
WASM_EXPORT(reader_answer_size) size_t reader_answer_size(void);
WASM_EXPORT(reader_release) void reader_release(void);

/* The page's: 1 if `from` was sound and became exactly `room` bytes. */
WASM_IMPORT(zstd_decompress)
int zstd_decompress(void *to, size_t room, const void *from, size_t size);

#endif
