/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters at common moments: "times_ns" and "counters", each with name, unit, kind ("process":
 * figures recorded beside blocks; "events": values that track events have), rss (whether it is the
 * resident memory), most (the largest of all its values), largest (whether the values are the
 * largest of each step, else the last) and values (null before the first). Moment i is the end of
 * step i, as in a series.
 */
#include <math.h>
#include <string.h>

#include "base/search.h"
#include "view/answers.h"
#include "view/lane_index.h"

/* Points of a counter, in time order. */
struct counter_line {
	size_t points;
	const int64_t *time_ns;
	const double *value;
};

/* Moment i: the end of step i. The same as those of a series. */
static int64_t moment_of(struct time_range range, size_t i, size_t points)
{
	__int128 way = (__int128)(range.to_ns - range.from_ns) * (__int128)(i + 1);

	return range.from_ns + (int64_t)(way / (__int128)points);
}

/* The number of points up to a time. */
static size_t points_until(const struct counter_line *line, int64_t ns)
{
	return FIRST_THAT(i, 0, line->points, line->time_ns[i] > ns);
}

/* The program may count what is not a number, or infinite. */
static double larger(double a, double b)
{
	return isfinite(b) && !(b < a) ? b : a;
}

static double most_of(const struct counter_line *line)
{
	double most = -INFINITY;

	for (size_t i = 0; i < line->points; i++)
		most = larger(most, line->value[i]);
	return most;
}

/* A step has the value from before it, too. */
static void put_values(struct json *j, const struct counter_line *line, struct time_range range,
		       size_t points, bool largest)
{
	size_t at = points_until(line, range.from_ns);

	json_array(j, "values");
	for (size_t i = 0; i < points; i++) {
		int64_t until = moment_of(range, i, points);
		double most = larger(-INFINITY, at ? line->value[at - 1] : NAN);

		for (; at < line->points && line->time_ns[at] <= until; at++)
			most = larger(most, line->value[at]);
		if (!at)
			json_null(j, NULL);
		else
			json_real(j, NULL, largest ? most : line->value[at - 1]);
	}
	json_end(j);
}

static void put_counter(struct json *j, const char *name, const char *unit, bool of_process,
			const struct counter_line *line, struct time_range range, size_t points)
{
	bool largest = strcmp(unit, "bytes") == 0;

	json_object(j, NULL);
	json_text(j, "name", name);
	json_text_or_null(j, "unit", unit);
	json_text(j, "kind", of_process ? "process" : "events");
	json_bool(j, "rss", of_process && strcmp(name, "process.resident") == 0);
	json_bool(j, "largest", largest);
	json_real(j, "most", most_of(line));
	put_values(j, line, range, points, largest);
	json_end(j);
}

static void put_recorded(const struct request *r, struct json *j, struct time_range range)
{
	for (size_t i = 0; i < r->info->counters; i++) {
		const struct mayfly_counter *c = mayfly_trace_counter(r->trace, i);
		const struct counter_line line = {c->points, c->time_ns, c->value};

		if (c->points)
			put_counter(j, c->name, c->unit, true, &line, range, r->points);
	}
}

static void put_counted(const struct request *r, struct json *j, struct time_range range,
			const struct lane_index *index)
{
	for (size_t i = 0; i < index->counters; i++) {
		const struct lane_counter *c = &index->counter[i];
		const struct mayfly_track_type *type = mayfly_trace_track_type(r->trace, c->type);
		const struct counter_line line = {c->points, c->time_ns, c->value};

		put_counter(j, type->name, type->unit, false, &line, range, r->points);
	}
}

int view_counters(struct request *r, struct json *j)
{
	struct time_range range = view_range(r);
	const struct lane_index *index;
	int error = lane_index(r->trace, &index);

	if (error)
		return error;
	JSON_LIST(j, "times_ns", i, i < r->points,
		  json_integer(j, NULL, moment_of(range, i, r->points)));
	json_array(j, "counters");
	put_recorded(r, j, range);
	put_counted(r, j, range, index);
	json_end(j);
	return 0;
}
