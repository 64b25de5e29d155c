/* SPDX-License-Identifier: Apache-2.0 */
/* Where glibc's malloc has its chunks: runs of them, each with a begin and an end. */
#ifndef MAYFLY_GLIBC_PIECES_H
#define MAYFLY_GLIBC_PIECES_H

#include "heap/malloc_state.h"

enum glibc_piece_kind { GLIBC_MAIN, GLIBC_FURTHER, GLIBC_MAPPED };

struct glibc_piece {
	uint64_t start, limit; /* chunks, not what the program has */
	uint64_t top;	       /* the chunk at which it ends; 0: elsewhere */
	enum glibc_piece_kind kind;
	bool begins_unknown; /* the first chunk is somewhere after start */
};

struct glibc_pieces {
	struct glibc_piece *piece;
	size_t count, capacity;
	struct malloc_state *arena; /* the main one first */
	size_t arenas, arena_capacity;
	struct malloc_par par;
	uint64_t mapped_bytes, mapped; /* found */
};

/* In rising order. */
bool glibc_pieces_find(struct heap_window *w, struct glibc_pieces *p, struct heap_problem *problem);
void glibc_pieces_free(struct glibc_pieces *p);

#endif
