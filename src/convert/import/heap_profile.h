/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The common part of heap profiles: for each stack what is live and what was allocated in total,
 * without single blocks. The reader of a format fills a struct heap_profile; it becomes
 *
 *	a trace of samples	if the profile has unweighted counts of sampled blocks, each sampled
 *				with probability 1 - exp(-size / interval): estimates get error bars
 *	per-stack counters	otherwise: figures are final sums (a trace of snapshots with one
 *				interval, doc/FORMAT.md, 3.8), or those of steps of time: the peak
 *				and the end, or as many as the file has
 */
#ifndef MAYFLY_HEAP_PROFILE_H
#define MAYFLY_HEAP_PROFILE_H

#include "base/interner.h"
#include "convert/import/import_tables.h"
#include "convert/import/importer.h"
#include "trace/write/errors_write.h"
#include "trace/write/recording.h"

#define HEAP_PROFILE_LATEST_NS (TRACE_LATEST_NS / 4)

struct heap_figures {
	uint64_t live, live_bytes;	    /* blocks and bytes now */
	uint64_t all, all_bytes;	    /* allocated ever */
	uint64_t peak, peak_bytes;	    /* live at the peak; with heap_profile.has_peak */
	struct sum_error error[ERROR_SUMS]; /* with heap_profile.errors */
};

/* With heap_profile.steps: what a row allocated in a step of time, and what is live at its end. Steps
 * without a point have neither. */
struct heap_point {
	uint32_t step;
	uint64_t live, live_bytes, all, all_bytes;
};

struct heap_row {
	size_t first; /* its first frame in heap_profile.frame, leaf first */
	uint32_t depth;
	uint32_t points; /* from first_point on in heap_profile.point, by ascending step */
	size_t first_point;
	struct heap_figures figures; /* with steps, only the errors count: those of the whole */
};

struct heap_profile {
	struct import *in;
	uint32_t *frame; /* the stacks of all rows, one after the other */
	size_t frames, frame_room, row_first;
	struct heap_row *row;
	size_t rows, row_room;
	struct heap_point *point;
	size_t points, point_room, row_first_point;
	struct interner named; /* frames that have only names */

	/* Set by the reader before heap_profile_write(). */
	uint64_t interval; /* mean bytes between samples; 0: everything was counted */
	bool plain_counts; /* counts are unweighted samples; otherwise weighted already */
	bool errors;	   /* rows say how certain they are; counts are weighted already */
	uint32_t steps;	   /* of time, which rows have points for; 0: there are no times */
	int64_t step_ns;   /* length of a step */
	/* When each step ends, ascending from 1 on; NULL: one follows the other. */
	const int64_t *step_at;
	bool has_peak;	 /* rows say what was live at the peak; instead of steps */
	int64_t peak_ns; /* when it was; the end is the trace's duration */
	uint32_t absent; /* in addition to what all profiles lack */
	uint32_t known;	 /* of what they lack */
	/* Selects frames to remove from stacks, together with all frames towards the leaf; NULL:
	 * none. */
	bool (*is_cut)(const void *context, const struct recording *tables, uint32_t frame);
	const void *cut_context;
	bool cut_only_leaves; /* stop at the first frame from the leaf that is not selected */
};

/* Errors are noted in `in`. */
void heap_profile_begin(struct heap_profile *p, struct import *in);
void heap_profile_end(struct heap_profile *p);

/* The frame of a function of a file that has no addresses, or one for each call. */
uint32_t heap_profile_named(struct heap_profile *p, uint32_t module,
			    const struct recording_location *place);

/* Add a stack, frame by frame from the leaf, its points, then its row. */
void heap_profile_frame(struct heap_profile *p, uint32_t frame);
void heap_profile_point(struct heap_profile *p, const struct heap_point *point);
void heap_profile_row(struct heap_profile *p, const struct heap_figures *figures);

/* For is_cut: selects the allocator's own frames, with which stacks of jemalloc and gperftools
 * begin. */
bool heap_profile_is_allocator(const void *context, const struct recording *t, uint32_t frame);

/* Adds missing names to frames, and writes the rows. The reader fills tables->info except counts,
 * mode and `absent`. */
void heap_profile_write(struct heap_profile *p);

#endif
