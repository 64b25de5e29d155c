/* SPDX-License-Identifier: Apache-2.0 */
/* Writing counters: see counters_write.h, and doc/FORMAT.md, "cntr". */
#include "trace/write/counters_write.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "format/format.h"
#include "base/array.h"

#define UNIT_NS	     1000
#define MOST_INTEGER 0x1p53 /* up to here every integer is a double */

void counters_free(struct counter_writer *w)
{
	free(w->counter);
	free(w->point);
	free(w->moment);
	*w = (struct counter_writer){0};
}

/* Counters are mostly read in turn, so the next one is tried first. */
static struct written_counter *find_counter(struct counter_writer *w, uint32_t name, uint32_t unit)
{
	for (size_t i = 0; i < w->counters; i++) {
		size_t k = (w->last + 1 + i) % w->counters;

		if (w->counter[k].name == name && w->counter[k].unit == unit) {
			w->last = k;
			return &w->counter[k];
		}
	}
	if (!array_reserve(&w->counter, &w->counter_room, w->counters, sizeof(*w->counter)))
		return NULL;
	w->last = w->counters++;
	/* Times are rounded down later. */
	w->counter[w->last] =
	    (struct written_counter){name, unit, -TRACE_LATEST_NS + UNIT_NS, 0, 0};
	return &w->counter[w->last];
}

static bool points_room(struct counter_writer *w)
{
	if (!w->point)
		w->point = malloc(COUNTERS_HELD * sizeof(*w->point));
	if (!w->moment)
		w->moment = malloc(COUNTERS_HELD * sizeof(*w->moment));
	return w->point && w->moment;
}

bool counters_add(struct counter_writer *w, int64_t time_ns, uint32_t name, uint32_t unit,
		  double value)
{
	struct written_counter *c;

	if (!isfinite(value) || counters_due(w))
		return true;
	c = find_counter(w, name, unit);
	if (!c || !points_room(w))
		return false;
	if (time_ns > TRACE_LATEST_NS)
		time_ns = TRACE_LATEST_NS;
	if (time_ns < c->last_ns)
		time_ns = c->last_ns;
	c->last_ns = time_ns;
	if (!w->moments || w->moment[w->moments - 1] != time_ns || c->last_moment == w->moments)
		w->moment[w->moments++] = time_ns;
	c->last_moment = w->moments;
	c->points++;
	w->point[w->points++] =
	    (struct counter_point){(uint32_t)(c - w->counter), (uint32_t)w->moments - 1, value};
	return true;
}

static bool is_integer(double value)
{
	return fabs(value) <= MOST_INTEGER && value == floor(value) &&
	       !(value == 0 && signbit(value));
}

static uint64_t double_bits(double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

static int64_t moment_time(int64_t ns)
{
	return ns / UNIT_NS - (ns % UNIT_NS < 0);
}

/* The columns of one chunk. */
struct chunk {
	uint64_t *number, *count, *form; /* [series] */
	size_t series;
	uint64_t *time;		  /* [moments] */
	uint64_t *moment, *value; /* [points] */
};

/* Puts the points into the order of their counters: *first says where each one's begin. */
static void sort_points(const struct counter_writer *w, struct counter_point *to, size_t *first)
{
	size_t at = 0;

	for (size_t i = 0; i < w->counters; i++) {
		first[i] = at;
		at += w->counter[i].points;
	}
	for (size_t i = 0; i < w->points; i++)
		to[first[w->point[i].counter]++] = w->point[i];
	for (size_t i = 0; i < w->counters; i++)
		first[i] -= w->counter[i].points;
}

static void fill_series(struct chunk *k, size_t at, const struct counter_point *p, size_t count)
{
	uint64_t last = 0, form = SERIES_INTEGERS;
	uint32_t moment = UINT32_MAX; /* so that + 1 is 0 */

	for (size_t i = 0; i < count; i++)
		if (!is_integer(p[i].value))
			form = SERIES_DOUBLES;
	for (size_t i = 0; i < count; i++) {
		uint64_t now = form == SERIES_DOUBLES ? double_bits(p[i].value)
						      : (uint64_t)(int64_t)p[i].value;

		k->value[at + i] =
		    form == SERIES_DOUBLES ? now ^ last : varint_zigzag((int64_t)(now - last));
		k->moment[at + i] = p[i].moment - (moment + 1);
		last = now;
		moment = p[i].moment;
	}
	k->form[k->series] = form;
	k->count[k->series++] = count - 1;
}

static void fill_chunk(struct chunk *k, const struct counter_writer *w,
		       const struct counter_point *p, const size_t *first)
{
	size_t next = 0;
	int64_t last = 0;

	for (size_t i = 0; i < w->counters; i++) {
		if (!w->counter[i].points)
			continue;
		k->number[k->series] = i - next;
		next = i + 1;
		fill_series(k, first[i], p + first[i], w->counter[i].points);
	}
	for (size_t i = 0; i < w->moments; i++) {
		int64_t now = moment_time(w->moment[i]);

		k->time[i] = varint_zigzag(now - last);
		last = now;
	}
}

static void put_names(struct counter_writer *w, const struct recording *tables, struct bytes *names)
{
	for (; w->named < w->counters; w->named++) {
		const char *name = recording_text(tables, w->counter[w->named].name);
		const char *unit = recording_text(tables, w->counter[w->named].unit);

		bytes_put(names, name, strlen(name) + 1);
		bytes_put(names, unit, strlen(unit) + 1);
	}
}

static void put_counter_chunk(struct counter_writer *w, const struct recording *tables,
			      struct column_writer *columns, struct bytes *out)
{
	struct counter_point *sorted = malloc((w->points + 1) * sizeof(*sorted));
	size_t *first = malloc((w->counters + 1) * sizeof(*first)), new = w->counters - w->named;
	struct chunk_maker c = {.failed = !sorted || !first};
	struct bytes names = {0};
	struct chunk k = {0};
	size_t series = 0;

	for (size_t i = 0; i < w->counters; i++)
		series += w->counter[i].points != 0;
	put_names(w, tables, &names);
	if (names.used)
		c.column[c.columns++] = (struct column){
		    .id = COLUMN_COUNTER_NAMES, .bytes = names.at, .size = names.used};
	k.number = chunk_add(&c, COLUMN_SERIES_COUNTER, series);
	k.count = chunk_add(&c, COLUMN_SERIES_POINTS, series);
	k.form = chunk_add(&c, COLUMN_SERIES_FORM, series);
	k.time = chunk_add(&c, COLUMN_MOMENT_TIME, w->moments);
	k.moment = chunk_add(&c, COLUMN_POINT_MOMENT, w->points);
	k.value = chunk_add(&c, COLUMN_POINT_VALUE, w->points);
	c.failed |= names.failed;
	if (!c.failed) {
		sort_points(w, sorted, first);
		fill_chunk(&k, w, sorted, first);
	}
	bytes_put_u(&c.head, new);
	bytes_put_u(&c.head, series);
	bytes_put_u(&c.head, w->moments);
	bytes_put_u(&c.head, w->points);
	bytes_put_u(&c.head, UNIT_NS);
	chunk_finish(&c, columns, TRACE_COUNTERS, out);
	bytes_free(&names);
	free(sorted);
	free(first);
}

void counters_write(struct counter_writer *w, const struct recording *tables,
		    struct column_writer *columns, struct bytes *out)
{
	if (w->points)
		put_counter_chunk(w, tables, columns, out);
	w->points = w->moments = 0;
	for (size_t i = 0; i < w->counters; i++)
		w->counter[i].points = w->counter[i].last_moment = 0;
}
