/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the stratified sampler groups its points, as the agent draws them and as estimates take them
 * into account. doc/FORMAT.md, "Weights", has the rule; doc/INTERNALS.md, "Estimates", the reasons.
 */
#ifndef MAYFLY_STRATA_H
#define MAYFLY_STRATA_H

#include <stdint.h>

/* One point of each group is taken. Points are at least 4 KiB apart on average, so groups are
 * smaller below 64 KiB, and consist of one point from 4 KiB down. */
#define STRATA_CLASSES	       256u
#define STRATA_GROUP_LOG2      4u
#define STRATA_LEAST_STEP_LOG2 12u

/* The number of points of a group, as a power of two. */
static inline uint32_t strata_group_log2(uint32_t interval_log2)
{
	if (interval_log2 <= STRATA_LEAST_STEP_LOG2)
		return 0;
	if (interval_log2 < STRATA_LEAST_STEP_LOG2 + STRATA_GROUP_LOG2)
		return interval_log2 - STRATA_LEAST_STEP_LOG2;
	return STRATA_GROUP_LOG2;
}

/* The class of a block: the caller of malloc, and the size in four steps per power of two. Such
 * blocks mostly have similar lives. Only the caller's place in its page counts, which is the same
 * wherever the program is loaded: so a seed gives the same samples in each run. */
static inline uint8_t strata_class(uint64_t size, uint64_t caller)
{
	if (size > 8) {
		unsigned int shift = 61 - (unsigned int)__builtin_clzll(size);

		size = (uint64_t)(shift + 1) << 3 | size >> shift;
	}
	/* The product's top bits depend on all bits. */
	return (uint8_t)(((caller & 0xfff) << 9 ^ size) * 0x9e3779b97f4a7c15u >> 56);
}

#endif
