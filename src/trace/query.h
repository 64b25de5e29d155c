/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A question to a trace, and the way to its answer:
 *
 *	query_names.c	names, filters: which nodes of the tree and which threads count
 *	query_sums.c	what is asked for, summed by slot: a node, a thread, or a class
 *	query_tree.c	from nodes to groups (functions, lines, modules) or printed stacks
 *	query_rows.c	rows, sorted
 *	series.c	rows over time
 *
 * A slot is what blocks are summed by before there are rows:
 *
 *	by function, line, module, stack	the node that allocated
 *	by thread				the thread that allocated
 *	by size, lifetime, heap			the number of the class
 *
 * From the sums per node to rows:
 *
 *	root                each node's frame has places (inlined functions are places of their
 *	 |                  own); each place has a row. total of a row = the sums of the subtrees
 *	 +- main            below the nodes that have a place of this row while no node above them
 *	 |   +- parse       has, so that a recursive function's blocks count once: here the upper
 *	 |   |   +- parse   `parse` only.
 *	 +- start_thread
 *
 * For rows that are stacks, the tree is built again from places instead of frames, so that nodes
 * that print the same become one.
 *
 * Nothing here costs more than (nodes + places + events), except names of equal rows in a sort.
 */
#ifndef MAYFLY_QUERY_H
#define MAYFLY_QUERY_H

#include "cursor.h"
#include "estimate.h"
#include "numbering.h"

#include <mayfly/trace.h>

#define NONE NUMBERING_NONE

#define FOREVER INT64_MAX /* the lifetime of a block that is never freed */

struct text {
	const char *text;
	uint32_t same; /* the first text that reads the same */
	uint32_t next; /* chain of first texts with an equal hash, or NONE */
	uint8_t verdict;
};

/* A frame's places that are not hidden, as rows or stacks of the answer show them. */
struct frame_spots {
	uint32_t first, count; /* in query_state.spot, innermost first; first NONE: not yet made */
	bool hides;	       /* something of it was hidden */
};

/* A node that a kept block's stack goes through; parents first, 0 is the root. */
struct branch {
	uint32_t node, frame;
	uint32_t parent, first_child, next_sibling; /* branches or NONE */
	uint32_t leaf; /* group of the blocks allocated here, or stack; NONE: no code is left */
	bool hides;
	bool has_code;	  /* on the way to it; for stacks */
	bool shares;	  /* its subtree's sum is that of its only child */
	uint32_t subtree; /* number in query_state.subtree, or NONE */
};

/* What a row is made from. For stacks: a place, and the stacks have the sums. */
struct group {
	struct tally self, total;
	uint32_t function, file, module; /* texts; NONE: not all the same */
	uint32_t line, thread;
	int64_t low, high;
	uint64_t address; /* of the frame when by_address, of the mark */
	uint32_t kind;
	bool by_address, inlined;
	uint32_t depth; /* how many nodes of the path to the root have a place of this row */
};

/* A printed stack: its leaf and the stack without it. */
struct stack {
	uint32_t parent, place; /* place: a group */
	uint32_t length;
	uint32_t row; /* number of its sums; NONE: no block was allocated just here */
};

struct stack_sums {
	struct tally self, total;
	uint32_t stack;
};

/* A moment between two events. */
struct moment {
	uint64_t events; /* how many there are up to it */
	int64_t time_ns;
};

struct query_state {
	const struct mayfly_trace *trace;
	const struct mayfly_info *info;
	const struct mayfly_query *query;
	int error;
	bool exact;	 /* every block counts for itself: sums are whole numbers */
	bool whole_tree; /* branches for all nodes, also those without a sum */

	uint64_t largest_interval;
	struct moment peak;

	/* texts, by address and by what they say */
	struct numbering text_address;
	struct text *text;
	size_t text_capacity;
	uint32_t *text_hash; /* first of a chain, or NONE */
	size_t text_hash_size, distinct_texts;

	/* frames; a spot is the group of a place */
	struct frame_spots *frame;
	uint32_t *spot;
	size_t spots, spot_capacity;

	/* which blocks are kept by their node, by their thread; NULL: all */
	uint8_t *node_kept, *thread_kept;

	/* the sums */
	struct tally all;
	size_t slots;
	uint32_t *slot_sum; /* slot -> number in sum + 1 */
	struct tally *sum;
	uint32_t *sum_slot;
	size_t sums, sum_capacity, sum_slot_capacity;

	struct branch *branch;
	size_t branches;
	struct tally *subtree; /* no more than branches with a sum or with several children */
	size_t subtrees;

	struct numbering group_key;
	struct group *group; /* one for each key */
	size_t group_capacity;

	struct stack *stack; /* one for each (parent stack, place) */
	size_t stacks, stack_capacity;
	uint32_t *stack_slot; /* open addressing: number + 1, or 0 */
	size_t stack_slots;   /* a power of two */
	struct stack_sums *stack_sums;
	size_t stack_rows, stack_rows_capacity;

	uint32_t *ranked; /* row of the answer -> group or stack */
};

/* Both keep the first error; false, so that a caller can pass it on. */
bool query_fail(struct query_state *s, int error);
void *query_zeroed(struct query_state *s, size_t count, size_t bytes);

/* The answer belongs to the caller; so does the state, also when there is no answer. */
struct mayfly_result *query_answer(struct query_state *s, const struct mayfly_trace *trace,
				   const struct mayfly_query *query);
void query_end(struct query_state *s);

static inline struct cursor_block query_block(const struct cursor_batch *b, size_t alloc)
{
	return (struct cursor_block){
	    .size = b->e.size[alloc],
	    .time_ns = b->alloc_time_ns[alloc],
	    .node = b->e.node[alloc],
	    .thread = b->e.thread[alloc],
	    .hits = b->e.hits[alloc],
	    .interval_log2 = b->e.interval_log2[alloc],
	    .flags = b->e.alloc_flags[alloc],
	};
}

static inline bool query_by_node(const struct mayfly_query *q)
{
	return q->by == MAYFLY_BY_FUNCTION || q->by == MAYFLY_BY_LINE || q->by == MAYFLY_BY_STACK ||
	       q->by == MAYFLY_BY_MODULE;
}

/* Whether blocks in heaps of OCaml may count. */
static inline bool query_of_ocaml(const struct query_state *s)
{
	return s->info->ocaml_interval_bytes &&
	       (!s->query->heaps || s->query->heaps >> MAYFLY_HEAP_OCAML_MINOR);
}

static inline bool query_at_peak(const struct mayfly_query *q)
{
	return q->metric == MAYFLY_PEAK || (q->metric == MAYFLY_LIVE && q->at_ns == MAYFLY_AT_PEAK);
}

static inline bool query_by_lifetime(const struct mayfly_query *q)
{
	return q->by == MAYFLY_BY_LIFETIME || q->min_lifetime_ns > 0 ||
	       q->max_lifetime_ns < INT64_MAX;
}

/* In a trace of snapshots, a time stands for the end of the interval that it is in. */
static inline int64_t query_rounded(const struct query_state *s, int64_t time_ns)
{
	int64_t step = s->info->snapshot_ns, end = s->info->duration_ns, rest;

	if (step <= 0 || time_ns <= 0 || time_ns >= end)
		return time_ns;
	rest = step - 1 - (time_ns - 1) % step;
	return rest < end - time_ns ? time_ns + rest : end;
}

/* ---- query_names.c ---- */

/* The number of the first text that was seen to read like this one. 0 is "". */
uint32_t query_text(struct query_state *s, const char *text);

/* Fill node_kept and thread_kept. */
bool query_filter_nodes(struct query_state *s);
bool query_filter_threads(struct query_state *s);

/* The group of a key, made from *fresh when it is new. NONE: out of memory. */
uint32_t query_group(struct query_state *s, struct key key, const struct group *fresh);
/* The group of blocks with no code on their stack, from the start or because all is hidden. */
uint32_t query_special_group(struct query_state *s, bool hides);
/* NULL: out of memory. */
const struct frame_spots *query_frame(struct query_state *s, uint32_t index);
bool query_frames_begin(struct query_state *s);

/* ---- query_sums.c ---- */

/* Fills the sums; MAYFLY_E_ABSENT when the trace has no events and the counters do not say. */
bool query_sum(struct query_state *s);

/* Whether the filters of the query keep a block, but for its lifetime and the window. */
bool query_keeps(const struct query_state *s, const struct cursor_block *b);
/* Below query_slots(). */
size_t query_slots(const struct query_state *s);
uint32_t query_slot(const struct query_state *s, const struct cursor_block *b, int64_t lifetime);
/* The group of a slot that is no node. */
uint32_t query_slot_group(struct query_state *s, uint32_t slot);
int64_t query_lifetime(const struct cursor_block *b, int64_t free_ns);
bool query_lifetime_fits(const struct mayfly_query *q, int64_t lifetime);

/* ---- query_tree.c ---- */

/* From sums to groups, or to stacks. */
bool query_make_groups(struct query_state *s);
/* When the answer has been made: makes branches, with their leaves, of all nodes. */
bool query_whole_tree(struct query_state *s);
/* The stack of blocks allocated at a branch. NONE: out of memory. */
uint32_t query_own_stack(struct query_state *s, const struct branch *b);

/* ---- query_rows.c ---- */

struct mayfly_result *query_make_result(struct query_state *s);

#endif
