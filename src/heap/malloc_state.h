/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of glibc's malloc (2.31 to 2.41), which no symbol of a stripped library names: found by what
 * it looks like.
 *
 *	malloc_state	one for each arena. The main one is a variable of the C library; the others stand
 *			at the begin of the arena's first heap. They form a ring by `next`.
 *		+16	fastbins: 10 lists
 *		+96	top: the chunk at the end
 *		+112	127 bins; one that is empty points to itself, less 16
 *		+2160	next
 *		+2184	how much the system has given
 *	malloc_par	settings and sums: where the heap begins, how much is mapped for single blocks
 */
#ifndef MAYFLY_MALLOC_STATE_H
#define MAYFLY_MALLOC_STATE_H

#include "heap/heap_image.h"

#define FAST_BINS	   10u
#define MALLOC_STATE_BYTES 2200u
#define HEAP_BYTES_MOST	   (1ull << 26) /* of one heap of a further arena, and its alignment */

struct malloc_state {
	uint64_t at;
	uint64_t fast[FAST_BINS]; /* chunks */
	uint64_t top;
	uint64_t next;
	uint64_t system_bytes;
};

struct malloc_par {
	bool known;
	uint32_t mapped; /* blocks with mappings of their own */
	uint64_t mapped_bytes;
	uint64_t break_start; /* 0: brk() was never called */
};

/* The main arena and the settings beside it. */
bool malloc_state_find(struct heap_window *w, struct malloc_state *s, struct malloc_par *par,
		       struct heap_problem *problem);
/* That of a further arena. */
bool malloc_state_read(struct heap_window *w, uint64_t at, struct malloc_state *s);

#endif
