/* SPDX-License-Identifier: Apache-2.0 */
/* Reading counters: doc/FORMAT.md, "cntr". */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "format/format.h"
#include "trace/read/reader.h"

static void read_counter_names(struct mayfly_trace *t, struct chunk_reader *c, uint64_t count)
{
	size_t size = 0, at = 0;
	const uint8_t *bytes = chunk_bytes(c, COLUMN_COUNTER_NAMES, &size);
	char *text;

	if (!bytes || (!count && !size))
		return;
	if (size < 2 * count || !size || bytes[size - 1]) {
		chunk_fail(c, MAYFLY_E_DAMAGED);
		return;
	}
	text = trace_keep(t, c, size, 1);
	if (!text || !chunk_grow(c, &t->counter, &t->counter_room, t->info.counters, count,
				 sizeof(*t->counter)))
		return;
	memcpy(text, bytes, size);
	for (; count && at < size; count--) {
		struct trace_counter *k = &t->counter[t->info.counters];

		*k = (struct trace_counter){.shown.name = text + at};
		at += strlen(text + at) + 1;
		if (at == size)
			break;
		k->shown.unit = text + at;
		at += strlen(text + at) + 1;
		t->info.counters++;
	}
	if (count || at != size)
		chunk_fail(c, MAYFLY_E_DAMAGED);
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
	size_t moments;
	const uint64_t *moment, *value;
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

static void read_series(struct chunk_reader *c, struct trace_counter *k, const struct points *p,
			size_t at, size_t count, uint64_t form)
{
	size_t used = k->shown.points;
	uint64_t last = 0, moment = UINT64_MAX;
	int64_t last_ns = used ? k->time_ns[used - 1] : -TRACE_LATEST_NS;

	if (!chunk_grow(c, &k->time_ns, &k->time_room, used, count, sizeof(*k->time_ns)) ||
	    !chunk_grow(c, &k->value, &k->value_room, used, count, sizeof(*k->value)))
		return;
	k->shown.time_ns = k->time_ns;
	k->shown.value = k->value;
	for (size_t i = 0; i < count; i++, used++) {
		moment += 1 + p->moment[at + i];
		if (moment >= p->moments || p->moment[at + i] >= p->moments ||
		    !read_value(p->value[at + i], form, &last, &k->value[used]) ||
		    p->time_ns[moment] < last_ns) {
			chunk_fail(c, MAYFLY_E_DAMAGED);
			return;
		}
		k->time_ns[used] = last_ns = p->time_ns[moment];
	}
	k->shown.points = used;
}

static void read_all_series(struct mayfly_trace *t, struct chunk_reader *c, const struct points *p,
			    size_t series, size_t points)
{
	const uint64_t *number = chunk_numbers(c, COLUMN_SERIES_COUNTER, series);
	const uint64_t *count = chunk_numbers(c, COLUMN_SERIES_POINTS, series);
	const uint64_t *form = chunk_numbers(c, COLUMN_SERIES_FORM, series);
	uint64_t at = 0, counter = 0;

	for (size_t i = 0; i < series && !c->error; i++, counter++) {
		if (number[i] >= t->info.counters || (counter += number[i]) >= t->info.counters ||
		    count[i] >= points - at || form[i] > SERIES_DOUBLES) {
			chunk_fail(c, MAYFLY_E_DAMAGED);
			return;
		}
		read_series(c, &t->counter[counter], p, at, (size_t)count[i] + 1, form[i]);
		at += count[i] + 1;
	}
	if (at != points)
		chunk_fail(c, MAYFLY_E_DAMAGED);
}

void counters_read(struct mayfly_trace *t, struct chunk_reader *c)
{
	uint64_t added = varint_u(&c->head), series = varint_u(&c->head);
	uint64_t moments = varint_u(&c->head), points = varint_u(&c->head);
	uint64_t unit = chunk_unit(c);
	struct points p = {.moments = (size_t)moments};

	if (!chunk_columns(c, 0x2aaa))
		return;
	if (added > UINT32_MAX || series > UINT32_MAX || moments > UINT32_MAX ||
	    points > UINT32_MAX || series > points || moments > points) {
		chunk_fail(c, MAYFLY_E_DAMAGED);
		return;
	}
	read_counter_names(t, c, added);
	p.time_ns = read_moments(c, (size_t)moments, unit);
	p.moment = chunk_numbers(c, COLUMN_POINT_MOMENT, (size_t)points);
	p.value = chunk_numbers(c, COLUMN_POINT_VALUE, (size_t)points);
	if (!c->error && p.time_ns && p.moment && p.value)
		read_all_series(t, c, &p, (size_t)series, (size_t)points);
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
