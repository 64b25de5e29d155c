/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The moment of the peak in a trace of samples. The largest of many noisy sums is mostly one whose
 * samples were lucky, so that samples which are counted where they were found largest say too much.
 * Samples of one half that are counted where the other half is largest have no such luck, but say
 * too little, because that moment is mostly not quite the peak:
 *
 *	           a       b
 *	half 0	__/\/\_____/\___	is largest at a: samples of half 1 are counted there
 *	half 1	__/\______/\/\__	is largest at b: samples of half 0 are counted there
 *
 * Both errors are about equal. So a sample in two is counted where all samples together are
 * largest, the others where the other half is.
 *
 * A block that was bound to be sampled says the same in both halves: it belongs to both, and is
 * counted where all together are largest. Most samples are between that and none of it. The share of
 * its weight that weight_certain() says belongs to both halves, and is the chance with which it is
 * counted like a certain one.
 *
 * Other moments may be the peak as well. Rows that differ between them are as uncertain as that.
 * doc/INTERNALS.md, "The peak", has the reasons and what they gain.
 */
#ifndef MAYFLY_PEAK_H
#define MAYFLY_PEAK_H

#include <mayfly/trace.h>

#include "base/hash.h"
#include "query/estimate.h"

/* A moment between two events. */
struct moment {
	uint64_t events; /* the number of events before it */
	int64_t time_ns;
};

struct peak {
	/* Where the estimate of all live bytes is largest. Blocks that are certain count here. */
	struct moment best;
	/* Moments that may be the peak; in [0] and [1] samples of half 0 and 1 are counted. */
	struct moment near[PEAK_MOMENTS];
};

static inline unsigned peak_half(uint64_t sample)
{
	return (unsigned)(hash_mix(sample + 1) >> 20 & 1);
}

#define PEAK_BEST PEAK_MOMENTS

/* The moment at which a block counts: an index of near[], or PEAK_BEST. certain: weight_certain(). */
static inline unsigned peak_moment(uint64_t sample, double certain)
{
	uint64_t coins = hash_mix(sample + 1) >> 21;

	if (coins & 1 || (double)(coins >> 1 & 0xffffff) < certain * 0x1000000)
		return PEAK_BEST;
	return peak_half(sample);
}

unsigned peak_moment_of(const struct mayfly_trace *trace, const struct mayfly_event *e);

static inline struct moment peak_at(const struct peak *p, unsigned moment)
{
	return moment == PEAK_BEST ? p->best : p->near[moment];
}

/* 0 or a negative enum mayfly_error. All zero: nothing was ever live. */
/* mapped: that of the program's own mappings, which do not count in the other one. */
int peak_find(const struct mayfly_trace *trace, bool mapped, struct peak *peak);

#endif
