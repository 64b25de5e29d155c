/* SPDX-License-Identifier: Apache-2.0 */
/* Intervals of samples, as users give them. */
#ifndef MAYFLY_INTERVAL_H
#define MAYFLY_INTERVAL_H

#include <stdbool.h>
#include <stdint.h>

/* log2 of the nearest power of two. bytes: from 1 to 2^SPOOL_INTERVAL_MAX_LOG2. If that is another
 * number, a line on a terminal says so, unless `quiet`. */
uint32_t interval_log2_of(uint64_t bytes, bool quiet);

#endif
