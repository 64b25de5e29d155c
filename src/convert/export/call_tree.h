/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calling-context tree of functions: calls of one function from the same callers are one node,
 * whatever their addresses; inlined functions are treated as called.
 */
#ifndef MAYFLY_CALL_TREE_H
#define MAYFLY_CALL_TREE_H

#include "answer/shown_stacks.h"

#define CALL_NONE   UINT32_MAX
#define CALL_VALUES (2 * STACK_COLUMNS)

/* Index of a value of a node: bytes or blocks of a query. */
#define CALL_BYTES(column)  (2 * (column))
#define CALL_BLOCKS(column) (2 * (column) + 1)

struct call_node {
	uint32_t parent; /* precedes its children */
	uint32_t name, file;
	uint32_t module; /* of the trace, or UINT32_MAX */
	uint32_t child, sibling;
	double self[CALL_VALUES];
};

struct call_tree {
	struct call_node *node; /* 0: the root, without a name */
	size_t count, capacity;
	double *total; /* for each node: the total of the value sorted by */
};

/* by_file: functions of one name in two files are different. 0 or a negative enum mayfly_error;
 * call call_tree_free() in both cases. */
int call_tree_make(struct call_tree *t, struct shown_stacks *s, struct stack_sums *sums,
		   bool by_file);
/* Computes the totals of a value and links children, largest first, without those whose total is 0.
 * 0 or a negative enum mayfly_error. */
int call_tree_sort(struct call_tree *t, int value);
void call_tree_free(struct call_tree *t);

/* Iterates over all linked nodes except the root, parents first; start with 0. Returns the next
 * node, or CALL_NONE at the end. *left: the number of nodes that end before it. */
uint32_t call_tree_next(const struct call_tree *t, uint32_t node, size_t *left);

#endif
