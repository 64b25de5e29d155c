/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Columns: arrays of numbers or bytes, coded in the shortest of several ways. doc/FORMAT.md,
 * "Columns". Both directions.
 */
#ifndef MAYFLY_COLUMNS_H
#define MAYFLY_COLUMNS_H

#include "base/bytes.h"
#include "format/compress.h"
#include "base/varint.h"

#define COLUMNS_MOST 64 /* ids are below */

struct column {
	unsigned id;
	const uint64_t *value; /* `count` numbers, or: */
	size_t count;
	const void *bytes; /* `size` bytes */
	size_t size;
};

/* ---- writing ---- */

struct column_writer; /* compression contexts, scratch memory; used again from chunk to chunk */

/* In place of a level: for many small files, where time counts more than size. */
#define COLUMNS_LEAN 0

struct column_writer *column_writer_new(int level);
void column_writer_free(struct column_writer *w);

/* Appends one whole chunk (header, CRC, contents) to *out: `head`, then the columns; absent are
 * those that are all zero. Out of memory shows as out->failed. */
void chunk_write(struct column_writer *w, struct bytes *out, uint32_t type,
		 const struct bytes *head, const struct column *column, size_t columns);

/* A chunk while it is made: its head, and its columns in the order in which they are written. */
struct chunk_maker {
	struct bytes head;
	struct column column[12];
	size_t columns;
	bool failed; /* no memory */
};

/* A new column of `count` zeros for the caller to fill in. NULL: the chunk has failed. */
uint64_t *chunk_add(struct chunk_maker *c, unsigned id, size_t count);
/* Appends the chunk to *out as chunk_write() does, and frees it. */
void chunk_finish(struct chunk_maker *c, struct column_writer *w, uint32_t type, struct bytes *out);
void chunk_drop(struct chunk_maker *c);

/* About how long a set of columns would be, to choose between ways of saying the same. way: a small
 * number; the best codings are kept for each way. */
size_t columns_size(struct column_writer *w, const struct column *column, size_t columns,
		    uint32_t way);

/* The length of this column in the chunk written last; 0: absent. */
size_t column_written(const struct column_writer *w, unsigned id);

/* ---- reading ---- */

/* One chunk while it is decoded. Memory comes from a budget and goes back at the end. */
struct chunk_reader {
	struct compress *compress;
	uint64_t *budget; /* bytes that may still be taken */
	int error;	  /* the first one: enum mayfly_error */
	struct varint_in head;
	struct {
		bool present;
		unsigned coding;
		struct varint_in in;
	} column[COLUMNS_MOST];
	void **temp; /* freed by chunk_end() */
	size_t temps, temps_size;
	uint64_t temp_bytes;
};

struct chunk_header {
	uint32_t type, stored, plain;
	const uint8_t *bytes;
};

/* The chunk at `data`, its CRC checked when `check`. MAYFLY_E_EMPTY: it is cut off.
 * MAYFLY_E_DAMAGED: wrong. Its length in the file is TRACE_CHUNK_BYTES + h->stored. */
int chunk_find(const uint8_t *data, size_t size, bool check, struct chunk_header *h);

/* r->compress and r->budget are set by the caller, the rest zero. Then r->head stands at the
 * chunk's first byte: read the head's numbers, then call chunk_columns(). */
bool chunk_begin(struct chunk_reader *r, const struct chunk_header *h);
/* known: bit i is set if column i may be there. */
bool chunk_columns(struct chunk_reader *r, uint64_t known);
/* Numbers of a column, all zero when it is absent; NULL when it failed. They belong to the chunk.
 */
const uint64_t *chunk_numbers(struct chunk_reader *r, unsigned id, size_t count);
const uint32_t *chunk_numbers32(struct chunk_reader *r, unsigned id,
				size_t count);					  /* larger: bad */
const uint8_t *chunk_numbers8(struct chunk_reader *r, unsigned id, size_t count); /* likewise */
const uint8_t *chunk_bytes(struct chunk_reader *r, unsigned id, size_t *size);
void *chunk_memory(struct chunk_reader *r, uint64_t count, size_t item);       /* zeroed */
void *chunk_memory_dirty(struct chunk_reader *r, uint64_t count, size_t item); /* not zeroed */
void chunk_fail(struct chunk_reader *r, int error);
void chunk_end(struct chunk_reader *r);

#endif
