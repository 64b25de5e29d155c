/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the resident memory consists of:
 *
 *	RSS = live blocks			our estimate
 *	    + allocator: overhead, free		its own figures (counters of the agent)
 *	    + other anonymous memory		what is left of the heap's and anonymous mappings
 *	    + stacks, files, shared, ...	mappings by kind (counters of the recorder)
 *	    + not explained
 *
 * The kernel counts pages that were touched, the allocator counts what it has handed out. If less
 * is resident than the allocator reports, the difference is a negative row: never touched, or given
 * back. So the rows always add up.
 */
#ifndef MAYFLY_RSS_H
#define MAYFLY_RSS_H

#include <mayfly/trace.h>

#include "answer/json_writer.h"
#include "answer/mapped.h"

enum rss_part {
	RSS_LIVE,
	RSS_OVERHEAD,
	RSS_METADATA,
	RSS_FRAGMENTED,
	RSS_KEPT,
	RSS_UNTOUCHED,
	RSS_ANONYMOUS,
	RSS_STACKS,
	RSS_FILES,
	RSS_SHARED,
	RSS_OTHER,
	RSS_OWN,
	RSS_UNEXPLAINED,
	RSS_PARTS
};

/* In JSON, and in tables. */
struct rss_part_name {
	const char *key, *name;
};
extern const struct rss_part_name rss_part_names[RSS_PARTS];

struct rss_moment {
	const char *which;
	int64_t time_ns;
	double rss, part[RSS_PARTS];
	struct mayfly_estimate live;
	double arenas, stacks, top; /* arenas, stacks: their numbers; top: free at the heap's end */
	int64_t allocator_ns;	    /* time of the allocator's figures; < 0: none */
	bool mappings;		    /* by kind */
};

struct rss {
	const struct mayfly_trace *trace;
	const char *allocator; /* or NULL */
	struct rss_moment moment[2];
	size_t moments;
	struct mapped mapped; /* at these moments */
	double highest;	      /* the kernel's own maximum; 0: unknown */
};

/* Whether the trace records resident memory. */
bool rss_is_known(const struct mayfly_trace *trace);
/* For such traces. 0 or a negative enum mayfly_error; call rss_end() in both cases. */
int rss_begin(struct rss *r, const struct mayfly_trace *trace);
void rss_end(struct rss *r);

/* A sentence about the part that matters most; RSS_PARTS: none does. */
enum rss_part rss_advice(const struct rss *r, const struct rss_moment *m, char *text, size_t size);

/* Members of an object that is open. */
void json_rss(struct json *j, const struct rss *r);

/* ---- counters ---- */

/* One that has points; or NULL. */
const struct mayfly_counter *counter_named(const struct mayfly_trace *trace, const char *name);
double last_value(const struct mayfly_counter *c);
double largest_value(const struct mayfly_counter *c);
/* The largest value in each of `steps` parts of the recording, for a curve. False: there is no such
 * counter. */
bool counter_steps(const struct mayfly_trace *trace, const char *name, double *value, size_t steps);

#endif
