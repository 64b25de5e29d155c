/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long many things took: sums, a histogram, percentiles. Percentiles come from the durations
 * themselves, and when they are many, from how many are in each class; a power of two has 256
 * classes, which are 0.4 % wide.
 */
#ifndef MAYFLY_DURATIONS_H
#define MAYFLY_DURATIONS_H

#include <mayfly/trace.h>

#define DURATION_CLASS_BITS 8
#define DURATION_OCTAVES    (64 - DURATION_CLASS_BITS)

struct durations {
	uint64_t count;
	int64_t total_ns, min_ns, max_ns;
	uint64_t in_class[MAYFLY_SPAN_CLASSES];
	int64_t *time; /* until there are too many, then in classes: */
	size_t times, room;
	uint64_t *octave[DURATION_OCTAVES];
};

/* One that is not negative. Memory is taken from *budget. 0 or a negative enum mayfly_error. */
int durations_add(struct durations *d, int64_t ns, uint64_t *budget);
/* When all have been added, before percentiles are asked for. */
void durations_sort(struct durations *d);
/* The least duration that `percent` of all do not exceed. */
int64_t durations_percentile(const struct durations *d, uint64_t percent);
void durations_free(struct durations *d);

/* INT64_MAX: at least that. */
static inline void duration_sum(int64_t *sum, int64_t ns)
{
	if (__builtin_add_overflow(*sum, ns, sum))
		*sum = INT64_MAX;
}

#endif
