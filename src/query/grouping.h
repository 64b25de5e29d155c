/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keys by which an answer groups blocks: one row for each value of enum mayfly_by, and of
 * `--by`. A value without a row does not compile. doc/INTERNALS.md, "A new --by key", lists the
 * switches that a new row needs; they have no `default:`, so the compiler lists them, too.
 */
#ifndef MAYFLY_GROUPING_H
#define MAYFLY_GROUPING_H

#include <mayfly/trace.h>

enum grouping_flags {
	/* Rows are made from the calling-context tree: their blocks are summed by node. Other
	 * groupings need single blocks, which heap profiles and snapshots do not have. */
	GROUPING_BY_NODE = 1u,
	GROUPING_BY_FATE = 2u, /* rows depend on when, or by which thread, a block is freed */
	GROUPING_SPARSE = 4u,  /* most slots (query.h) have no blocks */
	GROUPING_PICTURE = 8u, /* only the heap's picture tells */
};

/* ROW(enum value, name on the command line, name in headings, flags, what a trace must have) */
#define GROUPINGS(ROW)                                                                             \
	ROW(FUNCTION, "function", "function", GROUPING_BY_NODE | GROUPING_SPARSE, 0)               \
	ROW(LINE, "line", "line", GROUPING_BY_NODE | GROUPING_SPARSE, 0)                           \
	ROW(STACK, "stack", "stack", GROUPING_BY_NODE | GROUPING_SPARSE, 0)                        \
	ROW(MODULE, "module", "module", GROUPING_BY_NODE | GROUPING_SPARSE, 0)                     \
	ROW(THREAD, "thread", "thread", 0, MAYFLY_ABSENT_THREADS)                                  \
	ROW(SIZE, "size", "size", 0, MAYFLY_ABSENT_SIZES)                                          \
	ROW(LIFETIME, "lifetime", "lifetime", GROUPING_BY_FATE, MAYFLY_ABSENT_LIFETIMES)           \
	ROW(HEAP, "heap", "heap", 0, 0)                                                            \
	ROW(FREEING_THREAD, "freeing-thread", "thread that freed", GROUPING_BY_FATE,               \
	    MAYFLY_ABSENT_THREADS | MAYFLY_ABSENT_LIFETIMES)                                       \
	ROW(LABEL, "label", "label", 0, 0)                                                         \
	ROW(THREADS, "threads", "threads that allocated and freed",                                \
	    GROUPING_BY_FATE | GROUPING_SPARSE, MAYFLY_ABSENT_THREADS | MAYFLY_ABSENT_LIFETIMES)   \
	ROW(HOLDER, "holder", "holder", GROUPING_PICTURE, 0)                                       \
	ROW(TYPE, "type", "type", GROUPING_PICTURE, 0)

#define GROUPING_ONE(...) +1
enum { GROUPING_COUNT = 0 GROUPINGS(GROUPING_ONE) };
#undef GROUPING_ONE

struct grouping {
	const char *name, *option; /* "stack", "--by stack" */
	const char *title;
	uint32_t flags;	 /* enum grouping_flags */
	uint32_t absent; /* enum mayfly_absent: a trace that lacks one of these has no answer */
};

/* All zero for a number that is not a value of the enum. */
static inline struct grouping grouping_of(enum mayfly_by by)
{
	switch (by) {
#define GROUPING_CASE(key, name, title, flags, absent)                                             \
	case MAYFLY_BY_##key:                                                                      \
		return (struct grouping){name, "--by " name, title, flags, absent};
		GROUPINGS(GROUPING_CASE)
#undef GROUPING_CASE
	}
	return (struct grouping){0};
}

#endif
