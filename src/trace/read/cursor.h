/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events by whole chunks, for callers that read many. mayfly_cursor_next() is built on this.
 *
 *	struct cursor_batch b;
 *	while ((result = cursor_next_batch(c, &b)) == 1) {
 *		size_t alloc = 0, freed = 0;
 *		for (size_t i = 0; i < b.e.events; i++)
 *			if (b.e.is_free[i])
 *				... b.freed[freed], b.e.free_thread[freed], freed++ ...
 *			else
 *				... b.e.size[alloc], b.e.node[alloc], alloc++ ...
 *	}
 */
#ifndef MAYFLY_CURSOR_H
#define MAYFLY_CURSOR_H

#include "format/events.h"
#include "trace/read/reader.h"

/* A block that is freed, as it was allocated. There are many, so the last four share one word;
 * their limits are TRACE_MAX_HITS, MAYFLY_LABEL_SETS and TRACE_MAX_INTERVAL. */
struct cursor_block {
	uint64_t size;
	int64_t time_ns;
	uint32_t node, thread;
	uint64_t hits : 30, labels : 20, interval_log2 : 6, flags : 8;
};

/* A block that moves to OCaml's major heap after `event` events of the chunk. */
struct cursor_promotion {
	size_t event;
	uint64_t number;
	int64_t time_ns;
	struct cursor_block block;
};

/* One chunk. The arrays are valid until the next call. */
struct cursor_batch {
	struct event_batch e;
	const struct cursor_block *freed; /* of each free; its number is e.freed[] */
	const int64_t *alloc_time_ns;	  /* of each allocation */
	const struct trace_chunk *chunk;
	const struct cursor_promotion *promotion; /* after mayfly_cursor_promotions() */
	size_t promotions;
};

/* 1: *batch is the next chunk; 0: no more; negative: error. Not to be mixed with
 * mayfly_cursor_next(). */
int cursor_next_batch(struct mayfly_cursor *cursor, struct cursor_batch *batch);

/*
 * The next batch will be that of this chunk (trace->chunk[]). Blocks from before it are then
 * unknown: a free of one cannot be checked, and gets a cursor_block with node UINT32_MAX. To be
 * called before the first batch.
 */
int cursor_start_at(struct mayfly_cursor *cursor, size_t chunk);

/* Checks a chunk of promotions, which r has begun; r->error tells how it went. */
void promotions_check(struct chunk_reader *r);

/* Calls live() with each block that is live after the last batch, in any order. */
void cursor_live(const struct mayfly_cursor *cursor,
		 void (*live)(void *context, uint64_t number, const struct cursor_block *block),
		 void *context);

#endif
