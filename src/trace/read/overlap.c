/* SPDX-License-Identifier: Apache-2.0 */
/*
 * overlap.c: memory that is in a trace twice. An OCaml runtime that takes its heaps from malloc
 * allocates malloc blocks that each hold thousands of OCaml blocks, which are recorded themselves:
 *
 *	malloc    |  a  |  chunk for the major heap: [b][c][d]...  |  e  |  data of a Bigarray  |
 *	OCaml                                         b  c  d
 *	external                                                          what the Bigarray holds
 *
 * In sums over all heaps each byte shall count once: a, b, c, d, e, and the Bigarray's data as a
 * malloc block. So two kinds of blocks are left out: malloc blocks that the runtime made for its
 * heaps, recognised by their stacks, and external memory of OCaml blocks, which malloc has
 * recorded. Without malloc blocks, as in a Memtrace file, nothing is there twice.
 *
 * The tables of the runtime's sampler, which mayfly has started, are not the program's, and are left out
 * like its heaps. At one sample for each word they are half of a small program's peak.
 *
 * Blocks of a memory pool of the program that lies in malloc blocks are left out, too. They are
 * marked (MAYFLY_HEAP_POOL).
 */
#include <stdlib.h>
#include <string.h>

#include "trace/read/reader.h"

/* The functions of OCaml 4 runtimes that allocate chunks of the major heap, and the minor heap. OCaml
 * 5 maps both, but its large blocks are malloc's. */
static const char *const pool_functions[] = {
    "caml_alloc_for_heap", "caml_set_minor_heap_size",	/* 4.13 */
    "caml_set_minor_heap_wsz", "caml_shared_try_alloc", /* 5 */
};

static bool makes_pools(const struct mayfly_frame *frame)
{
	for (size_t i = 0; i < frame->locations; i++) {
		const char *function = frame->location[i].function;

		if (strncmp(function, "caml_", 5))
			continue;
		for (size_t k = 0; k < sizeof(pool_functions) / sizeof(*pool_functions); k++)
			if (!strcmp(function, pool_functions[k]))
				return true;
	}
	return false;
}

static bool begins_with(const struct mayfly_frame *frame, const char *text)
{
	for (size_t i = 0; i < frame->locations; i++)
		if (!strncmp(frame->location[i].function, text, strlen(text)))
			return true;
	return false;
}

/* What a function of OCaml's sampler allocates is its own, unless it has called a program's callback. */
enum maker { NO_MAKER, MAKES_POOLS, IS_SAMPLER, IS_CALLBACK };

static enum maker maker_of(const struct mayfly_frame *frame)
{
	return makes_pools(frame)			  ? MAKES_POOLS
	       : begins_with(frame, "caml_memprof_")	  ? IS_SAMPLER
	       : begins_with(frame, "caml_start_program") ? IS_CALLBACK
							  : NO_MAKER;
}

bool mayfly_event_counts(const struct mayfly_trace *trace, const struct mayfly_event *event)
{
	return trace_counts(trace, event->heap, event->node);
}

bool overlap_would_hide(const struct mayfly_trace *t)
{
	if (t->pool)
		return false;
	for (size_t i = 0; i < t->info.frames; i++)
		if (makes_pools(&t->frame[i]))
			return true;
	return t->info.heaps >> MAYFLY_HEAP_EXTERNAL & 1;
}

int overlap_find(struct mayfly_trace *t)
{
	const uint32_t malloc_heap = 1u << MAYFLY_HEAP_MALLOC, heaps = t->info.heaps;
	uint8_t *maker;

	/* A trace that was cut off does not say which heaps it has. */
	if (!t->info.ocaml_interval_bytes ||
	    (heaps && (!(heaps & malloc_heap) || !(heaps & MAYFLY_HEAPS_OCAML))))
		return 0;
	/* Figures would be too large, and nobody could see it. */
	if (t->lost.names)
		return MAYFLY_E_DAMAGED;
	maker = calloc(t->info.frames + 1, 1);
	t->pool = calloc(t->info.nodes / 8 + 1, 1);
	if (!maker || !t->pool) {
		free(maker);
		return MAYFLY_E_MEMORY;
	}
	for (size_t i = 0; i < t->info.frames; i++)
		maker[i] = (uint8_t)maker_of(&t->frame[i]);
	t->parts = 0; /* the counters of an exact trace have all blocks */
	/* Parents come first. */
	for (size_t i = 1; i < t->info.nodes; i++) {
		const struct mayfly_node *n = &t->node[i];
		uint8_t own = n->frame < t->info.frames ? maker[n->frame] : NO_MAKER;
		bool outside = t->pool[n->parent / 8] >> n->parent % 8 & 1;

		if (own != NO_MAKER ? own != IS_CALLBACK : outside)
			t->pool[i / 8] |= (uint8_t)(1u << i % 8);
	}
	free(maker);
	return 0;
}
