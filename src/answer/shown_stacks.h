/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks as other tools show them: each frame as its lines, the innermost inlined function first,
 * and without the lines that are hidden; and the sums of an answer, stack by stack.
 *
 *	node of the tree -> parent -> ... -> root
 *	  |
 *	frame -> lines: { name "f<int>()", file, line }, ...
 *	                  ^ numbers of texts, so that equal names are equal numbers
 */
#ifndef MAYFLY_SHOWN_STACKS_H
#define MAYFLY_SHOWN_STACKS_H

#include <mayfly/trace.h>

#include "answer/texts.h"

struct shown_line {
	uint32_t name; /* text: a function, or what stands for one: never empty */
	uint32_t file; /* text: "" when unknown */
	uint32_t line;
	bool inlined; /* into the next line */
};

struct shown_frame {
	uint32_t first, count; /* of its lines; 0: nothing of it is shown */
	bool hides;	       /* some of it is not shown */
	bool begins;	       /* query.show_from matches it */
	uint8_t folded; /* the highest answer of query.fold for its locations; 0: none is folded */
	uint32_t folded_location;
};

/* What stacks show that have no code to show, and nothing folded: all of it is hidden; or there is none. */
enum shown_special { SHOWN_HIDDEN = 0, SHOWN_NONE = 1, SHOWN_SPECIALS = 2 };

struct shown_stacks {
	const struct mayfly_trace *trace;
	const struct mayfly_info *info;
	struct texts texts;
	/* One for each frame of the trace, then the specials; if query.show_from cuts stacks, then
	 * one more for each frame: as it is shown where a stack begins; if query.fold folds frames, then
	 * one more for each: the line that stands for a stack in which nothing else is left. */
	struct shown_frame *frame;
	size_t frames; /* without those */
	size_t kept;   /* where those of the last kind begin; 0: there are none */
	uint8_t *cut;  /* node -> enum shown_cut; NULL: no stack is cut */
	struct shown_line *line;
	size_t lines, line_capacity;
	/* For each text: what it was matched against, and the results. */
	uint8_t *verdict;
	size_t verdict_capacity;
	uint32_t *path; /* the frames of one stack */
	size_t path_capacity;
};

/* Where a node is: above the frame at which stacks begin, there, or below it. */
enum shown_cut { SHOWN_ABOVE, SHOWN_HERE, SHOWN_BELOW };

#define SHOWN_NOTHING UINT32_MAX

/* 0 or a negative enum mayfly_error; call shown_end() in both cases. */
int shown_begin(struct shown_stacks *s, const struct mayfly_trace *trace,
		const struct mayfly_query *query);
void shown_end(struct shown_stacks *s);

const char *shown_text(const struct shown_stacks *s, uint32_t number);

/* The index in s->frame of what a node shows, or SHOWN_NOTHING. */
uint32_t shown_node(const struct shown_stacks *s, uint32_t node);
/* The number of such indices. */
size_t shown_indices(const struct shown_stacks *s);
/* The frame of the trace of such an index; s->info->frames or more: none. */
uint32_t shown_trace_frame(const struct shown_stacks *s, uint32_t index);

/* What a stack without any code to show has in its place. */
uint32_t shown_instead(const struct shown_stacks *s, uint32_t node);
/* Is the index such a one? */
bool shown_is_instead(const struct shown_stacks *s, uint32_t index);

/* The frames of a stack that show something, leaf first: indices into s->frame, at least one;
 * valid until the next call. 0: out of memory. */
size_t shown_path(struct shown_stacks *s, uint32_t node, const uint32_t **frames);

/* ---- sums ---- */

#define STACK_COLUMNS 2

/* The answers to one or two queries for each node, by ascending node. */
struct stack_sums {
	struct mayfly_node_sums *of[STACK_COLUMNS]; /* NULL: there is no answer */
	size_t at[STACK_COLUMNS];
};

struct stack_sum {
	uint32_t node;
	const struct mayfly_estimate *of[STACK_COLUMNS]; /* never NULL */
};

/* The second query may be NULL, or one that the trace cannot answer. */
int stack_sums_begin(struct stack_sums *s, const struct mayfly_trace *trace,
		     const struct mayfly_query *first, const struct mayfly_query *second);
bool stack_sums_next(struct stack_sums *s, struct stack_sum *sum);
void stack_sums_rewind(struct stack_sums *s);
void stack_sums_end(struct stack_sums *s);

/* Whole numbers for estimates, so that their sum is the rounded sum of the estimates. */
struct rounding {
	double sum;
	uint64_t given;
};

uint64_t rounding_next(struct rounding *r, double value);

#endif
