/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calling-context tree as people see it: a node for each function called from the same
 * functions, whatever the addresses, inlined functions as if they were called.
 */
#ifndef MAYFLY_CALL_TREE_H
#define MAYFLY_CALL_TREE_H

#include "answer/shown_stacks.h"

#define CALL_NONE   UINT32_MAX
#define CALL_VALUES (2 * STACK_COLUMNS)

/* Which value of a node: bytes and blocks of each question. */
#define CALL_BYTES(column)  (2 * (column))
#define CALL_BLOCKS(column) (2 * (column) + 1)

struct call_node {
	uint32_t parent; /* is before its children */
	uint32_t name, file;
	uint32_t module; /* of the trace, or UINT32_MAX */
	uint32_t child, sibling;
	double self[CALL_VALUES];
};

struct call_tree {
	struct call_node *node; /* 0 is the root, which has no name */
	size_t count, capacity;
	double *total; /* of each node, of the value sorted by */
};

/* by_file: functions of the same name in two files are two. 0 or a negative enum mayfly_error;
 * call_tree_free() is to be called in both cases. */
int call_tree_make(struct call_tree *t, struct shown_stacks *s, struct stack_sums *sums,
		   bool by_file);
/* Of each node a value with all below; to be freed. NULL: out of memory. */
double *call_tree_totals(const struct call_tree *t, int value);
/* Makes totals of a value and links children, the largest first; those without any are left out.
 * 0 or a negative enum mayfly_error. */
int call_tree_sort(struct call_tree *t, int value);
void call_tree_free(struct call_tree *t);

/* Through all linked nodes but the root, parents first: the next one, or CALL_NONE at the end.
 * Begin with 0. *left: how many nodes end before it. */
uint32_t call_tree_next(const struct call_tree *t, uint32_t node, size_t *left);

#endif
