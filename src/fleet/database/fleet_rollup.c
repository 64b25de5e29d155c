/* SPDX-License-Identifier: Apache-2.0 */
/* Joins old windows: see fleet_rollup.h. */
#include "fleet/database/fleet_rollup.h"

#include <inttypes.h>
#include <stdio.h>

#include "fleet/database/fleet_local.h"
#include "fleet/database/row_binary.h"

/* Windows that are joined at once: few enough that all new rows are one block. */
#define BATCH_WINDOWS 20000

#define CONDITION_BYTES 400

struct rollup {
	struct clickhouse *c;
	const struct fleet_rollup *how;
	const char *local;
	struct bytes plan;	  /* rows of PLAN */
	uint64_t windows, joined; /* in the plan */
};

/* ---- which ---- */

/*
 * A row for each window to be joined: its push, the push of the joined window, and the push without samples
 * that replaces its own. The new numbers are a little below the old ones, as the smallest one counts.
 * If the share of the process changed among the windows of such a time, they are not joined: they say
 * when it changed.
 */
#define PLAN "push UInt64, joined UInt64, gone UInt64, is_first UInt8, is_last UInt8"

#define PLAN_BYTES 26

static bool take_plan(void *context, struct row_binary *row)
{
	struct rollup *r = context;
	const uint8_t *begin = row->at;

	for (int i = 0; i < 3; i++)
		row_binary_fixed(row, 8);
	r->joined += row_binary_fixed(row, 1);
	row_binary_fixed(row, 1);
	r->windows++;
	if (!row->short_)
		bytes_put(&r->plan, begin, PLAN_BYTES);
	return !r->plan.failed;
}

static bool ask_plan(struct rollup *r, unsigned day, uint64_t part, uint64_t parts)
{
	r->plan.used = 0;
	r->windows = r->joined = 0;
	return clickhouse_rows(
	    r->c, NULL, take_plan, r,
	    "SELECT p, joined, toUInt64(p - 1 - rand64(p) %% (intDiv(p, 65536) + 1)), "
	    "toUInt8(p = ps[1]), toUInt8(p = ps[length(ps)]) FROM (SELECT ps, joined, "
	    "arrayJoin(ps) AS p FROM (SELECT arrayMap(x -> x.2, arraySort(groupArray((b, p)))) "
	    "AS ps, toUInt64(ps[1] - 1 - rand64() %% (intDiv(ps[1], 65536) + 1)) AS joined "
	    "FROM (SELECT min(push) AS p, argMin(begin_ns, push) AS b, argMin(end_ns, push) AS "
	    "e, argMin(exact, push) AS x, argMin(share, push) AS s, any(process) AS o "
	    "FROM %s.windows WHERE day = toDate(%u) AND process %% %" PRIu64 " = %" PRIu64
	    " GROUP BY window) WHERE x != %d GROUP BY o, intDiv(b, %" PRId64
	    ") HAVING count() > 1 AND max(e) < %" PRId64 " AND min(s) = max(s))) FORMAT RowBinary",
	    r->c->url.database, day, parts, part, FLEET_JOINED, r->how->to_ns, r->how->before_ns);
}

/* ---- joining ---- */

/*
 * What is live, and the peak, are taken from the last window. A joined window is left out if one of its
 * windows does not count any more: then another rollup was faster, and may have deleted samples already.
 */
static const char join_samples[] =
    "INSERT INTO %s.samples%s (day, service, push, stack, "
    "allocated_bytes, allocated_bytes_variance, allocated_blocks, "
    "allocated_blocks_variance, allocated_samples, "
    "live_bytes, live_bytes_variance, live_blocks, "
    "live_blocks_variance, live_samples, "
    "peak_bytes, peak_bytes_variance, peak_blocks, "
    "peak_blocks_variance, peak_samples) "
    "SELECT toDate(%u), any(service), joined, stack, "
    "sum(allocated_bytes), sum(allocated_bytes_variance), "
    "sum(allocated_blocks), sum(allocated_blocks_variance), "
    "sum(allocated_samples) AS allocated_count, "
    "sum(live_bytes * is_last), sum(live_bytes_variance * is_last), "
    "sum(live_blocks * is_last), sum(live_blocks_variance * is_last), "
    "sum(live_samples * is_last) AS live_count, "
    "sum(peak_bytes * is_last), sum(peak_bytes_variance * is_last), "
    "sum(peak_blocks * is_last), sum(peak_blocks_variance * is_last), "
    "sum(peak_samples * is_last) AS peak_count "
    "FROM %s.samples GLOBAL ANY INNER JOIN (SELECT * FROM plan) USING push "
    "PREWHERE push IN (SELECT push FROM plan) WHERE day = toDate(%u) GROUP BY joined, stack "
    "HAVING allocated_count != 0 OR live_count != 0 OR peak_count != 0 OR "
    "sum(allocated_bytes) != 0 OR sum(live_bytes * is_last) != 0";

static const char join_windows[] =
    "INSERT INTO %s.windows%s (day, service, version, host, process, window, push, program, "
    "command, pid, begin_ns, end_ns, exact, interval_bytes, samples, allocated_bytes, live_bytes, "
    "peak_bytes, rss_bytes, rss_most_bytes, cpu_ns, labels.key, labels.value, pushed, share) "
    "SELECT toDate(%u), argMax(service, end_ns), argMax(version, end_ns), argMax(host, end_ns), "
    "any(process), argMin(window, begin_ns), number, argMax(program, end_ns), argMax(command, "
    "end_ns), any(pid), min(begin_ns), max(end_ns), if(max(joins) = 1, min(exact), toUInt8(%d)), "
    "max(interval_bytes), sum(samples * joins), sum(allocated_bytes * joins), "
    "argMax(live_bytes, end_ns), argMax(peak_bytes, end_ns), argMax(rss_bytes, end_ns), "
    "argMax(rss_most_bytes, end_ns), argMax(cpu_ns, end_ns), argMax(keys, end_ns), "
    "argMax(values, end_ns), max(pushed), any(share) FROM (SELECT *, labels.key AS keys, "
    "labels.value AS values, arrayJoin([toUInt8(1), toUInt8(0)]) AS joins, "
    "if(joins = 1, joined, gone) AS number FROM %s.windows GLOBAL ANY INNER JOIN "
    "(SELECT * FROM plan) USING push WHERE day = toDate(%u)) WHERE (joins = 1 OR is_first = 0) "
    "AND joined NOT IN (SELECT joined FROM plan WHERE push NOT IN (SELECT min(push) FROM "
    "%s.windows WHERE day = toDate(%u) GROUP BY window)) GROUP BY number";

/* Samples first: they do not count before the windows that have their numbers. A replica that has a window that is
 * to be joined may not have its samples yet. */
static bool join_part(struct rollup *r, unsigned day, uint64_t part, uint64_t parts,
		      uint64_t *windows, uint64_t *joined)
{
	const struct clickhouse_table table = {"plan", PLAN, &r->plan};
	const char *database = r->c->url.database;

	if (!fleet_catch_up(r->c) || !ask_plan(r, day, part, parts))
		return false;
	if (!r->plan.used)
		return true;
	*windows += r->windows;
	*joined += r->joined;
	return fleet_catch_up(r->c) &&
	       clickhouse_rows(r->c, &table, NULL, NULL, join_samples, database, r->local, day,
			       database, day) &&
	       clickhouse_rows(r->c, &table, NULL, NULL, join_windows, database, r->local, day,
			       FLEET_JOINED, database, day, database, day);
}

/* ---- what does not count any more ---- */

static bool delete_rows(const struct rollup *r, unsigned day)
{
	const char *database = r->c->url.database;
	char windows[20], samples[20], beaten[CONDITION_BYTES], of_beaten[2 * CONDITION_BYTES],
	    stand_in[CONDITION_BYTES];

	snprintf(windows, sizeof(windows), "windows%s", r->local);
	snprintf(samples, sizeof(samples), "samples%s", r->local);
	snprintf(
	    beaten, sizeof(beaten),
	    "day = toDate(%u) AND push GLOBAL NOT IN (SELECT min(push) FROM %s.windows WHERE day = "
	    "toDate(%u) GROUP BY window)",
	    day, database, day);
	snprintf(of_beaten, sizeof(of_beaten),
		 "day = toDate(%u) AND push IN (SELECT push FROM %s.%s WHERE %s)", day, database,
		 windows, beaten);
	snprintf(
	    stand_in, sizeof(stand_in),
	    "day = toDate(%u) AND exact = %d AND window GLOBAL IN (SELECT window FROM %s.windows "
	    "WHERE day = toDate(%u) GROUP BY window HAVING count() = 1)",
	    day, FLEET_JOINED, database, day);
	return fleet_delete(r->c, samples, of_beaten) && fleet_delete(r->c, windows, beaten) &&
	       fleet_delete(r->c, windows, stand_in);
}

static bool roll_day(struct rollup *r, unsigned day, uint64_t *windows, uint64_t *joined)
{
	uint64_t parts;

	if (!clickhouse_number(
		r->c, &parts,
		"SELECT intDiv(count(), %d) + 1 FROM %s.windows WHERE day = toDate(%u)",
		BATCH_WINDOWS, r->c->url.database, day))
		return false;
	for (uint64_t part = 0; part < parts; part++)
		if (!join_part(r, day, part, parts, windows, joined))
			return false;
	return delete_rows(r, day);
}

static bool take_day(void *days, struct row_binary *r)
{
	bytes_put_fixed(days, row_binary_fixed(r, 2), 2);
	return true;
}

bool fleet_rollup(struct clickhouse *c, const struct fleet_rollup *how, uint64_t *windows,
		  uint64_t *joined)
{
	struct rollup r = {c, how, fleet_local(c)};
	struct bytes days = {0};
	bool good = r.local != NULL;

	clickhouse_current(c);
	good = good && clickhouse_rows(c, NULL, take_day, &days,
				       "SELECT DISTINCT toUInt16(day) AS d FROM %s.windows WHERE "
				       "end_ns < %" PRId64 " ORDER BY d FORMAT RowBinary",
				       c->url.database, how->before_ns);
	if (good && days.failed)
		good = clickhouse_no_memory(c);
	for (size_t at = 0; good && at < days.used; at += 2)
		good = roll_day(&r, days.at[at] | (unsigned)days.at[at + 1] << 8, windows, joined);
	bytes_free(&days);
	bytes_free(&r.plan);
	return good;
}
