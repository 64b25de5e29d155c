/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which blocks a question is about, asked of one event after the other: for exports of single
 * blocks, and for what sums do not tell. Whether a stack passes the filters is asked of a query
 * that has no others: a stack that it has a sum for, passes.
 */
#ifndef MAYFLY_BLOCK_FILTER_H
#define MAYFLY_BLOCK_FILTER_H

#include <mayfly/trace.h>

#include "format/numbering.h"

struct block_filter {
	const struct mayfly_trace *trace;
	const struct mayfly_info *info;
	const struct mayfly_query *query;
	struct rank_set nodes;	 /* whose stacks pass */
	struct rank_set threads; /* that pass */
	struct rank_set labels;	 /* sets that pass */
	struct rank_set freed;	 /* samples, so far */
};

/* 0 or a negative enum mayfly_error; block_filter_end() is to be called in both cases. */
int block_filter_begin(struct block_filter *f, const struct mayfly_trace *trace,
		       const struct mayfly_query *query);
void block_filter_end(struct block_filter *f);

/* By everything but metric and lifetime. */
bool block_filter_keeps(const struct block_filter *f, const struct mayfly_event *e);
bool block_filter_keeps_lifetime(const struct block_filter *f, int64_t lifetime_ns);

/*
 * Each block once: those that are freed at their FREE, on the first way through the trace, then, on
 * the second, at their ALLOC those that never were. take() returns 0, or an error, which ends it.
 */
int block_filter_walk(struct block_filter *f,
		      int (*take)(void *context, const struct mayfly_event *e, bool freed),
		      void *context);

#endif
