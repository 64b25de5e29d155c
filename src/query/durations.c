/* SPDX-License-Identifier: Apache-2.0 */
/* durations.c: see durations.h. */
#include "query/durations.h"

#include <stdlib.h>

#include "base/array.h"

#define MOST_TIMES   4096u			 /* with more durations only classes are kept */
#define OCTAVE	     (1u << DURATION_CLASS_BITS) /* classes per power of two */
#define EXACT_OCTAVE (2u * OCTAVE)		 /* each duration below this is its own class */

/* The class of a duration: its octave, and its place in the octave. */
static size_t octave_of(uint64_t ns, size_t *place)
{
	size_t octave = ns < EXACT_OCTAVE
			    ? ns / OCTAVE
			    : (size_t)(64 - __builtin_clzll(ns)) - DURATION_CLASS_BITS;

	*place = (octave > 1 ? ns >> (octave - 1) : ns) & (OCTAVE - 1);
	return octave;
}

/* The middle of a class. */
static int64_t class_middle(size_t octave, size_t place)
{
	uint64_t low = place + (octave ? OCTAVE : 0), width;

	if (octave <= 1)
		return (int64_t)low;
	width = (uint64_t)1 << (octave - 1);
	return (int64_t)((low << (octave - 1)) + width / 2);
}

static int add_class(struct durations *d, int64_t ns, uint64_t *budget)
{
	size_t place, octave = octave_of((uint64_t)ns, &place);
	size_t bytes = OCTAVE * sizeof(uint64_t);

	if (!d->octave[octave]) {
		if (bytes > *budget)
			return MAYFLY_E_TOO_LARGE;
		*budget -= bytes;
		d->octave[octave] = calloc(OCTAVE, sizeof(uint64_t));
		if (!d->octave[octave])
			return MAYFLY_E_MEMORY;
	}
	d->octave[octave][place]++;
	return 0;
}

static int add_time(struct durations *d, int64_t ns, uint64_t *budget)
{
	size_t before = d->room, bytes;

	if (!array_reserve(&d->time, &d->room, d->times, sizeof(*d->time)))
		return MAYFLY_E_MEMORY;
	bytes = (d->room - before) * sizeof(*d->time);
	if (bytes > *budget)
		return MAYFLY_E_TOO_LARGE;
	*budget -= bytes;
	d->time[d->times++] = ns;
	return 0;
}

int64_t mayfly_span_class_ns(size_t number)
{
	int64_t decade = 100;

	if (number == 0)
		return 0;
	if (number >= MAYFLY_SPAN_CLASSES)
		return INT64_MAX;
	for (size_t i = 2; i < number; i += 2)
		decade *= 10;
	return number % 2 ? decade : 3 * decade;
}

static size_t span_class(int64_t ns)
{
	size_t number = 0;

	while (ns >= mayfly_span_class_ns(number + 1) && number + 1 < MAYFLY_SPAN_CLASSES)
		number++;
	return number;
}

int durations_add(struct durations *d, int64_t ns, uint64_t *budget)
{
	int error;

	if (d->count == 0 || ns < d->min_ns)
		d->min_ns = ns;
	if (ns > d->max_ns)
		d->max_ns = ns;
	d->count++;
	duration_sum(&d->total_ns, ns);
	d->in_class[span_class(ns)]++;
	if (d->count > MOST_TIMES)
		return add_class(d, ns, budget);
	error = add_time(d, ns, budget);
	if (d->times < MOST_TIMES)
		return error;
	/* The limit is reached: count all times kept so far in classes. */
	for (size_t i = 0; i < d->times && !error; i++)
		error = add_class(d, d->time[i], budget);
	return error;
}

static int compare_times(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

void durations_sort(struct durations *d)
{
	if (d->count > 0 && d->count <= MOST_TIMES)
		qsort(d->time, d->times, sizeof(*d->time), compare_times);
}

int64_t durations_percentile(const struct durations *d, uint64_t percent)
{
	uint64_t rank =
	    d->count - d->count / 100 * (100 - percent) - d->count % 100 * (100 - percent) / 100;
	uint64_t seen = 0;
	int64_t middle;

	if (d->count == 0)
		return 0;
	if (d->count <= MOST_TIMES)
		return d->time[rank - 1];
	for (size_t octave = 0; octave < DURATION_OCTAVES; octave++) {
		for (size_t i = 0; d->octave[octave] && i < OCTAVE; i++) {
			seen += d->octave[octave][i];
			if (seen < rank)
				continue;
			middle = class_middle(octave, i);
			return middle < d->min_ns   ? d->min_ns
			       : middle > d->max_ns ? d->max_ns
						    : middle;
		}
	}
	return d->max_ns;
}

void durations_free(struct durations *d)
{
	free(d->time);
	for (size_t i = 0; i < DURATION_OCTAVES; i++)
		free(d->octave[i]);
	*d = (struct durations){0};
}
