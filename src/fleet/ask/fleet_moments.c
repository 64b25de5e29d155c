/* SPDX-License-Identifier: Apache-2.0 */
/* Windows that a question is about: see fleet_moments.h. */
#include "fleet/ask/fleet_moments.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fleet/database/fleet_rollup.h"
#include "base/array.h"

#define STEPS_MOST    1000
#define STEPS_FITTING 60
#define NO_NEXT	      "toInt64(9000000000000000000)" /* later than any end of a window */

/* ---- all windows ---- */

/* digits: those of a service's name, if all windows have one. Samples are in the order of services. */
static void set_service(struct fleet_windows *w, const char *digits)
{
	int length;

	digits += strspn(digits, "\t");
	length = (int)strspn(digits, "0123456789ABCDEF");
	*w->service = 0;
	if (length)
		snprintf(w->service, sizeof(w->service), " AND service = unhex('%.*s')", length,
			 digits);
}

bool fleet_windows_fetch(struct clickhouse *c, const char *sql, struct fleet_windows *w)
{
	char *answer = clickhouse_text(
	    c,
	    "SELECT uniqExact(process), uniqExact(host), min(exact), max(interval_bytes), "
	    "min(begin_ns), max(end_ns), toInt64(if(count() = 0, 0, avg(end_ns - begin_ns))), "
	    "min(share), "
	    "if(uniqExact(service) = 1 AND length(any(service)) <= %d, "
	    "hex(any(service)), '') FROM %s.windows WHERE push IN "
	    "(SELECT min(push) FROM %s.windows WHERE %s GROUP BY window)",
	    FLEET_SERVICE_LONGEST, c->url.database, c->url.database, sql);
	int service = 0;
	bool good = false;

	if (!answer)
		return false;
	if (sscanf(answer, "%llu %llu %llu %llu %lld %lld %lld %lf%n", &w->processes, &w->hosts,
		   &w->exact, &w->interval, &w->begin_ns, &w->end_ns, &w->length_ns, &w->share,
		   &service) != 8)
		clickhouse_fail(c, "its answer has another form than was asked for");
	else
		good = w->processes || clickhouse_fail(c, "it has no windows like that");
	set_service(w, answer + service);
	free(answer);
	return good;
}

/* ---- steps ---- */

#define SECOND INT64_C(1000000000)

/* A length of steps that a reader of a time axis expects, so that there are few enough, and that each has a
 * window of most processes. */
static int64_t fitting_step(int64_t span_ns, int64_t window_ns)
{
	static const int32_t seconds[] = {1,   2,   5,	  10,	15,   30,    60,    120,   300,
					  600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400};
	const size_t lengths = sizeof(seconds) / sizeof(*seconds);

	for (size_t i = 0; i < lengths; i++)
		if (span_ns / (seconds[i] * SECOND) < STEPS_FITTING &&
		    seconds[i] * SECOND >= window_ns)
			return seconds[i] * SECOND;
	if (window_ns < span_ns / STEPS_FITTING)
		window_ns = span_ns / STEPS_FITTING;
	return (window_ns / (seconds[lengths - 1] * SECOND) + 1) * seconds[lengths - 1] * SECOND;
}

bool fleet_steps_choose(struct clickhouse *c, const struct fleet_windows *w, int64_t every_ns,
			struct fleet_steps *steps)
{
	int64_t span_ns = w->end_ns > w->begin_ns ? w->end_ns - w->begin_ns : 1;
	int64_t step_ns = every_ns > 0 ? every_ns : fitting_step(span_ns, w->length_ns);
	int64_t count = (span_ns + step_ns - 1) / step_ns;

	if (count > STEPS_MOST)
		return clickhouse_fail(c,
				       "every=%" PRId64 "s are %" PRId64
				       " steps, and %d is the most: ask for longer ones, "
				       "or for less time with from= and to=",
				       (int64_t)(step_ns / SECOND), count, STEPS_MOST);
	*steps = (struct fleet_steps){w->end_ns - count * step_ns, step_ns, (uint32_t)count};
	return true;
}

/* ---- each window ---- */

/*
 * What was live at the end of a window counts up to the next one of its process, or, where there is none, for one
 * and a half of its own length: then the process has ended. Without times there is one step, and the last
 * window of each process counts.
 */
static char *when(const struct fleet_steps *steps)
{
	char *text;
	int length =
	    steps->count
		? asprintf(&text,
			   "toInt32(greatest(0, intDiv(w.1 - %" PRId64 " - 1, %" PRId64
			   "))), toInt32(intDiv(least(w.6, w.1 + intDiv((w.1 - w.2) * 3, 2) + 1) - "
			   "%" PRId64 " - 1, %" PRId64 "))",
			   steps->begin_ns, steps->length_ns, steps->begin_ns, steps->length_ns)
		: asprintf(&text, "toInt32(0), toInt32(w.6 = " NO_NEXT ")");

	return length < 0 ? NULL : text;
}

static bool take_moment(void *context, struct row_binary *r)
{
	struct fleet_moments *all = context;
	struct fleet_moment *m;

	if (!array_reserve(&all->moment, &all->room, all->count, sizeof(*m)))
		return false;
	m = &all->moment[all->count++];
	m->push = row_binary_fixed(r, 8);
	m->one = row_binary_fixed(r, 8);
	m->share = row_binary_real(r);
	m->day = (unsigned)row_binary_fixed(r, 2);
	m->k = (int32_t)row_binary_fixed(r, 4);
	m->until = (int32_t)row_binary_fixed(r, 4);
	return true;
}

/* w: end, begin, push, share, day and the next one's end. */
bool fleet_moments_fetch(struct clickhouse *c, const char *sql, const struct fleet_steps *steps,
			 struct fleet_moments *m)
{
	char *k_until = when(steps);
	bool good;

	if (!k_until)
		return clickhouse_no_memory(c);
	good = clickhouse_rows(
	    c, NULL, take_moment, m,
	    "SELECT w.3, o, w.4, w.5, %s FROM (SELECT o, arrayJoin(arrayMap((x, next) -> "
	    "(x.1, x.2, x.3, x.4, x.5, next), a, "
	    "arrayPushBack(arrayMap(x -> x.1, arraySlice(a, 2)), " NO_NEXT
	    "))) AS w FROM (SELECT o, arraySort(groupArray((e, b, p, s, d))) AS a "
	    "FROM (SELECT min(push) AS p, argMin(end_ns, push) AS e, "
	    "argMin(begin_ns, push) AS b, argMin(share, push) AS s, "
	    "argMin(day, push) AS d, any(process) AS o FROM %s.windows WHERE %s "
	    "GROUP BY window HAVING argMin(exact, push) != %d) GROUP BY o)) "
	    "ORDER BY w.3 FORMAT RowBinary",
	    k_until, c->url.database, sql, FLEET_JOINED);
	free(k_until);
	return good;
}

bool fleet_moments_still_count(struct clickhouse *c, const char *sql,
			       const struct fleet_steps *steps, struct fleet_moments *m)
{
	struct fleet_moments now = {0};
	bool good = fleet_moments_fetch(c, sql, steps, &now);
	size_t found = 0;

	for (size_t i = 0; good && i < now.count && found < m->count; i++)
		found += now.moment[i].push == m->moment[found].push;
	m->changed = good && found < m->count;
	if (m->changed)
		good = clickhouse_fail(
		    c, "its windows were joined or removed in the meantime: ask again");
	fleet_moments_free(&now);
	return good;
}

void fleet_moments_free(struct fleet_moments *m)
{
	free(m->moment);
}
