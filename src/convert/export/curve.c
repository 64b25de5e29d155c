/* SPDX-License-Identifier: Apache-2.0 */
/* The heap over time. */
#include "convert/export/curve.h"

#include "answer/trace_names.h"
#include "answer/shown_stacks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whether the query is about only some of the blocks. */
static bool is_of_part(const struct mayfly_query *q)
{
	return q->focus.matches || q->ignore.matches || q->show_from.matches || q->thread.matches ||
	       q->label.matches || q->heaps || q->from_ns > 0 || q->to_ns < INT64_MAX ||
	       q->min_size > 0 || q->max_size < UINT64_MAX || q->min_lifetime_ns > 0 ||
	       q->max_lifetime_ns < INT64_MAX;
}

static void fill_steps(struct curve *c, const struct mayfly_query *query)
{
	const struct mayfly_series *s = c->series;

	for (size_t i = 0; i < c->steps; i++) {
		struct curve_step *step = &c->step[i];

		step->from_ns = i ? c->step[i - 1].to_ns : query->from_ns;
		step->to_ns = s->time_ns[i];
		for (size_t row = 0; row < s->rows; row++) {
			size_t at = row * s->points + i;

			step->live_bytes += s->live_bytes[at];
			step->live_blocks += s->live_blocks[at];
			step->allocated_bytes += s->allocated_bytes[at];
			step->allocated_blocks += s->allocated_blocks[at];
		}
		step->largest = step->live_bytes;
		if (i > 0 && c->step[i - 1].live_bytes > step->largest)
			step->largest = c->step[i - 1].live_bytes;
	}
}

static int fill_largest(struct curve *c, const struct mayfly_trace *trace)
{
	double *largest = calloc(c->steps, sizeof(*largest));
	int error = largest ? mayfly_timeline(trace, c->steps, largest) : MAYFLY_E_MEMORY;

	for (size_t i = 0; !error && i < c->steps; i++)
		if (largest[i] > c->step[i].largest)
			c->step[i].largest = largest[i];
	free(largest);
	return error;
}

static int curve_find_peak(struct curve *c, const struct mayfly_trace *trace,
			   const struct mayfly_query *query)
{
	struct mayfly_query peak = *query;
	struct mayfly_result *result;
	int error;

	peak.metric = MAYFLY_PEAK;
	peak.by = MAYFLY_BY_MODULE;
	peak.from_ns = 0;
	peak.to_ns = INT64_MAX;
	error = mayfly_query_run(trace, &peak, &result);
	if (error)
		return error;
	c->peak = result->total;
	c->peak_ns = result->time_ns;
	mayfly_result_free(result);
	return 0;
}

int curve_make(const struct mayfly_trace *trace, const struct mayfly_query *query, size_t steps,
	       size_t rows, struct curve *c)
{
	struct mayfly_query by_function = *query;
	int error;

	*c = (struct curve){0};
	if (mayfly_trace_info(trace)->absent & MAYFLY_ABSENT_ALLOCATIONS)
		return 0;
	c->steps = steps;
	by_function.metric = MAYFLY_PEAK;
	by_function.by = MAYFLY_BY_FUNCTION;
	by_function.sort = MAYFLY_SORT_SELF;
	c->step = calloc(steps, sizeof(*c->step));
	error = c->step ? mayfly_series_run(trace, &by_function, steps, rows, &c->series)
			: MAYFLY_E_MEMORY;
	if (!error) {
		fill_steps(c, query);
		error = curve_find_peak(c, trace, query);
	}
	if (!error && !is_of_part(query))
		error = fill_largest(c, trace);
	if (error)
		curve_free(c);
	return error;
}

void curve_free(struct curve *c)
{
	mayfly_series_free(c->series);
	free(c->step);
	*c = (struct curve){0};
}

const char *curve_function_name(const struct mayfly_row *r, char *buffer, size_t size)
{
	/* The row of an unknown function has its address in its only place. */
	const struct mayfly_place *place = r->stack_length > 0 ? &r->stack[0] : NULL;

	if (*r->function)
		return r->function;
	if (place)
		return frame_shown_name(buffer, size, place->kind, "", place->module,
					place->address);
	return frame_shown_name(buffer, size, MAYFLY_FRAME_CODE, "", r->module, 0);
}

static bool is_same(const struct mayfly_row *a, const struct mayfly_row *b)
{
	return *a->function && strcmp(a->function, b->function) == 0;
}

const char *curve_row_name(const struct curve *c, size_t row, char *buffer, size_t size)
{
	const struct mayfly_row *r = &c->series->row[row];
	unsigned same = 1;
	const char *name;

	if (row + 1 == c->series->rows)
		return "(others)";
	name = curve_function_name(r, buffer, size);
	/* Functions with one name in several files have several rows. */
	for (size_t i = 0; i < row; i++)
		same += is_same(&c->series->row[i], r);
	if (same == 1)
		return name;
	snprintf(buffer, size, "%s (%u)", name, same);
	return buffer;
}
