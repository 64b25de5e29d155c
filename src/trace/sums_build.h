/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adds up the history for SUMS. Used by the writer, and by the reader where a trace was cut off
 * before its SUMS came.
 *
 *	events of a span of chunks: |--------- before ---------|------ after ------|
 *	                                                       ^ the largest live bytes so far
 *
 * The two become parts of a SUMS chunk when the span ends. When a chunk reaches a new maximum, what
 * came after the old one is added to `before`. So a span has at most two parts, and the state at
 * the peak is known.
 */
#ifndef MAYFLY_SUMS_BUILD_H
#define MAYFLY_SUMS_BUILD_H

#include <mayfly/trace.h>

#include "format/events.h"

/* A span ends with the chunk that makes it this long. */
#define SUMS_SPAN_EVENTS (4 * 262144u)

/* allocs: inherited blocks too, which come into the history as allocations. */
struct sums_entry {
	uint32_t node;
	uint64_t allocs, alloc_bytes, frees, free_bytes, temps, temp_bytes;
	uint64_t inherited, inherited_bytes;
};

struct sums_build {
	uint32_t *place; /* of each node: its entry + 1, or 0 */
	size_t places;
	struct sums_entry *entry;
	size_t entries, room;
	uint64_t events, largest_bytes;
	int64_t from_ns, to_ns;
};

struct sums_span {
	struct sums_build before, after;
	uint64_t live_bytes, most_bytes; /* now, and ever */
	uint64_t end_event;
};

#define SUMS_LEFT_OUT UINT32_MAX

/* Blocks inside other blocks (MAYFLY_HEAP_POOL), and mappings, do not count. */
static inline bool sums_leave_out(uint32_t flags)
{
	return MAYFLY_FLAG_HEAP(flags) == MAYFLY_HEAP_POOL ||
	       MAYFLY_FLAG_HEAP(flags) == MAYFLY_HEAP_MAPPING;
}

/* One chunk of events; of each free, the block's node and size: SUMS_LEFT_OUT and 0 when it does
 * not count. */
struct sums_events {
	const struct event_batch *batch;
	const uint32_t *free_node;
	const uint64_t *free_size;
	/* Results: live bytes at the end, and the largest. */
	uint64_t live_bytes, largest_bytes;
};

/* The functions that return bool: false when out of memory. nodes: numbers are below. */
bool sums_add_chunk(struct sums_span *s, struct sums_events *events, size_t nodes);
bool sums_add(struct sums_build *b, uint32_t node, uint64_t size, bool is_free, uint32_t flags,
	      size_t nodes); /* flags: MAYFLY_FLAG_... of the event */
/* Many blocks of one node at once. */
bool sums_add_counts(struct sums_build *b, const struct sums_entry *counts, size_t nodes);
void sums_clear(struct sums_build *b);
void sums_sort(struct sums_build *b);
void sums_free(struct sums_span *s);

#endif
