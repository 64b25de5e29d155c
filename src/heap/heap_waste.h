/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a heap wastes, by the contents of its blocks:
 *
 *	zero	blocks that are zero from begin to end
 *	end	whole zero words at the end of other blocks: room that was not used yet, or data that is zero
 *	copies	blocks with the contents and the size of one before them, in order of addresses
 *
 * A text counts as far as its end when that is in the last 16 bytes of its block: malloc rounds up, and
 * what is left behind a text means nothing.
 *
 * All blocks are read. While that goes on, hashes of 128 bits of at most `most` contents are kept. If there may
 * be more, blocks are chosen, one byte in `interval`, by a hash of the block's number and the number of all
 * blocks, so that the same heap has the same figures. A block of `interval` bytes or more is always chosen. The
 * contents of a chosen block are known from there on:
 *
 *	copy of some contents	1   2   3   4   5   6	  chosen with p = bytes / interval
 *	chosen			.   .   x   .   .   x
 *	counts			0   0   0  1/p  1   1	  their mean is 5, whatever p is
 *
 * So what is sampled has the weights and the variance of one byte in `interval`; contents that are there
 * many times are hardly missed.
 */
#ifndef MAYFLY_HEAP_WASTE_H
#define MAYFLY_HEAP_WASTE_H

#include "heap/heap_blocks.h"

enum heap_content {
	HEAP_CONTENT_OTHER,
	HEAP_CONTENT_ZERO,
	HEAP_CONTENT_SECOND, /* of those that are known: stands for those before it */
	HEAP_CONTENT_LATER,
};

#define HEAP_TEXT_BEGIN 60u

/* A text that several blocks have. */
struct heap_text {
	char begin[HEAP_TEXT_BEGIN]; /* whole characters of UTF-8 */
	uint32_t begin_bytes, text_bytes;
	uint64_t block_bytes; /* of each */
	uint64_t later;	      /* blocks that are HEAP_CONTENT_LATER */
};

struct heap_waste {
	size_t blocks;		/* 0: nobody has looked */
	uint32_t *end;		/* zero words at the end of each block, at most UINT32_MAX */
	uint8_t *content;	/* enum heap_content of each block */
	uint64_t interval;	/* bytes, a power of two; 0: no contents were left out */
	uint64_t unread;	/* blocks that could not be read */
	struct heap_text *text; /* only if asked for */
	size_t texts, text_room;
};

struct heap_waste_sum {
	uint64_t zero_bytes, zero_blocks, end_bytes, end_blocks;
	uint64_t copy_bytes, copy_blocks; /* with weight 1 */
	/* Sums of weights of those that stand for others, with their variances. */
	double sampled_bytes, sampled_blocks, variance_bytes, variance_blocks;
	uint32_t samples;
};

struct heap_waste_look;

/* Looks at all blocks, each once and in their order, from begin to end. `w` and `b` must outlive that.
 * texts: w->text is to have those that come again. NULL: out of memory. */
struct heap_waste_look *heap_waste_begin(struct heap_waste *w, const struct heap_blocks *b,
					 size_t most, bool texts);
/* window: where the block may have been read already; limit: as heap_window_see(). False: out of memory. */
bool heap_waste_see(struct heap_waste_look *l, struct heap_window *window, uint32_t block,
		    uint64_t address, uint64_t bytes, uint64_t limit);
void heap_waste_end(struct heap_waste_look *l); /* may be NULL */
void heap_waste_free(struct heap_waste *w);

/* Adds a block of so many bytes. */
void heap_waste_add(const struct heap_waste *w, uint32_t block, uint64_t bytes,
		    struct heap_waste_sum *sum);
/* Adds the copies of a text: the blocks that have it, but one. */
void heap_waste_add_text(const struct heap_waste *w, const struct heap_text *text,
			 struct heap_waste_sum *sum);

#endif
