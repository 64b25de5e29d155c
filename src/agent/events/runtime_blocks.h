/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sampled blocks of runtimes' own heaps in the spool: OCaml's, and those of memprof.h. Several threads
 * call this at the same time, each with its writer.
 */
#ifndef MAYFLY_RUNTIME_BLOCKS_H
#define MAYFLY_RUNTIME_BLOCKS_H

#include "agent/spool.h"

/* Set before the first block. */
struct runtime_blocks {
	double rate;		 /* samples for each 8 bytes: runtime_blocks_set_rate() */
	uint32_t interval_log2;	 /* of the bytes for each sample, rounded down */
	uint64_t interval_bytes; /* rounded down */
	uint32_t frames;	 /* the most that are looked at of a stack, from the leaf */
};
extern struct runtime_blocks runtime_blocks;

/* rate: above 0, at most 1. Smaller rates than the spool can express become the smallest. */
void runtime_blocks_set_rate(double rate);
/* Into the spool's header: from now on such blocks are recorded. */
void runtime_blocks_tell_rate(void);

/* The number of frames to ask the runtime for: one more shows that the stack is longer. */
static inline uint32_t runtime_blocks_frames(void)
{
	return runtime_blocks.frames + 1;
}

/* With the stack in w->ocaml_stack, of which `common` root-most frames are as before. The writer has a
 * packet. *kept is passed to the other two later. False: the sample was dropped. */
bool runtime_blocks_record(struct writer *w, uint64_t bytes, uint64_t hits, uint32_t heap,
			   uint32_t common, intptr_t *kept);
void runtime_blocks_promoted(struct writer *w, intptr_t kept);
void runtime_blocks_collected(struct writer *w, intptr_t kept);

/* Counts a sample for which there is no writer. */
void runtime_blocks_drop(void);

#endif
