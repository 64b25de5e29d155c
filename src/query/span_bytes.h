/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What single spans allocated, by type: what one request costs. In a sampled trace a span's bytes are
 * the weights of its samples, so only the mean of many spans says something.
 */
#ifndef MAYFLY_SPAN_BYTES_H
#define MAYFLY_SPAN_BYTES_H

#include <mayfly/trace.h>

#define SPAN_WORST	   16u /* spans that are kept of a type */
#define SPAN_BYTES_CLASSES 64u

struct worst_span {
	int64_t begin_ns, end_ns;
	/* The times of its first and last block, which may be coarser than those of spans: in an exact
	 * trace blocks have the time of the moment before at which the clock was read. */
	int64_t first_ns, last_ns;
	uint32_t thread; /* index */
	double bytes;	 /* of its thread, while it was open */
	uint64_t blocks; /* recorded ones */
};

struct span_bytes {
	uint32_t type;
	uint64_t spans; /* those that began in the window and ended */
	double mean;
	int64_t p50, p99, most;
	/* Class 0: spans without a byte; class k: 2^(k - 1) bytes or more, less than 2^k. */
	uint64_t in_class[SPAN_BYTES_CLASSES];
	size_t worst_count;
	struct worst_span worst[SPAN_WORST]; /* the largest first */
};

/* The bytes of the row with this type of an answer of mayfly_spans_run(); stays the answer's. */
const struct span_bytes *span_bytes_of(const struct mayfly_spans *spans, uint32_t type);

/* The least bytes of a class; INT64_MAX: past the last. */
int64_t span_bytes_class(size_t number);

#endif
