/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Statistics of durations: sums, a histogram, percentiles. Percentiles come from the durations
 * themselves while they are few, later from counts per class; each power of two is divided into
 * 256 classes, so a class is at most 0.4 % wide.
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
	int64_t *time; /* used until there are too many; then these: */
	size_t times, room;
	uint64_t *octave[DURATION_OCTAVES];
};

/* ns must not be negative. Memory is taken from *budget. 0 or a negative enum mayfly_error. */
int durations_add(struct durations *d, int64_t ns, uint64_t *budget);
/* Call this after the last durations_add() and before durations_percentile(). */
void durations_sort(struct durations *d);
/* The smallest duration that `percent` % of all durations do not exceed. */
int64_t durations_percentile(const struct durations *d, uint64_t percent);
void durations_free(struct durations *d);

/* Saturates: INT64_MAX means that much or more. */
static inline void duration_sum(int64_t *sum, int64_t ns)
{
	if (__builtin_add_overflow(*sum, ns, sum))
		*sum = INT64_MAX;
}

#endif
