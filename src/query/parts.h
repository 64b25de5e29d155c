/* SPDX-License-Identifier: Apache-2.0 */
/* What the per-stack counters of a trace (sums.h) say of all stacks together. */
#ifndef MAYFLY_PARTS_H
#define MAYFLY_PARTS_H

#include "trace/read/sums.h"

/* Wraps around where a damaged trace frees more than it allocates. */
struct parts_totals {
	uint64_t allocs, alloc_bytes, frees, free_bytes, temps, temp_bytes;
};

/* Blocks or bytes that are left, none when they seem to be fewer than none. */
static inline uint64_t parts_left(uint64_t allocated, uint64_t freed)
{
	return allocated > freed ? allocated - freed : 0;
}

struct parts_view {
	size_t parts;		       /* 0: there are no counters */
	struct parts_totals end, peak; /* sums up to the end, and up to the peak */
	int64_t peak_time_ns;
};

/* The first end of a part at which so much is live: at the peak. */
struct parts_peak {
	uint64_t events; /* 0: nothing was ever live */
	int64_t time_ns;
};
int parts_find_peak(const struct mayfly_trace *trace, struct parts_peak *peak);

/* The peak is the first end of a part at which more is live than at any before it. */
int parts_scan(const struct mayfly_trace *trace, struct parts_view *view);

#endif
