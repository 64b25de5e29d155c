/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What heap profiles have in common: for each stack, what is live and what was allocated in all,
 * and nothing of single blocks. A reader of a format fills one of these; it becomes
 *
 *	a trace of samples	when the profile has plain counts of sampled blocks, each taken with
 *the chance 1 - exp(-size / interval): estimates get their error bars then per-stack counters when
 *figures are sums that nothing is to be added to (snapshots with one interval, doc/FORMAT.md, 3.8)
 */
#ifndef MAYFLY_HEAP_PROFILE_H
#define MAYFLY_HEAP_PROFILE_H

#include "convert/import/budget.h"
#include "convert/import/importer.h"
#include "trace/write/recording.h"

struct heap_figures {
	uint64_t live, live_bytes; /* blocks and bytes now */
	uint64_t all, all_bytes;   /* ever */
};

struct heap_row {
	size_t first; /* of its frames, leaf first */
	uint32_t depth;
	struct heap_figures figures;
};

struct heap_profile {
	struct recording *tables;
	struct budget budget; /* of the tables and of what its reader has */
	uint32_t *frame;      /* of all rows, one stack after the other */
	size_t frames, frame_room, row_first;
	struct heap_row *row;
	size_t rows, row_room;

	/* Set by the reader before heap_profile_write(). */
	uint64_t interval; /* mean bytes between samples; 0: everything was counted */
	bool plain_counts; /* of samples, to be weighted; else they have been weighted already */
	uint32_t absent;   /* more than what no profile has */
	/* Frames with which, and with all leafwards of which, stacks are not to begin; NULL: none.
	 */
	bool (*is_cut)(const void *context, const struct recording *tables, uint32_t frame);
	const void *cut_context;
	bool cut_only_leaves; /* not those leafwards of other such frames */
};

/* size: of the input. False: out of memory. */
bool heap_profile_begin(struct heap_profile *p, size_t size);
void heap_profile_end(struct heap_profile *p);

/* A stack, frame by frame from the leaf, then its row. 0 or a negative enum mayfly_error. */
int heap_profile_frame(struct heap_profile *p, uint32_t frame);
int heap_profile_row(struct heap_profile *p, const struct heap_figures *figures);

/* For is_cut: the allocator's own frames, in which jemalloc's and gperftools' stacks begin. */
bool heap_profile_is_allocator(const void *context, const struct recording *t, uint32_t frame);

/* Names frames that have none, and writes the trace; tables->info beyond counts, mode and `absent`
 * is the reader's. */
int heap_profile_write(struct heap_profile *p, const struct import_options *options,
		       trace_sink *sink, void *context);

#endif
