/* SPDX-License-Identifier: Apache-2.0 */
/* Counters in the trace, both directions: see counters.h, and doc/FORMAT.md, "cntr". */
#include "trace/counters.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "format/format.h"

#define UNIT_NS	     1000
#define MOST_INTEGER 0x1p53 /* up to here every integer is a double */

enum { FORM_INTEGERS = 0, FORM_DOUBLES = 1 };

/* ---- writing ---- */

void counters_free(struct counter_writer *w)
{
	free(w->counter);
	free(w->point);
	free(w->moment);
	*w = (struct counter_writer){0};
}

/* Counters are mostly read in turn, so the next one is tried first. */
static struct written_counter *find(struct counter_writer *w, uint32_t name, uint32_t unit)
{
	struct written_counter *bigger;
	size_t room = 2 * w->counter_room + 16;

	for (size_t i = 0; i < w->counters; i++) {
		size_t k = (w->last + 1 + i) % w->counters;

		if (w->counter[k].name == name && w->counter[k].unit == unit) {
			w->last = k;
			return &w->counter[k];
		}
	}
	if (w->counters == w->counter_room) {
		bigger = realloc(w->counter, room * sizeof(*bigger));
		if (!bigger)
			return NULL;
		w->counter = bigger;
		w->counter_room = room;
	}
	w->last = w->counters++;
	w->counter[w->last] = (struct written_counter){name, unit, -TRACE_LATEST_NS, 0, 0};
	return &w->counter[w->last];
}

static bool make_room(struct counter_writer *w)
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
	c = find(w, name, unit);
	if (!c || !make_room(w))
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

static uint64_t bits_of(double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

static int64_t units(int64_t ns)
{
	return ns / UNIT_NS - (ns % UNIT_NS < 0);
}

/* The columns of one chunk while it is made. */
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
	uint64_t last = 0, form = FORM_INTEGERS;
	uint32_t moment = UINT32_MAX; /* so that + 1 is 0 */

	for (size_t i = 0; i < count; i++)
		if (!is_integer(p[i].value))
			form = FORM_DOUBLES;
	for (size_t i = 0; i < count; i++) {
		uint64_t now =
		    form == FORM_DOUBLES ? bits_of(p[i].value) : (uint64_t)(int64_t)p[i].value;

		k->value[at + i] =
		    form == FORM_DOUBLES ? now ^ last : varint_zigzag((int64_t)(now - last));
		k->moment[at + i] = p[i].moment - (moment + 1);
		last = now;
		moment = p[i].moment;
	}
	k->form[k->series] = form;
	k->count[k->series++] = count - 1;
}

static void fill(struct chunk *k, const struct counter_writer *w, const struct counter_point *p,
		 const size_t *first)
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
		int64_t now = units(w->moment[i]);

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

static void put_chunk(struct counter_writer *w, const struct recording *tables,
		      const struct chunk *k, struct column_writer *columns, struct bytes *out)
{
	struct bytes head = {0}, names = {0};

	bytes_put_u(&head, w->counters - w->named);
	put_names(w, tables, &names);
	bytes_put_u(&head, k->series);
	bytes_put_u(&head, w->moments);
	bytes_put_u(&head, w->points);
	bytes_put_u(&head, UNIT_NS);
	const struct column column[] = {
	    {.id = COLUMN_COUNTER_NAMES, .bytes = names.at, .size = names.used},
	    {COLUMN_SERIES_COUNTER, k->number, k->series},
	    {COLUMN_SERIES_POINTS, k->count, k->series},
	    {COLUMN_SERIES_FORM, k->form, k->series},
	    {COLUMN_MOMENT_TIME, k->time, w->moments},
	    {COLUMN_POINT_MOMENT, k->moment, w->points},
	    {COLUMN_POINT_VALUE, k->value, w->points},
	};
	out->failed |= head.failed | names.failed;
	chunk_write(columns, out, TRACE_COUNTERS, &head, column + !names.used,
		    sizeof(column) / sizeof(*column) - !names.used);
	bytes_free(&head);
	bytes_free(&names);
}

void counters_write(struct counter_writer *w, const struct recording *tables,
		    struct column_writer *columns, struct bytes *out)
{
	size_t series = w->counters, points = w->points, moments = w->moments;
	uint64_t *number = malloc((3 * series + moments + 2 * points + 1) * sizeof(*number));
	struct counter_point *sorted = malloc((points + 1) * sizeof(*sorted));
	size_t *first = malloc((series + 1) * sizeof(*first));
	struct chunk k = {.number = number};

	if (!number || !sorted || !first) {
		out->failed = true;
	} else if (points) {
		k.count = number + series;
		k.form = k.count + series;
		k.time = k.form + series;
		k.moment = k.time + moments;
		k.value = k.moment + points;
		sort_points(w, sorted, first);
		fill(&k, w, sorted, first);
		put_chunk(w, tables, &k, columns, out);
	}
	free(number);
	free(sorted);
	free(first);
	w->points = w->moments = 0;
	for (size_t i = 0; i < w->counters; i++)
		w->counter[i].points = w->counter[i].last_moment = 0;
}

/* ---- reading ---- */

static bool grow(struct chunk_reader *c, void *array, size_t *room, size_t used, uint64_t more,
		 size_t item)
{
	return !c->error && trace_grow(c->budget, &c->error, array, room, used, more, item);
}

static void read_names(struct mayfly_trace *t, struct chunk_reader *c, uint64_t count)
{
	size_t size = 0, room = 0, at = 0;
	const uint8_t *bytes = chunk_bytes(c, COLUMN_COUNTER_NAMES, &size);
	char *text = NULL;

	if (!bytes || (!count && !size))
		return;
	if (size < 2 * count || !size || bytes[size - 1]) {
		chunk_fail(c, MAYFLY_E_DAMAGED);
		return;
	}
	if (!grow(c, &t->block, &t->block_room, t->blocks, 1, sizeof(*t->block)) ||
	    !grow(c, &text, &room, 0, size, 1))
		return;
	t->block[t->blocks++] = memcpy(text, bytes, size);
	if (!grow(c, &t->counter, &t->counter_room, t->info.counters, count, sizeof(*t->counter)))
		return;
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
	for (size_t i = 0; i < count; i++) {
		if (__builtin_add_overflow(last, (int64_t)(step[i] >> 1 ^ -(step[i] & 1)), &last) ||
		    __builtin_mul_overflow(last, (int64_t)unit, &ns[i]) ||
		    ns[i] > TRACE_LATEST_NS || ns[i] < -TRACE_LATEST_NS) {
			chunk_fail(c, MAYFLY_E_DAMAGED);
			return NULL;
		}
	}
	return ns;
}

struct points {
	const int64_t *time_ns; /* of the moments */
	size_t moments;
	const uint64_t *moment, *value;
};

static bool read_value(uint64_t number, uint64_t form, uint64_t *last, double *value)
{
	if (form == FORM_INTEGERS) {
		*last += number >> 1 ^ -(number & 1);
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

	if (!grow(c, &k->time_ns, &k->time_room, used, count, sizeof(*k->time_ns)) ||
	    !grow(c, &k->value, &k->value_room, used, count, sizeof(*k->value)))
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

static void read_all(struct mayfly_trace *t, struct chunk_reader *c, const struct points *p,
		     size_t series, size_t points)
{
	const uint64_t *number = chunk_numbers(c, COLUMN_SERIES_COUNTER, series);
	const uint64_t *count = chunk_numbers(c, COLUMN_SERIES_POINTS, series);
	const uint64_t *form = chunk_numbers(c, COLUMN_SERIES_FORM, series);
	uint64_t at = 0, counter = 0;

	for (size_t i = 0; i < series && !c->error; i++, counter++) {
		if (number[i] >= t->info.counters || (counter += number[i]) >= t->info.counters ||
		    count[i] >= points - at || form[i] > FORM_DOUBLES) {
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
	uint64_t unit = varint_u(&c->head);
	struct points p = {.moments = (size_t)moments};

	if (!chunk_columns(c, 0x2aaa))
		return;
	if (unit < 1 || unit > 1000000000 || added > UINT32_MAX || series > UINT32_MAX ||
	    moments > UINT32_MAX || points > UINT32_MAX || series > points || moments > points) {
		chunk_fail(c, MAYFLY_E_DAMAGED);
		return;
	}
	read_names(t, c, added);
	p.time_ns = read_moments(c, (size_t)moments, unit);
	p.moment = chunk_numbers(c, COLUMN_POINT_MOMENT, (size_t)points);
	p.value = chunk_numbers(c, COLUMN_POINT_VALUE, (size_t)points);
	if (!c->error && p.time_ns && p.moment && p.value)
		read_all(t, c, &p, (size_t)series, (size_t)points);
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
