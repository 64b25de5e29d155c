/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of a type's spans while they are summed: span_bytes.h is what comes of it. */
#ifndef MAYFLY_SPAN_COSTS_H
#define MAYFLY_SPAN_COSTS_H

#include "query/durations.h"
#include "query/span_bytes.h"

/* All zero: no spans yet. */
struct span_costs {
	struct durations values; /* of bytes */
	double sum;
	struct span_bytes bytes;
};

/* Memory is taken from *budget. 0 or a negative enum mayfly_error. */
int span_costs_add(struct span_costs *c, const struct worst_span *span, uint64_t *budget);
struct span_bytes span_costs_finish(struct span_costs *c, uint32_t type);
void span_costs_free(struct span_costs *c);

#endif
