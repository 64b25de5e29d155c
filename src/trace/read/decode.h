/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decodes one chunk of events as far as that is possible without other chunks: frees whose
 * allocation is in the same chunk get their blocks. So several chunks can be decoded at the same
 * time; cursor.c puts them together.
 */
#ifndef MAYFLY_DECODE_H
#define MAYFLY_DECODE_H

#include "trace/read/cursor.h"

#define BLOCK_GONE UINT32_MAX /* node of a block that was freed */

struct decoder {
	const struct mayfly_trace *t;
	const struct trace_chunk *chunk;
	struct chunk_header header;
	uint64_t budget;
	int error;
	struct chunk_reader reader;
	struct event_batch e;
	/* Kept from chunk to chunk. */
	struct cursor_block *own, *named; /* of each allocation; of each free */
	int64_t *own_ns;
	uint32_t *early; /* frees that name a block from before the chunk: not yet in named[] */
	size_t own_room, named_room;
	size_t own_live, earlies;
	void *task; /* the cursor's: a helper decodes this chunk */
};

bool decoder_begin(struct decoder *d, const struct mayfly_trace *t);
void decoder_end(struct decoder *d);

/* Decodes d->chunk into the arrays; d->error. They are valid until decoder_clear(). */
void decoder_run(struct decoder *d);
void decoder_clear(struct decoder *d);

void decode_block(const struct event_batch *e, size_t alloc, int64_t time_ns,
		  struct cursor_block *block);

/* Replaces the array by one of at least `want` items with any contents. False: *error is set. */
bool decode_room(uint64_t *budget, int *error, void *array, size_t room, size_t want, size_t item);

#endif
