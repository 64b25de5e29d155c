/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records about blocks, in the packet of the writer's owner. A record that finds no room is dropped
 * and counted.
 */
#ifndef MAYFLY_RECORDS_H
#define MAYFLY_RECORDS_H

#include "agent/spool.h"

/* A sampled block, with the walk's latest capture as its stack. False: dropped. */
bool records_sample(struct writer *w, uint64_t ticks, uint64_t id, uint64_t size, uint32_t hits,
		    uint32_t flags);
void records_free(struct writer *w, uint64_t ticks, uint64_t id, uint32_t flags);

/* A mapping, with the walk's latest capture as its stack. False: dropped. */
bool records_mapping(struct writer *w, uint64_t ticks, uint64_t id, uint64_t size, uint32_t flags);
/* It has lost so many bytes: all that it had, or a part. */
void records_shrink(struct writer *w, uint64_t ticks, uint64_t id, uint64_t bytes, uint32_t flags);

/* A block in a heap of a runtime's; heap: enum spool_heap. Its stack is in w->ocaml_stack, of which
 * `common` root-most frames are those of the latest one there. */
bool records_ocaml_sample(struct writer *w, uint64_t ticks, uint64_t id, uint64_t size,
			  uint64_t hits, uint32_t heap, uint32_t common);
void records_promote(struct writer *w, uint64_t ticks, uint64_t id);
void records_heap_end(struct writer *w, uint64_t ticks);

/* Where the code of an address is, as OCaml's runtime knows it; innermost first. */
struct records_place {
	const char *function, *file;
	uint32_t line, first, last;
};
void records_place(struct writer *w, uint64_t ticks, uint64_t address,
		   const struct records_place *place, uint32_t count);

/* The allocator's figures; whose: enum spool_allocator */
void records_allocator(struct writer *w, uint64_t ticks, uint32_t whose, const uint64_t *value,
		       uint32_t count);

#endif
