/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream of coverage_scenarios.h as the agent's sampler sees it: a trace in memory. And the true
 * figures, which are computed from the stream alone.
 */
#ifndef MAYFLY_COVERAGE_TRACE_H
#define MAYFLY_COVERAGE_TRACE_H

#include <mayfly/trace.h>

#include "format/weights.h"

#include "coverage_scenarios.h"

/* ---- traces ---- */

#define COVERAGE_NOBODY UINT32_MAX

struct coverage_run {
	uint32_t interval_log2;
	uint32_t sampler; /* enum mayfly_sampler, or ESTIMATE_WORDS: all blocks are OCaml's */
	uint64_t seed;
	uint32_t grown; /* a function whose blocks are 30 % larger, or COVERAGE_NOBODY */
};

struct coverage_trace {
	struct mayfly_trace *trace;
	uint8_t *bytes;
	size_t size;
};

/* Ends the program on an error. */
struct coverage_trace coverage_record(const struct coverage_stream *s,
				      const struct coverage_run *run);
/* A trace in a file. */
struct coverage_trace coverage_open(const char *path);
void coverage_close(struct coverage_trace *t);

static inline uint64_t coverage_size(const struct coverage_stream *s, uint32_t block,
				     uint32_t grown)
{
	const struct coverage_block *b = &s->block[block];

	return s->stack[b->stack].function == grown ? b->size + b->size * 3 / 10 : b->size;
}

/* ---- questions ---- */

enum coverage_metric {
	COVERAGE_ALLOCATED,
	COVERAGE_LIVE,
	COVERAGE_MIDDLE, /* live when half of the events are past */
	COVERAGE_LEAKED,
	COVERAGE_TEMPORARY,
	COVERAGE_SURVIVED, /* allocated in the second and third quarter, and live after them */
	COVERAGE_PEAK,	   /* rows are compared with those at the true peak */
	COVERAGE_STATED,   /* the same answer, compared with the truth at the moment it states */
	COVERAGE_METRICS,
};

enum coverage_by {
	COVERAGE_FUNCTION,
	COVERAGE_TOTAL, /* by function, with callees */
	COVERAGE_STACK,
	COVERAGE_LINE,
	COVERAGE_THREAD,
	COVERAGE_SIZE,
	COVERAGE_LIFETIME,
	COVERAGE_FREER, /* the freeing thread */
	COVERAGE_HEAP,
	COVERAGE_LABEL,
	COVERAGE_LABELLED, /* by function, blocks with the label of the first tenant */
	COVERAGE_BYS,
};

extern const char *const coverage_metric_names[COVERAGE_METRICS];
extern const char *const coverage_by_names[COVERAGE_BYS];

struct mayfly_query coverage_query(const struct coverage_stream *s, enum coverage_metric metric,
				   enum coverage_by by);
/* How many keys there are; the key of a row. */
size_t coverage_keys(const struct coverage_stream *s, enum coverage_by by);
size_t coverage_row_key(const struct coverage_stream *s, enum coverage_by by,
			const struct mayfly_row *row);

/* ---- the truth ---- */

struct coverage_figures {
	double bytes, blocks;
};

struct coverage_truth {
	struct coverage_figures *row[COVERAGE_BYS]; /* by key */
	struct coverage_figures total;
};

struct coverage_truth coverage_truth_new(const struct coverage_stream *s);
void coverage_truth_free(struct coverage_truth *t);
/* events: the number of events before the moment of PEAK and STATED. */
void coverage_truth_fill(const struct coverage_stream *s, enum coverage_metric metric,
			 uint64_t events, struct coverage_truth *t);
/* The number of events after which the live bytes are largest. */
uint64_t coverage_true_peak(const struct coverage_stream *s);

#endif
