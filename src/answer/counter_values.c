/* SPDX-License-Identifier: Apache-2.0 */
/* Values of counters: see counter_values.h. */
#include "answer/counter_values.h"

#include <math.h>
#include <string.h>

const struct mayfly_counter *counter_named(const struct mayfly_trace *trace, const char *name)
{
	size_t counters = mayfly_trace_info(trace)->counters;

	for (size_t i = 0; i < counters; i++) {
		const struct mayfly_counter *c = mayfly_trace_counter(trace, i);

		if (c->points && !strcmp(c->name, name))
			return c;
	}
	return NULL;
}

/* The last point at or before this time; the first point for earlier times. */
static size_t point_at(const struct mayfly_counter *c, int64_t ns)
{
	size_t low = 0, high = c->points;

	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (c->time_ns[middle] <= ns)
			low = middle;
		else
			high = middle;
	}
	return low;
}

double counter_at(const struct mayfly_trace *trace, const char *name, int64_t ns)
{
	const struct mayfly_counter *c = counter_named(trace, name);

	return c && c->time_ns[0] <= ns ? c->value[point_at(c, ns)] : 0;
}

double last_value(const struct mayfly_counter *c)
{
	return c->value[c->points - 1];
}

double largest_value(const struct mayfly_counter *c)
{
	double most = 0;

	for (size_t i = 0; i < c->points; i++)
		most = fmax(most, c->value[i]);
	return most;
}

/* The largest value in each step; a step without a point has the value before it. */
bool counter_steps(const struct mayfly_trace *trace, const char *name, double *value, size_t steps)
{
	const struct mayfly_counter *c = counter_named(trace, name);
	int64_t end = mayfly_trace_info(trace)->duration_ns;

	if (!c)
		return false;
	for (size_t i = 0; i < steps; i++)
		value[i] = counter_at(trace, name,
				      (int64_t)((double)end * (double)(i + 1) / (double)steps));
	for (size_t i = 0; i < c->points; i++) {
		size_t k = (size_t)((double)c->time_ns[i] / (double)end * (double)steps);

		if (k < steps && value[k] < c->value[i])
			value[k] = c->value[i];
	}
	return true;
}

int64_t counter_nearest(const struct mayfly_counter *c, int64_t ns)
{
	size_t at = point_at(c, ns);

	if (at + 1 < c->points && c->time_ns[at + 1] - ns < ns - c->time_ns[at])
		at++;
	return c->time_ns[at];
}
