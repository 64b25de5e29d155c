/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The call tree of an answer: calls of one function from the same callers are one node, whatever
 * their addresses; inlined functions are treated as called, hidden frames as if they were not there.
 *
 *	calls_grow.c	the trace's tree, with its frames merged by function or line ("raw")
 *	calls_shape.c	what of it is shown: pruned, or turned around ("shape")
 *	calls_sums.c	the sums of the shape's nodes, their errors, and their order
 *	calls_tree.c	the answer; also of two traces
 *	calls_around.c	the callers and callees of one function
 *
 *	all              100	raw node of a block ----> shape node
 *	 +- main          90	      parse                 parse
 *	 |   +- parse     70	      parse's callees       parse's callees, or "2 smaller" below it
 *	 |   |   +- grow  40	inverted: the end of the path that begins with the block's function
 *	 |   |   +- (2 smaller)  30
 *
 * Each block belongs to exactly one node of the shape, so that everywhere total = self + the totals
 * of the callees.
 */
#ifndef MAYFLY_CALLS_TREE_H
#define MAYFLY_CALLS_TREE_H

#include "query/diff.h"

#include <mayfly/trace.h>

#define CALLS_NONE UINT32_MAX

struct calls_options {
	/*
	 * Bottom-up: below the root the functions that allocate, and below each its callers. Self
	 * is then what begins there: the blocks whose stacks have no further callers.
	 */
	bool invert;
	/* A frame equal to one that is on its path already is that node: main > f > g > f > h
	 * becomes main > f with the callees g and h. Done before the tree is inverted. */
	bool fold;
	bool by_line; /* else by function */
	bool blocks;  /* figures are blocks, else bytes */
	/* A node with less than this share of all is not shown: all such callees of a function
	 * are one node. */
	double least;
	bool estimates; /* fill calls.self and calls.total_of */
};

struct calls_node {
	uint32_t parent, end, depth; /* end: the number after its subtree's last */
	uint32_t place;		     /* in calls.place; CALLS_NONE: the root, or no function: */
	uint32_t smaller; /* stands for so many callees; 0 there: callers that were cut off */
	uint32_t samples, self_samples;
	double self, total, left; /* left: where it begins; a node ends with its self */
	float self_stderror, total_stderror;
};

/* In preorder. Callees by descending total; the node of all smaller ones is the last. */
struct calls {
	struct calls_node *node; /* 0: the root */
	size_t nodes;
	struct mayfly_place *place; /* file and module are "" where a function has several */
	size_t places;
	struct mayfly_estimate all;
	int64_t time_ns; /* as in struct mayfly_result */
	/* For each node, or NULL: */
	struct mayfly_estimate *self, *total_of;
};

/* The query's grouping and order do not matter. 0 or a negative enum mayfly_error. */
int calls_run(const struct mayfly_trace *trace, const struct mayfly_query *query,
	      const struct calls_options *options, struct calls **calls);
void calls_free(struct calls *calls);

/* The trees of two traces as one; options->by_line and estimates do not matter. Figures are those of
 * `after`, and so is the order. */
struct calls_diff {
	struct calls *after;
	double *before;		    /* totals of nodes */
	struct diff_figure *change; /* of the totals of nodes; corrected for their number */
	struct mayfly_estimate before_all;
};

int calls_diff_run(const struct mayfly_trace *before, const struct mayfly_trace *after,
		   const struct mayfly_query *query, const struct calls_options *options,
		   struct calls_diff **diff);
void calls_diff_free(struct calls_diff *diff);

/* ---- calls_around.c ---- */

/*
 * The callers and callees of a function, or of several together. Each block counts once for a
 * caller, also under recursion: its stack has the function right below that caller at least once.
 * Self is what the function itself allocates when the caller calls it; of a callee, what that
 * allocates itself when the function calls it.
 */
struct calls_around {
	struct mayfly_row function; /* the first that matches; its figures are of all of them */
	size_t functions;	    /* how many match; 0: none, or none has blocks */
	struct mayfly_row *caller, *callee; /* by descending total */
	size_t callers, callees;
	struct mayfly_estimate all;
	int64_t time_ns;
};

/* Says whether a place is one of the functions asked about. */
struct calls_match {
	bool (*matches)(void *context, const struct mayfly_place *place);
	void *context;
};

int calls_around_run(const struct mayfly_trace *trace, const struct mayfly_query *query,
		     struct calls_match match, struct calls_around **around);
void calls_around_free(struct calls_around *around);

#endif
