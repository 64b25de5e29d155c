/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sampled blocks of OCaml's heaps in the spool, with OCaml's stacks and places. Domains call this at
 * the same time; see memprof.h. What becomes of the blocks is in runtime_blocks.h.
 */
#ifndef MAYFLY_OCAML_BLOCKS_H
#define MAYFLY_OCAML_BLOCKS_H

#include "agent/events/runtime_blocks.h"
#include "agent/ocaml/memprof.h"

/* *kept is passed to runtime_blocks_promoted() and _collected() later. False: the sample was dropped. */
bool ocaml_blocks_allocated(struct writer *w, const struct memprof_block *block, uint32_t heap,
			    intptr_t *kept);

/* enum spool_heap */
static inline uint32_t ocaml_blocks_heap(const struct memprof_block *block)
{
	return block->source == MEMPROF_CUSTOM ? SPOOL_HEAP_EXTERNAL
	       : block->major		       ? SPOOL_HEAP_MAJOR
					       : SPOOL_HEAP_MINOR;
}

/* The spool is a new one, without PLACE records. */
void ocaml_blocks_forget(void);

#endif
