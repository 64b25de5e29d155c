/* SPDX-License-Identifier: Apache-2.0 */
/* Values of a trace's counters at given times. */
#ifndef MAYFLY_COUNTER_VALUES_H
#define MAYFLY_COUNTER_VALUES_H

#include <mayfly/trace.h>

/* One that has points; or NULL. */
const struct mayfly_counter *counter_named(const struct mayfly_trace *trace, const char *name);
/* The value at this time; 0 before the first point. */
double counter_at(const struct mayfly_trace *trace, const char *name, int64_t ns);
/* When it was nearest to this time, as a counter of an allocator has a point each time it is asked. */
int64_t counter_nearest(const struct mayfly_counter *c, int64_t ns);
double last_value(const struct mayfly_counter *c);
double largest_value(const struct mayfly_counter *c);
/* The largest value in each of `steps` parts of the recording, for a curve. False: there is no such
 * counter. */
bool counter_steps(const struct mayfly_trace *trace, const char *name, double *value, size_t steps);

#endif
