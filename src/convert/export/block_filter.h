/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides event by event which blocks a query is about: for exports of single blocks, and for
 * figures that sums do not give. To find the stacks that pass, it runs a query with only the stack
 * filters: a stack with a sum passes.
 */
#ifndef MAYFLY_BLOCK_FILTER_H
#define MAYFLY_BLOCK_FILTER_H

#include <mayfly/trace.h>

#include "base/rank_set.h"

struct block_filter {
	const struct mayfly_trace *trace;
	const struct mayfly_info *info;
	const struct mayfly_query *query;
	struct rank_set nodes;	 /* nodes whose stacks pass */
	struct rank_set threads; /* threads that pass */
	struct rank_set labels;	 /* sets of labels that pass */
	struct rank_set freed;	 /* samples freed so far */
	struct rank_set kept;	 /* nodes whose blocks Python's end does not free: query_ending.c */
};

/* 0 or a negative enum mayfly_error; call block_filter_end() in both cases. */
int block_filter_begin(struct block_filter *f, const struct mayfly_trace *trace,
		       const struct mayfly_query *query);
void block_filter_end(struct block_filter *f);

/* Applies all filters except metric and lifetime. */
bool block_filter_keeps(const struct block_filter *f, const struct mayfly_event *e);
bool block_filter_keeps_lifetime(const struct block_filter *f, int64_t lifetime_ns);

/*
 * Calls take() once for each block: in a first pass, at their FREE, for blocks that are freed; in a
 * second pass, at their ALLOC, for all others, and for those that LEAKED takes for never freed. An error from take() ends the walk.
 */
typedef int block_filter_take(void *context, const struct mayfly_event *e, bool freed);
int block_filter_walk(struct block_filter *f, block_filter_take *take, void *context);

#endif
