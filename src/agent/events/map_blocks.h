/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program's own mappings as blocks of a heap (SPOOL_HEAP_MAPPING).
 *
 * What the program maps by mmap or mremap, AGENT_MAP_BLOCK_LEAST bytes or more, is a block: anonymous, shared, of a
 * file. Each is recorded, in sampled mode too, as it costs a system call anyway. Left out is what an allocator
 * maps whose blocks are recorded: a call from the module that defines malloc, or from one of the functions given to
 * ranges_exempt(). The C library's own mappings (of its malloc, its threads, its loader) pass the hooks by.
 *
 * While another thread forks, calls may not be recorded: the program's handlers for the fork may wait for what the
 * caller holds. A note says so.
 *
 * In both modes such blocks have ids, so the end of one may be recorded when it is over: see ranges.h.
 */
#ifndef MAYFLY_MAP_BLOCKS_H
#define MAYFLY_MAP_BLOCKS_H

#include "agent/agent.h"
#include "agent/life.h"
#include "agent/ranges.h"
#include "agent/unwind/walk.h"

/* After a call of mmap that has succeeded: what was mapped there before is gone. file: its descriptor, or -1. */
void map_blocks_mapped(void *start, size_t length, int file, bool accessible,
		       const struct walk_start *at);

/* Before a call that takes memory away: afterwards another thread may have its addresses. */
struct map_before {
	uint64_t serial, ticks;
	enum range_kind kind;
	bool allocator; /* has made the call */
};
struct map_before map_blocks_before(const void *start, size_t length, const struct walk_start *at);

/* After one that has succeeded. */
void map_blocks_unmapped(const void *start, size_t length, struct map_before before);

/* After memory has been mapped that is no block: nothing else is there any more. */
void map_blocks_taken(const void *start, size_t length);

/* After a call of mremap that has succeeded. kept: the old addresses are still mapped (old_length 0,
 * MREMAP_DONTUNMAP). */
void map_blocks_moved(void *start, size_t length, const void *old, size_t old_length, bool kept,
		      struct map_before before, const struct walk_start *at);

/* After mprotect has made memory accessible. */
void map_blocks_accessible(const void *start, size_t length, const struct walk_start *at);

/* The length of the mapping that begins there, or 0. */
size_t map_blocks_length(const void *start);

#endif
