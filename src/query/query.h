/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A question to a trace, and the way to its answer:
 *
 *	query_state.c	errors, memory, sums: used by all the following
 *	query_names.c	names, filters: which nodes of the tree and which threads count
 *	query_labels.c	sets of labels, as rows and as a filter
 *	query_picture.c	holders and types, likewise
 *	peak.c		when the peak is, for sums of samples
 *	query_slots.c	the slot of a block: a node, a thread, or a class
 *	query_sums.c	the sums by slot
 *	strata.c	samples of one stratum's line that count for the same sum
 *	strata_rows.c	the same for rows made from several slots
 *	query_tree.c	from nodes to groups (functions, lines, modules) or printed stacks
 *	query_rows.c	rows, sorted
 *	query_nodes.c	instead of rows: the sums of the nodes themselves
 *	chosen_sums.c	or of sets of them that the caller chooses
 *	query_events.c	a pass over the events
 *	query_shown.c	which rows of an answer each slot counts for; used by these:
 *	live_curve.c	live bytes over time, without rows
 *	live_totals.c	live bytes at a few moments
 *	series.c	rows over time
 *	leak_times.c	and when leaks arose
 *	grown.c		what grew between two moments
 *	histogram.c	rows by class
 *	heat.c		classes of size by classes of lifetime
 *	held_types.c	holders by types
 *	churn.c		rows and their mean live bytes
 *	reallocs.c	rows of chains of realloc
 *	survival.c	the fates of blocks in OCaml's minor heap
 *	spans.c		joined with track events: what spans allocated
 *	span_bytes.c	and what single ones did
 *
 * Before there are rows, blocks are summed by slot. A slot is:
 *
 *	by function, line, module, stack	the allocating node
 *	by thread				the allocating thread
 *	by size, lifetime, heap			the number of the class
 *	by freeing thread, threads		the freeing thread, the pair of threads
 *	by label				all sets of labels with the same text
 *	by holder, type				those of the heap's picture
 *
 * From the sums per node to rows:
 *
 *	root                each node's frame has places (inlined functions are places of their
 *	 |                  own); each place has a row. total of a row = the sums of the subtrees
 *	 +- main            of the topmost nodes that have a place of this row, so that the blocks
 *	 |   +- parse       of a recursive function count once: here only the subtree of the
 *	 |   |   +- parse   upper `parse`.
 *	 +- start_thread
 *
 * For rows that are stacks, nodes that print the same become one: a walk computes a hash of all
 * places from the root, and equal hashes (64 bits) are taken for equal stacks.
 *
 * A large trace has millions of nodes, so bits and the frame are all that is stored per node: sums
 * are kept by chain, and the state of a walk by depth. Time is linear in (nodes + places + events),
 * except for sorting rows by name.
 */
#ifndef MAYFLY_QUERY_H
#define MAYFLY_QUERY_H

#include "trace/read/cursor.h"
#include "query/estimate.h"
#include "base/interner.h"
#include "base/rank_set.h"
#include "query/grouping.h"
#include "query/peak.h"

#include <mayfly/trace.h>

#define NONE INTERNER_NONE

#define FOREVER INT64_MAX /* the lifetime of a block that is never freed */

/* How a block ended. */
struct fate {
	int64_t lifetime;
	uint32_t thread; /* the freeing thread */
};

#define NEVER_FREED ((struct fate){FOREVER, NONE})

struct text {
	const char *text;
	uint32_t same; /* the first of all equal texts */
	uint16_t verdict;
};

/* The places of a frame that are not hidden, as the answer shows them in rows or stacks. */
struct frame_spots {
	uint32_t first, count; /* in query_state.spot, innermost first; first NONE: not yet made */
	bool hides;	       /* some of its places are hidden or folded */
	bool has_code;	       /* some spot is a place in code, not a mark */
	uint8_t folded;	       /* the highest answer of query.fold for its places; 0: none */
	uint32_t folded_place; /* the number of the frame's location that has it */
};

/* What a stack shows when all its frames are hidden: one that is only folded, if there is one. */
struct kept_place {
	uint32_t frame, location; /* the number of the frame's location */
	uint8_t folded;		  /* frame_spots.folded; 0: no frame is kept */
	bool hides;		  /* something is hidden: the stack is not empty */
};

/* Does an answer of query.fold take the place of one that was found before, farther from the root? Or, if not
 * `outwards`, nearer to it? */
static inline bool fold_replaces(uint8_t answer, uint8_t before, bool outwards)
{
	return answer > before ||
	       (answer && answer == before && (answer < MAYFLY_FOLD_INNERMOST) == outwards);
}

/* Becomes a row, or a place of a stack when rows are stacks; its sums are in query_state.group_sums. */
struct group {
	uint32_t function, file, module; /* texts; NONE: the group's places differ */
	uint32_t line, thread, free_thread;
	int64_t low, high;
	uint64_t address; /* the frame's if by_address; a mark's */
	uint32_t kind;
	uint32_t first_char, last_char; /* BY_STACK only */
	bool by_address, inlined;
};

/* A printed stack at which blocks were allocated; its sums are in query_state.stack_sums. */
struct stack {
	uint64_t hash;	/* of its places; identifies the stack */
	uint32_t node;	/* the first node with this stack */
	uint32_t shown; /* the first that leads to the places, with recursion if there is any */
	bool recurs;
	uint32_t special; /* the only place if no code is left, else NONE */
};

/* Sums of blocks: integers when each block counts for itself only, else tallies. Intermediate
 * integers may wrap around; the final sums are right. */
struct plain {
	uint64_t blocks, bytes;
};

struct sums {
	struct plain *plain;
	struct tally *tally;
	size_t room;
};

/*
 * Which of the first rows of an answer each slot counts for: a list of rows, with at most one row
 * or, with totals, all shown rows on the stack; without any of these, the row of all others. Lists
 * share their tails, as stacks do:
 *
 *	main            -> [main]
 *	 +- parse       -> [parse] -> [main]
 *	 |   +- grow    -> as parse, if grow has no shown row
 *	 +- load        -> [load] -> [main]
 */
struct shown_cell {
	uint32_t row, next; /* next: a cell, or NONE */
};

struct shown {
	size_t rows;	/* without the one of all others, which has this number */
	uint32_t *head; /* slot -> first cell */
	/* Cell i is the list of row i alone, up to cell `rows`. */
	struct shown_cell *cell;
	size_t cells, room;
	uint32_t *row_of; /* group or stack -> row; NONE: not shown */
	size_t sources;
};

/* Whose sizes are asked for: those of the rows' self, of their total, or all. */
enum spread_of { SPREAD_SELF, SPREAD_TOTAL, SPREAD_ALL, SPREADS };

/* Where a node is when stacks begin at a function: query.show_from. */
enum stack_begins { STACK_ABOVE, STACK_HERE, STACK_BELOW };

/* The nodes of a tree in the order of a walk: nodes with successive numbers, each below the one before
 * it, the first below one of an earlier stretch or the root. */
struct tree_stretch {
	uint32_t first, last, parent;
};

struct tree_way {
	struct tree_stretch *stretch; /* NULL: not found so far */
	size_t stretches;
	/* In the same order, the root first; NULL if the walk is of the whole tree: */
	uint32_t *frame;  /* of each node */
	uint64_t *summed; /* a bit for each node that has a sum */
	size_t nodes;
	uint32_t sums;
};

struct owned;
struct strata;

struct query_state {
	const struct mayfly_trace *trace;
	const struct mayfly_info *info;
	const struct mayfly_query *query;
	int error;
	struct mayfly_query own; /* a changed copy, when `query` is not the caller's */
	bool exact;		 /* every block counts for itself only: sums are integers */

	/* Only for histograms: a slot is a pair of a site and a class of this query. Sites are
	 * made from the slots of another grouping. */
	const uint32_t *site_of; /* slot of that grouping -> site */
	enum mayfly_by site_by;
	size_t sites;
	bool (*fill)(struct query_state *s); /* instead of query_sums.c's passes; or NULL */
	void *fill_context;

	double largest_interval;
	double spread[SPREADS]; /* of sizes: estimate.h */
	struct peak peak;	/* exact sums: only its best moment */
	struct strata *strata;	/* NULL: samples are independent */
	bool own_blocks;	/* inherited ones do not count: query_of_allocated() */
	bool marks;		/* marks such as "[stack cut]" are places of frames, by any key */

	/* texts, by address and by content */
	struct interner text_address;
	struct text *text;
	size_t text_capacity;
	struct interner text_content;
	uint32_t *text_first; /* for each content the first text */
	size_t text_first_room;

	/* frames; spot[] holds the groups of their places */
	struct frame_spots *frame;
	struct frame_spots *begin; /* the same where stacks begin there; or NULL */
	uint32_t *spot;
	size_t spots, spot_capacity;
	struct interner fold_key; /* function, file and module ... */
	uint8_t *fold_answer;	  /* ... -> what query.fold answered */
	size_t fold_room;

	/* filters: node, thread, set of labels -> are its blocks kept? NULL: all are */
	uint8_t *node_kept, *thread_kept;
	uint8_t *label_kept;
	uint8_t *begins; /* node -> enum stack_begins; NULL: all stacks are whole */

	/* by label: set -> slot, slot -> text */
	uint32_t *label_slot, *label_text;
	size_t label_slots;

	/* The metric is IN_PICTURE; else NULL. Holders and types, and a last one for none: are theirs kept? */
	const struct mayfly_picture *picture;
	uint8_t *holder_kept, *type_kept;
	size_t held; /* in picture->held: the block that counts now */

	/* By node, if query_ends_early(): its stack has interpreted frames; else NULL. */
	uint8_t *interpreted;

	/* By thread -> number of its row; by row -> its first thread. */
	uint32_t *thread_row, *row_thread;
	size_t thread_rows;

	/* The sums. By node, most belong to the last nodes of chains (reader.h): these have the
	 * number of their chain, all others a higher number. */
	struct sums all; /* [1] */
	size_t slots;
	struct rank_set ends;	 /* the root, and the last nodes of chains */
	struct interner between; /* other nodes */
	struct sums sum;	 /* integers: by the number of the sum; tallies: by sum_at */
	uint32_t *sum_at;	 /* number of a sum -> number of its tally + 1 */
	size_t sums, sum_at_room, tallies;
	struct rank_set summed; /* slots with blocks ... */
	uint32_t *summed_at;	/* [rank]: where their sum stands in `sum` */
	struct tree_way way;	/* to all of them, in the tree */

	struct interner group_key;
	struct group *group; /* one for each key */
	size_t group_capacity;
	struct sums group_sums; /* of group g: self at 2 g, total at 2 g + 1 */

	struct stack *stack;
	size_t stacks, stack_capacity;
	uint32_t *stack_slot;	/* open addressing: number + 1, or 0 */
	size_t stack_slots;	/* a power of two */
	uint64_t *stack_bits;	/* 8 per slot, by hash: rejects most hashes without a stack */
	struct sums stack_sums; /* numbered like group_sums */

	uint32_t *ranked; /* row of the answer -> group or stack */

	struct shown shown;    /* after query_shown() */
	struct owned *scratch; /* query_scratch()'s blocks */
};

/* ---- query_state.c ---- */

/* Both keep the first error. query_fail() returns false, so that callers can return its result. */
bool query_fail(struct query_state *s, int error);
void *query_zeroed(struct query_state *s, size_t count, size_t bytes);

/* The same, freed by query_end(). */
void *query_scratch(struct query_state *s, size_t count, size_t bytes);
void query_scratch_free(struct query_state *s);

/*
 * An answer, a struct of <mayfly/trace.h>, and its arrays: all zero, and freed together. NULL: out
 * of memory.
 */
void *answer_new(struct query_state *s, size_t bytes);
void *answer_array(struct query_state *s, void *answer, size_t count, size_t bytes);
/* Makes another answer, with its arrays, part of the first. */
void answer_adopt(void *answer, void *other);
void answer_free(void *answer);

/* Makes room for item number `used` of an array that grows with the number of events. A hostile
 * file can claim many events cheaply, so all such arrays share a budget of bytes. New memory is
 * zero. */
bool query_grow(struct query_state *s, uint64_t *budget, void *array, size_t *room, size_t used,
		size_t item);

/* Makes room for `count` sums; the caller clears new ones. */
bool query_sums_reserve(struct query_state *s, struct sums *sums, size_t count);
void query_sums_free(struct sums *sums);
/* A sum as a tally, at least zero. */
struct tally query_tally(const struct query_state *s, const struct sums *sums, size_t i);

static inline void query_sum_add(const struct query_state *s, struct sums *to, size_t i,
				 const struct sums *from, size_t k)
{
	if (s->exact) {
		to->plain[i].blocks += from->plain[k].blocks;
		to->plain[i].bytes += from->plain[k].bytes;
	} else {
		tally_merge(&to->tally[i], &from->tally[k]);
	}
}

/* Gives the sum of a slot another number, in another array that has room for it. */
static inline void query_move_sum(const struct query_state *s, struct sums *to, uint32_t number,
				  uint32_t slot)
{
	uint32_t *at = &s->summed_at[rank_set_rank(&s->summed, slot)];

	if (s->exact)
		to->plain[number] = s->sum.plain[*at];
	else
		to->tally[number] = s->sum.tally[*at];
	*at = number;
}

static inline void query_sum_clear(const struct query_state *s, struct sums *sums, size_t i)
{
	if (s->exact)
		sums->plain[i] = (struct plain){0};
	else
		sums->tally[i] = (struct tally){0};
}

/* ---- query_ending.c ---- */

/* Are blocks that Python's interpreter frees at its end never freed, for this question? */
bool query_ends_early(const struct query_state *s);
bool query_prepare_ending(struct query_state *s);
/* Whether this freed block of the batch is such a one. */
bool query_was_kept(const struct query_state *s, const struct cursor_batch *b, size_t freed);

/* ---- query.c ---- */

/* First step of an answer: prepares the filters for query_keeps(). */
bool query_choose(struct query_state *s, const struct mayfly_trace *trace,
		  const struct mayfly_query *query);
/* query_choose(), then the sums. */
bool query_begin(struct query_state *s, const struct mayfly_trace *trace,
		 const struct mayfly_query *query);
/* The caller frees the answer, and the state even if there is no answer (NULL). */
struct mayfly_result *query_answer(struct query_state *s, const struct mayfly_trace *trace,
				   const struct mayfly_query *query);
void query_end(struct query_state *s);
/* Last step: frees the state, and without an error stores the answer in the pointer at `to`; else
 * frees the answer. Returns the error. */
int answer_finish(struct query_state *s, void *answer, void *to);

static inline bool query_has_bit(const uint64_t *bits, uint64_t number)
{
	return bits[number / 64] >> number % 64 & 1;
}

static inline void query_set_bit(uint64_t *bits, uint64_t number)
{
	bits[number / 64] |= (uint64_t)1 << number % 64;
}

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
	    .labels = b->e.labels ? b->e.labels[alloc] : 0,
	};
}

/* Whether the metric counts what was allocated: then inherited blocks do not count. */
static inline bool query_of_allocated(enum mayfly_metric metric)
{
	return metric == MAYFLY_ALLOCATED || metric == MAYFLY_TEMPORARY ||
	       metric == MAYFLY_SURVIVED;
}

static inline bool query_by_node(const struct mayfly_query *q)
{
	return grouping_of(q->by).flags & GROUPING_BY_NODE;
}

/* Whether it asks only for the program's own mappings. All are recorded. */
static inline bool query_of_mappings(const struct mayfly_query *q)
{
	return q->heaps == 1u << MAYFLY_HEAP_MAPPING;
}

/* Whether blocks in these heaps may count: a bit each. */
static inline bool query_of_heaps(const struct query_state *s, uint32_t heaps)
{
	return !s->query->heaps || s->query->heaps & heaps;
}

static inline bool query_of_ocaml(const struct query_state *s)
{
	return s->info->ocaml_interval_bytes && query_of_heaps(s, MAYFLY_HEAPS_OCAML);
}

static inline bool query_at_peak(const struct mayfly_query *q)
{
	return q->metric == MAYFLY_PEAK || (q->metric == MAYFLY_LIVE && q->at_ns == MAYFLY_AT_PEAK);
}

static inline bool query_sparse(const struct mayfly_query *q)
{
	return grouping_of(q->by).flags & GROUPING_SPARSE;
}

static inline bool query_by_fate(enum mayfly_by by)
{
	return grouping_of(by).flags & GROUPING_BY_FATE;
}

/* Whether the answer depends on when, or by which thread, blocks are freed. */
static inline bool query_asks_fate(const struct query_state *s)
{
	const struct mayfly_query *q = s->query;

	return query_by_fate(q->by) || (s->site_of && query_by_fate(s->site_by)) ||
	       q->min_lifetime_ns > 0 || q->max_lifetime_ns < INT64_MAX;
}

/* In a trace of snapshots, a time stands for the end of the interval that contains it. */
static inline int64_t query_rounded(const struct query_state *s, int64_t time_ns)
{
	int64_t step = s->info->snapshot_ns, end = s->info->duration_ns, rest;

	if (step <= 0 || time_ns <= 0 || time_ns >= end)
		return time_ns;
	rest = step - 1 - (time_ns - 1) % step;
	return rest < end - time_ns ? time_ns + rest : end;
}

/* ---- query_events.c ---- */

/* What a pass does; each function may be NULL. false: the pass ends, with or without s->error. */
struct event_pass {
	void *context;
	size_t first_chunk;
	bool (*before)(void *context, const struct cursor_batch *b); /* of the events of a batch */
	/* event: its index in the batch; alloc, freed: among its allocations or frees. */
	bool (*alloc)(void *context, const struct cursor_batch *b, size_t event, size_t alloc);
	bool (*freed)(void *context, const struct cursor_batch *b, size_t event, size_t freed);
	bool (*after)(void *context, const struct cursor_batch *b);
	/* With each block that is live after the last batch. */
	void (*live)(void *context, uint64_t number, const struct cursor_block *block);
};

bool query_pass(struct query_state *s, const struct event_pass *pass);

/* ---- query_names.c ---- */

/* Interns the text: equal texts get equal numbers. 0 is "". */
uint32_t query_text(struct query_state *s, const char *text);

/* Fill node_kept and thread_kept. */
bool query_filter_nodes(struct query_state *s);
bool query_filter_threads(struct query_state *s);

/* The group of a key; a new one is a copy of *fresh. NONE: out of memory. */
uint32_t query_group(struct query_state *s, struct key key, const struct group *fresh);
/* The group of blocks without visible code on their stack. */
uint32_t query_special_group(struct query_state *s, const struct kept_place *kept);
const struct frame_spots *query_make_frame(struct query_state *s, uint32_t index);
/* NULL: out of memory. */
static inline const struct frame_spots *query_frame(struct query_state *s, uint32_t index)
{
	if (index < s->info->frames && s->frame[index].first != NONE)
		return &s->frame[index];
	return query_make_frame(s, index);
}
bool query_frames_begin(struct query_state *s);
/* What a node adds to stacks. NULL: out of memory. */
const struct frame_spots *query_cut_frame(struct query_state *s, uint32_t node);
static inline const struct frame_spots *query_node_frame(struct query_state *s, uint32_t node)
{
	return s->begins ? query_cut_frame(s, node) : query_frame(s, s->trace->node[node].frame);
}

/* ---- query_labels.c ---- */

/* Fills label_kept, and by label also label_slot and label_text. */
bool query_prepare_labels(struct query_state *s);
uint32_t query_label_slot(const struct query_state *s, uint32_t set);

/* ---- query_picture.c ---- */

/* Fills picture, holder_kept and type_kept. */
bool query_prepare_picture(struct query_state *s);
/* Whether the picture has the block, and the filters keep it. To be called by ascending number, before
 * query_slot(). */
bool query_pictured(struct query_state *s, uint64_t number);
/* The slots of holders, and of types; behind these stand the classes of size, of blocks without a type. */
size_t query_holder_slots(const struct query_state *s);
size_t query_type_slots(const struct query_state *s);
/* The block is the one that was asked for last; NONE: it has no type. */
uint32_t query_holder_slot(const struct query_state *s);
uint32_t query_type_slot(const struct query_state *s);
/* The group of a holder or a type. */
struct group query_picture_group(struct query_state *s, uint32_t slot);

/* ---- query_slots.c ---- */

/* Fills thread_row and row_thread. */
bool query_prepare_threads(struct query_state *s);
/* The number of slots; slots are numbered from 0. */
size_t query_slots(const struct query_state *s);
uint32_t query_slot(const struct query_state *s, const struct cursor_block *b, struct fate fate);
/* The group of a class of sizes or lifetimes, with its bounds; and the number of classes. */
struct group query_class_group(enum mayfly_by by, uint32_t class);
size_t query_classes(enum mayfly_by by);
/* The group of a slot that is not a node. */
uint32_t query_slot_group(struct query_state *s, uint32_t slot);

/* ---- query_sums.c ---- */

/* Fills the sums. MAYFLY_E_ABSENT: only events could answer, and the trace has none. */
bool query_sum(struct query_state *s);

/* Whether only single blocks can answer, as sums by node do not tell what is asked. */
bool query_asks_for_blocks(const struct query_state *s);
/* Whether the query's filters keep a block; lifetime, window and metric are not checked. */
bool query_keeps(const struct query_state *s, const struct cursor_block *b);
/* Whether every block counts for which trace_counts() says so: no filter, and no window. */
bool query_has_no_filter(const struct query_state *s);
/* Whether every block counts: also, no memory is recorded twice. */
bool query_keeps_all(const struct query_state *s);
/* As query_keeps(), for a block that counts only if it was allocated, not inherited. */
bool query_keeps_allocated(const struct query_state *s, const struct cursor_block *b);
bool query_in_window(const struct mayfly_query *q, int64_t time_ns);
/* The first chunk with a block that the window may keep, or 0. Earlier frees are not needed; later
 * frees of blocks from earlier chunks have node UINT32_MAX (cursor.h). */
size_t query_first_chunk(const struct query_state *s);
/* The sum of a slot while sums are integers; NULL: out of memory. */
struct plain *query_plain(struct query_state *s, uint32_t slot);
struct fate query_fate(const struct cursor_batch *b, size_t event, size_t freed);
/* Raises s->largest_interval to that of the batch's allocations in heaps that count. */
void query_note_intervals(struct query_state *s, const struct cursor_batch *b);
bool query_lifetime_fits(const struct mayfly_query *q, int64_t lifetime);

/* The index in s->sum of a slot's sum; NONE when the slot has no blocks. */
static inline uint32_t query_summed(const struct query_state *s, uint32_t slot)
{
	if (!rank_set_has(&s->summed, slot))
		return NONE;
	return s->summed_at[rank_set_rank(&s->summed, slot)];
}

/* ---- strata.c, strata_rows.c ---- */

/*
 * Stratified samples exclude each other: when the sample before one on the line of its thread and
 * class counts for the same sum, it is likely that each group there has a sample for it, and less
 * variance remains. A pair of successive samples of which both count takes R^2 off the variance of
 * their sum, which on average is not too much (doc/INTERNALS.md, "From samples to rows").
 */
bool strata_begin(struct query_state *s);
void strata_end(struct query_state *s);
/* With every batch of the pass that sums, in order. */
void strata_note(struct query_state *s, const struct cursor_batch *b);
/* Sample `number` counts for a slot. */
void strata_count(struct query_state *s, uint64_t number, uint32_t slot);
/* After the pass: makes the pairs. */
bool strata_join(struct query_state *s);
/* After the rows are made from nodes: pairs of different nodes. */
bool strata_share(struct query_state *s);

/* The places of a stack, leaf first; a stack without visible code is the one special place. */
struct query_path {
	uint32_t *place;
	size_t places, room;
	bool special;
};

/* Those of a node's stack; the caller frees p->place. */
bool query_find_path(struct query_state *s, struct query_path *p, uint32_t node);

struct strata_pair {
	uint32_t slot[2];     /* may be equal */
	double bytes, blocks; /* what pairs of them take off the variances */
};

/* The next pair of slots; *at is 0 at first. */
bool strata_next_pair(const struct query_state *s, size_t *at, struct strata_pair *pair);

/* ---- query_tree.c ---- */

/* A node on the way from the root to the current node. */
struct level {
	const struct frame_spots *frame;
	uint32_t top;	   /* cell of the printed stack up to here; NONE: it is empty */
	size_t first_cell; /* its own ones are from here on */
	uint32_t node;
	uint32_t sum;  /* in query_state.sum; NONE: it has none, or the walk is of the whole tree */
	uint32_t leaf; /* group of the blocks allocated here; NONE: all places are hidden */
	bool has_code;
	struct kept_place kept;
};

/* ---- stack_cells.c ---- */

struct stack_cell {
	uint64_t hash;	 /* of the stack up to here */
	uint32_t before; /* the next cell towards the root; NONE: there is none */
	uint32_t place;
	uint32_t stack; /* the one that ends here, or NONE; known while totals are made */
	bool recursive; /* the place ends a turn that stands for several */
	bool recurs;	/* this place or one before it */
};

struct stack_cells {
	struct stack_cell *cell;
	size_t count, room;
	uint32_t *node; /* of stack_cells_of() */
	size_t nodes;
};

/* Adds a place at the leaf of the stack that ends with the cell *top. False: s->error. */
bool stack_cells_push(struct query_state *s, struct stack_cells *c, uint32_t *top, uint32_t place);
/* The printed stack of a node, instead of what c had. False: s->error. */
bool stack_cells_of(struct query_state *s, struct stack_cells *c, uint32_t node, uint32_t *top);
size_t stack_cells_length(const struct stack_cells *c, uint32_t top);
void stack_cells_free(struct stack_cells *c);

struct tree_walk {
	struct query_state *s;
	bool whole; /* visit all nodes, also those without sums below; no sums */
	bool (*enter)(struct tree_walk *w); /* false: s->error */
	void (*leave)(struct tree_walk *w); /* or NULL */
	void *context;
	struct level *level; /* [depth] is the current node, [0] the root */
	size_t depth, levels;
	const struct tree_way *way;
	size_t nodes; /* that were entered */
	uint32_t sums;
	struct stack_cells cells;
	struct sums below; /* [k]: the sum that callbacks collect for level k */
};

/* Visits all nodes with a sum and their ancestors, depth first. */
bool query_walk(struct tree_walk *walk);
void tree_way_free(struct tree_way *way);

/* The hash of a stack with one more place at its leaf; an empty stack has hash 0. */
static inline uint64_t query_push(uint64_t hash, uint32_t place)
{
	hash = (hash ^ place) * 0x9e3779b97f4a7c15u + 0x632be59bd9b4e019u;
	return (hash ^ hash >> 29) * 0xbf58476d1ce4e5b9u;
}

/* The stack with this hash, or NONE. */
uint32_t query_find_stack(const struct query_state *s, uint64_t hash);

/* The group or stack of the blocks that are allocated at the current node. special: it is not a
 * place of the node. Call it only after the rows are made. */
bool query_own(struct tree_walk *w, uint32_t *source, bool *special);

/* Makes groups or stacks from the sums. */
bool query_make_groups(struct query_state *s);

/* ---- query_shown.c ---- */

/* Asks the question and prepares s->shown for its first `rows` rows. The result becomes part of the
 * answer, which may be NULL. NULL: s->error. */
struct mayfly_result *query_shown(struct query_state *s, void *answer,
				  const struct mayfly_trace *trace,
				  const struct mayfly_query *query, size_t rows);
/* The shown rows and the row of all others, as part of the answer. NULL: out of memory. */
struct mayfly_row *query_shown_rows(struct query_state *s, void *answer,
				    const struct mayfly_result *result);

/* ---- query_rows.c ---- */

struct unseen query_unseen(const struct query_state *s, uint64_t smallest, enum spread_of of);
int64_t query_answer_time(const struct query_state *s);
struct mayfly_place query_place(const struct query_state *s, const struct group *g);
struct mayfly_result *query_make_result(struct query_state *s);

#endif
