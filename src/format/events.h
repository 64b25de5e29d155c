/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The EVNT chunk: a run of events as columns. doc/FORMAT.md, "EVNT". Both directions. A chunk is
 * decoded without any other chunk of events: frees name blocks by number.
 */
#ifndef MAYFLY_EVENTS_H
#define MAYFLY_EVENTS_H

#include "format/columns.h"

/* Events in time order; allocations and frees each in that order. */
struct event_batch {
	size_t events, allocs;	/* frees = events - allocs */
	uint64_t first_sample;	/* number of the first allocation */
	uint8_t *is_free;	/* [events] */
	int64_t *time_ns;	/* [events], ascending */
	uint32_t *node;		/* [allocs], as numbered in the trace; 0: no stack */
	uint32_t *thread;	/* [allocs] */
	uint64_t *size;		/* [allocs] */
	uint32_t *hits;		/* [allocs] */
	uint8_t *interval_log2; /* [allocs] */
	uint8_t *alloc_flags;	/* [allocs] */
	uint32_t *labels;	/* [allocs], sets; read: NULL when all are 0 */
	bool labelled;		/* written: some of them are not 0 */
	uint64_t *freed;	/* [frees], numbers of allocations before */
	uint32_t *free_thread;	/* [frees] */
	uint8_t *free_flags;	/* [frees] */
	int64_t time_error_ns;	/* read: no time is wrong by more */
};

/* What writer and reader know of the tree when they come to the chunk. Nodes are numbered chain
 * after chain (doc/FORMAT.md, "TREE"); a writer numbers them in the order in which events need
 * them. */
struct event_context {
	const uint32_t *chain_end; /* last node of each chain, ascending */
	size_t chains;
	size_t first_chain; /* of those chains, the first one that came after the chunk before */
	/* The frame of each node: a reader has it in `node`, a writer in node_frame; the other is NULL. */
	const struct mayfly_node *node;
	const uint32_t *node_frame;
	size_t nodes;	  /* without the root: numbers 1 to nodes */
	uint32_t threads; /* numbers below */
	uint32_t frames;
	uint32_t label_sets; /* numbers below */
	bool labels_lost;    /* others are of sets that are missing: they count as the empty one */
	uint32_t unit_ns;    /* written: times are multiples of this, except in exact traces */
	bool exact;	     /* every allocation: times are coded more coarsely (doc/FORMAT.md) */
};

/* Scratch memory, which the writers of several traces may share. */
struct event_coder;
struct event_coder *event_coder_new(struct column_writer *columns);
void event_coder_free(struct event_coder *c);
/* Gives back the memory for a chunk's events until there is a next one. */
void event_coder_rest(struct event_coder *c);

/* What a writer has learned from the chunks of its trace; all zero at the beginning. */
struct event_past {
	uint64_t chunks;
	int64_t error; /* of times */
	/* In an exact trace: times of the latest chunk's first and last event, as they will be read. */
	int64_t first_ns, last_ns;
	/* For each question the way that was best, and for how many more chunks to use it without a
	 * trial. */
	struct event_decision {
		unsigned best, left, pause;
		double cost;	  /* bytes per event since the last trial; 0: not yet known */
		uint64_t columns; /* columns that it has chosen between in this chunk */
	} decision[3];
};

/* Appends the chunk. */
void events_write(struct event_coder *c, struct event_past *past,
		  const struct event_context *context, const struct event_batch *batch,
		  struct bytes *out);

/* Decodes the chunk that r has begun. The arrays belong to r until chunk_end(). False: r->error. It
 * checks every node, thread, set of labels and interval (0 to TRACE_MAX_INTERVAL), that times
 * ascend within +-2^62, and that freed numbers are below first_sample + the allocations so far. It
 * does not check that no block is freed twice. */
bool events_read(struct chunk_reader *r, const struct event_context *context,
		 struct event_batch *batch);

#endif
