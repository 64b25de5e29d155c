/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sampled blocks of OCaml's heaps in the spool. Domains call this at the same time; see memprof.h.
 */
#ifndef MAYFLY_OCAML_BLOCKS_H
#define MAYFLY_OCAML_BLOCKS_H

#include "agent/ocaml/memprof.h"
#include "agent/spool.h"

/* Set before the first block. */
struct ocaml_blocks {
	double rate;		 /* samples for each word: ocaml_blocks_set_rate() */
	uint32_t interval_log2;	 /* of the bytes for each sample, rounded down */
	uint64_t interval_bytes; /* rounded down */
	uint32_t frames;	 /* that are kept of a stack, from the leaf */
};
extern struct ocaml_blocks ocaml_blocks;

/* rate: above 0, at most 1. Smaller rates than the spool can express become the smallest. */
void ocaml_blocks_set_rate(double rate);
/* Into the spool's header: from now on OCaml's blocks are recorded. */
void ocaml_blocks_tell_rate(void);

/* The number of frames to ask the runtime for: one more shows that the stack is longer. */
static inline uint32_t ocaml_blocks_frames(void)
{
	return ocaml_blocks.frames + 1;
}

/* *kept is passed to the other two later. False: the sample was dropped. */
bool ocaml_blocks_allocated(struct writer *w, const struct memprof_block *block, uint32_t heap,
			    intptr_t *kept);
/* The same with a stack that is in w->ocaml_taken already, from its root. The writer has a packet. */
bool ocaml_blocks_record(struct writer *w, uint64_t bytes, uint64_t hits, uint32_t heap,
			 uint32_t depth, intptr_t *kept);
void ocaml_blocks_promoted(struct writer *w, intptr_t kept);
void ocaml_blocks_collected(struct writer *w, intptr_t kept);

/* Counts a sample for which there is no writer. */
void ocaml_blocks_drop(void);

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
