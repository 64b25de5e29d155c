/* SPDX-License-Identifier: Apache-2.0 */
/* Totals over all stacks of the per-stack counters of a trace (sums.h). */
#ifndef MAYFLY_PARTS_H
#define MAYFLY_PARTS_H

#include "trace/read/sums.h"

/* Values wrap around in a damaged trace that frees more than it allocates. */
struct parts_totals {
	uint64_t allocs, alloc_bytes, frees, free_bytes, temps, temp_bytes;
	uint64_t inherited, inherited_bytes; /* among allocs */
};

/* Blocks or bytes that are left; 0 when more were freed, or inherited, than there were. */
static inline uint64_t parts_left(uint64_t all, uint64_t gone)
{
	return all > gone ? all - gone : 0;
}

struct parts_view {
	size_t parts;		       /* 0: the trace has no counters */
	struct parts_totals end, peak; /* sums up to the end, and up to the peak */
	int64_t peak_time_ns;
};

/* The peak: the first end of a part with the most live bytes. */
struct parts_peak {
	uint64_t events; /* 0: nothing was ever live */
	int64_t time_ns;
};
int parts_find_peak(const struct mayfly_trace *trace, struct parts_peak *peak);

/* The peak is the first end of a part at which more is live than at any before it. */
int parts_scan(const struct mayfly_trace *trace, struct parts_view *view);

#endif
