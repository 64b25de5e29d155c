/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Thinning: keeping fewer samples with larger weights, so that a trace stays within a budget and
 * its estimates stay unbiased. The rule is in thin_rule.h.
 */
#ifndef MAYFLY_THIN_H
#define MAYFLY_THIN_H

#include <mayfly/trace.h>

#include "trace/write/writer.h"

struct thin_map; /* old serial -> new serial */

/* Copies the events of `trace` to `to`, thinned. `to` is new, of mode MAYFLY_SAMPLED unless
 * interval_log2 is 0, which keeps all, and has the tables that `trace` was written from; stacks are
 * looked up in them. Each thinning of a trace needs another seed. 0, a negative enum mayfly_error or what the sink said. */
int trace_thin(const struct mayfly_trace *trace, uint32_t interval_log2, uint64_t seed,
	       struct trace_writer *to, struct thin_map **map);
uint64_t thin_map_serial(const struct thin_map *map, uint64_t serial); /* TRACE_THINNED: dropped */
void thin_map_free(struct thin_map *map);

#endif
