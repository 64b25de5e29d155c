/* SPDX-License-Identifier: Apache-2.0 */
/* Reading counters: doc/FORMAT.md, "cntr". */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "format/format.h"
#include "trace/read/reader.h"

/* Names and units of `count` new counters: text after text, each with a zero. */
static bool names_are_sound(struct chunk_reader *c, const uint8_t *bytes, size_t size,
			    uint64_t count)
{
	uint64_t texts = 0;

	for (size_t i = 0; bytes && i < size; i++)
		texts += !bytes[i];
	if (bytes && texts == 2 * count && (!size || !bytes[size - 1]))
		return true;
	chunk_fail(c, MAYFLY_E_DAMAGED);
	return false;
}

/* The new counters, which have no points yet. */
static void add_counters(struct mayfly_trace *t, struct chunk_reader *c, const uint8_t *bytes,
			 size_t size, size_t count)
{
	char *text = count ? trace_keep(t, c, size, 1) : NULL;

	if (!text || !chunk_grow(c, GROWING(t->counter, t->counter_room, t->info.counters), count))
		return;
	memcpy(text, bytes, size);
	for (size_t i = 0; i < count; i++) {
		struct trace_counter *k = &t->counter[t->info.counters++];

		*k = (struct trace_counter){.shown.name = text};
		text += strlen(text) + 1;
		k->shown.unit = text;
		text += strlen(text) + 1;
	}
}

/* The moments of a chunk, in ns. */
static const int64_t *read_moments(struct chunk_reader *c, size_t count, uint64_t unit)
{
	const uint64_t *step = chunk_numbers(c, COLUMN_MOMENT_TIME, count);
	int64_t *ns = chunk_memory(c, count, sizeof(*ns)), last = 0;

	if (!step || !ns)
		return NULL;
	for (size_t i = 0; i < count && !c->error; i++) {
		if (__builtin_add_overflow(last, (int64_t)varint_unzigzag(step[i]), &last))
			chunk_fail(c, MAYFLY_E_DAMAGED);
		ns[i] = chunk_time(c, last, unit);
	}
	return c->error ? NULL : ns;
}

struct points {
	const int64_t *time_ns; /* of the moments */
	size_t moments, series, points;
	const uint64_t *number, *count, *form; /* of the series */
	const uint64_t *moment, *value;
	size_t counters; /* with those that are new */
	/* Those that can be kept: where a chunk before is missing, its counters' numbers are
	 * unknown. */
	size_t kept;
};

static bool read_value(uint64_t number, uint64_t form, uint64_t *last, double *value)
{
	if (form == SERIES_INTEGERS) {
		*last += varint_unzigzag(number);
		*value = (double)(int64_t)*last;
		return true;
	}
	*last ^= number;
	memcpy(value, last, sizeof(*value));
	return isfinite(*value);
}

/* The points of a series from `at` on, in place: times and the bits of values. False: damaged. */
static bool series_is_sound(const struct points *p, size_t at, size_t count, uint64_t form,
			    int64_t last_ns, int64_t *time_ns, double *value)
{
	uint64_t last = 0, moment = UINT64_MAX;

	for (size_t i = at; i < at + count; i++) {
		moment += 1 + p->moment[i];
		if (moment >= p->moments || p->moment[i] >= p->moments ||
		    !read_value(p->value[i], form, &last, &value[i]) ||
		    p->time_ns[moment] < last_ns)
			return false;
		time_ns[i] = last_ns = p->time_ns[moment];
	}
	return true;
}

/* All series, before any of them is kept. */
static bool all_are_sound(const struct mayfly_trace *t, const struct points *p, int64_t *time_ns,
			  double *value)
{
	uint64_t counter = 0;
	size_t at = 0;

	for (size_t i = 0; i < p->series; i++, counter++) {
		const struct trace_counter *k;
		int64_t last_ns = -TRACE_LATEST_NS;

		if (p->number[i] >= p->counters || (counter += p->number[i]) >= p->counters ||
		    p->count[i] >= p->points - at || p->form[i] > SERIES_DOUBLES)
			return false;
		k = counter < t->info.counters ? &t->counter[counter] : NULL;
		if (k && k->shown.points && counter < p->kept)
			last_ns = k->time_ns[k->shown.points - 1];
		if (!series_is_sound(p, at, (size_t)p->count[i] + 1, p->form[i], last_ns, time_ns,
				     value))
			return false;
		at += (size_t)p->count[i] + 1;
	}
	return at == p->points;
}

static void keep_points(struct chunk_reader *c, struct trace_counter *k, const int64_t *time_ns,
			const double *value, size_t count)
{
	size_t used = k->shown.points;

	if (!chunk_grow(c, GROWING(k->time_ns, k->time_room, used), count) ||
	    !chunk_grow(c, GROWING(k->value, k->value_room, used), count))
		return;
	memcpy(k->time_ns + used, time_ns, count * sizeof(*time_ns));
	memcpy(k->value + used, value, count * sizeof(*value));
	k->shown.time_ns = k->time_ns;
	k->shown.value = k->value;
	k->shown.points = used + count;
}

static void read_all_series(struct mayfly_trace *t, struct chunk_reader *c, struct points *p,
			    const uint8_t *names, size_t names_size, size_t added)
{
	int64_t *time_ns = chunk_memory(c, p->points, sizeof(*time_ns));
	double *value = chunk_memory(c, p->points, sizeof(*value));
	uint64_t counter = 0;
	size_t at = 0;

	if (!time_ns || !value)
		return;
	if (!all_are_sound(t, p, time_ns, value)) {
		chunk_fail(c, MAYFLY_E_DAMAGED);
		return;
	}
	if (!t->lost.counters)
		add_counters(t, c, names, names_size, added);
	for (size_t i = 0; i < p->series && !c->error; i++, counter++) {
		counter += p->number[i];
		if (counter < p->kept)
			keep_points(c, &t->counter[counter], time_ns + at, value + at,
				    (size_t)p->count[i] + 1);
		at += (size_t)p->count[i] + 1;
	}
}

void counters_read(struct mayfly_trace *t, struct chunk_reader *c)
{
	uint64_t added = varint_u(&c->head), series = varint_u(&c->head);
	uint64_t moments = varint_u(&c->head), points = varint_u(&c->head);
	uint64_t unit = chunk_unit(c);
	struct points p = {.moments = (size_t)moments, .series = (size_t)series};
	const uint8_t *names;
	size_t size = 0;

	if (!chunk_columns(c, 0x2aaa))
		return;
	if (added > UINT32_MAX || series > UINT32_MAX || moments > UINT32_MAX ||
	    points > UINT32_MAX || series > points || moments > points) {
		chunk_fail(c, MAYFLY_E_DAMAGED);
		return;
	}
	names = chunk_bytes(c, COLUMN_COUNTER_NAMES, &size);
	if (!names_are_sound(c, names, size, added))
		return;
	p.points = (size_t)points;
	/* Behind a chunk that is missing, only counters that came before it are known. */
	p.counters = t->lost.counters ? UINT32_MAX : t->info.counters + (size_t)added;
	p.kept = t->lost.counters ? t->info.counters : p.counters;
	p.number = chunk_numbers(c, COLUMN_SERIES_COUNTER, p.series);
	p.count = chunk_numbers(c, COLUMN_SERIES_POINTS, p.series);
	p.form = chunk_numbers(c, COLUMN_SERIES_FORM, p.series);
	p.time_ns = read_moments(c, p.moments, unit);
	p.moment = chunk_numbers(c, COLUMN_POINT_MOMENT, p.points);
	p.value = chunk_numbers(c, COLUMN_POINT_VALUE, p.points);
	if (!c->error)
		read_all_series(t, c, &p, names, size, (size_t)added);
}

void counters_close(struct mayfly_trace *t)
{
	for (size_t i = 0; i < t->info.counters; i++) {
		free(t->counter[i].time_ns);
		free(t->counter[i].value);
	}
	free(t->counter);
}

const struct mayfly_counter *mayfly_trace_counter(const struct mayfly_trace *trace, size_t index)
{
	return index < trace->info.counters ? &trace->counter[index].shown : NULL;
}
