/* SPDX-License-Identifier: Apache-2.0 */
/* Joins old windows: see fleet_rollup.h. */
#include "fleet/database/fleet_rollup.h"

#include <inttypes.h>
#include <math.h>
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
    "FROM %s.samples GLOBAL ALL INNER JOIN (SELECT * FROM plan) AS planned USING push "
    "PREWHERE push IN (SELECT push FROM plan) WHERE day = toDate(%u) GROUP BY joined, stack "
    "HAVING allocated_count != 0 OR live_count != 0 OR peak_count != 0 OR "
    "sum(allocated_bytes) != 0 OR sum(live_bytes * is_last) != 0";

/* A condition on rows of the plan. */
#define STILL_COUNTS                                                                               \
	"joined NOT IN (SELECT joined FROM plan WHERE push NOT IN (SELECT min(push) "              \
	"FROM %s.windows WHERE day = toDate(%u) GROUP BY window))"

#define JOINED_WINDOWS                                                                             \
	"SELECT toDate(%u), argMax(service, end_ns), argMax(version, end_ns), "                    \
	"argMax(host, end_ns), any(process), argMin(window, begin_ns), number, "                   \
	"argMax(program, end_ns), argMax(command, end_ns), any(pid), min(begin_ns), "              \
	"max(end_ns), if(max(joins) = 1, min(exact), toUInt8(%d)), "                               \
	"max(interval_bytes), sum(samples * joins) AS all_samples, sum(allocated_bytes "           \
	"* joins) AS all_bytes, argMax(live_bytes, end_ns), argMax(peak_bytes, "                   \
	"end_ns), argMax(rss_bytes, end_ns), argMax(rss_most_bytes, end_ns), "                     \
	"argMax(cpu_ns, end_ns), argMax(keys, end_ns), argMax(values, end_ns), "                   \
	"max(pushed), any(share) FROM (SELECT *, labels.key AS keys, labels.value AS "             \
	"values, arrayJoin([toUInt8(1), toUInt8(0)]) AS joins, if(joins = 1, joined, "             \
	"gone) AS number FROM %s.windows GLOBAL ALL INNER JOIN (SELECT * FROM plan) AS "           \
	"planned USING push WHERE day = toDate(%u)) WHERE (joins = 1 OR is_first = 0) "            \
	"AND " STILL_COUNTS " GROUP BY number"

static const char join_windows[] =
    "INSERT INTO %s.windows%s (day, service, version, host, process, window, push, program, "
    "command, pid, begin_ns, end_ns, exact, interval_bytes, samples, allocated_bytes, live_bytes, "
    "peak_bytes, rss_bytes, rss_most_bytes, cpu_ns, labels.key, labels.value, pushed, "
    "share) " JOINED_WINDOWS;

/* ---- proofs ---- */

/*
 * Neither proof uses a join for what is replaced, as it is the join that may go wrong: ANY INNER JOIN has another
 * meaning in newer servers. The sums of the joined samples, and of those that they replace:
 */
static const char prove_samples[] =
    "SELECT sumForEachIf(sums, is_joined = 1), sumForEachIf(sums, is_joined = 0) FROM ("
    "SELECT push GLOBAL IN (SELECT joined FROM plan) AS is_joined, push GLOBAL IN (SELECT "
    "arrayJoin([joined, push]) FROM plan WHERE is_last = 1) AS v, "
    "[toFloat64(allocated_samples), allocated_bytes, allocated_bytes_variance, allocated_blocks, "
    "allocated_blocks_variance, toFloat64(live_samples) * v, live_bytes * v, "
    "live_bytes_variance * v, live_blocks * v, live_blocks_variance * v, "
    "toFloat64(peak_samples) * v, peak_bytes * v, peak_bytes_variance * v, peak_blocks * v, "
    "peak_blocks_variance * v] AS sums FROM %s.samples WHERE day = toDate(%u) AND "
    "push GLOBAL IN (SELECT arrayJoin([push, joined]) FROM plan WHERE " STILL_COUNTS ")"
    ") AS compared FORMAT RowBinary";

/* It comes before the rows are inserted, because they count from then on. */
static const char prove_windows[] =
    "SELECT toUInt8(sum(n) = 0 AND sum(s) = 0 AND abs(sum(b)) <= 1e-9 * sum(abs(b))) FROM ("
    "SELECT toFloat64(1) AS n, toFloat64(all_samples) AS s, toFloat64(all_bytes) AS b FROM "
    "(" JOINED_WINDOWS ") AS after UNION ALL "
    "SELECT toFloat64(-1) AS n, toFloat64(0) AS s, toFloat64(0) AS b FROM plan WHERE "
    "" STILL_COUNTS " UNION ALL "
    "SELECT toFloat64(0) AS n, -toFloat64(samples) AS s, -toFloat64(allocated_bytes) AS b "
    "FROM %s.windows WHERE day = toDate(%u) AND push GLOBAL IN (SELECT push FROM plan WHERE "
    "" STILL_COUNTS ")) AS compared FORMAT RowBinary";

#define SUMS 15

static void take_sums(struct row_binary *row, double *sums)
{
	size_t count = row_binary_length(row, 8);

	for (size_t i = 0; i < count; i++) {
		double sum = row_binary_real(row);

		if (i < SUMS)
			sums[i] = sum;
	}
}

/* A server that has no samples on one side has no sums there. Sums of reals depend on the order. */
static bool take_sums_proof(void *proven, struct row_binary *row)
{
	double after[SUMS] = {0}, before[SUMS] = {0};

	take_sums(row, after);
	take_sums(row, before);
	*(bool *)proven = !row->short_;
	for (int i = 0; i < SUMS; i++)
		if (!(fabs(after[i] - before[i]) <= 1e-9 * (after[i] + before[i])))
			*(bool *)proven = false;
	return true;
}

static bool take_proof(void *proven, struct row_binary *row)
{
	*(bool *)proven = row_binary_fixed(row, 1) == 1;
	return true;
}

static bool is_proven(struct rollup *r, const struct clickhouse_table *plan, unsigned day)
{
	const char *database = r->c->url.database;
	bool samples = false, windows = false;

	if (!clickhouse_rows(r->c, plan, take_sums_proof, &samples, prove_samples, database, day,
			     database, day) ||
	    !clickhouse_rows(r->c, plan, take_proof, &windows, prove_windows, day, FLEET_JOINED,
			     database, day, database, day, database, day, database, day, database,
			     day))
		return false;
	return (samples && windows) ||
	       clickhouse_fail(r->c, "the server joins windows to other sums than theirs; they "
				     "stay, and nothing is lost");
}

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
	       is_proven(r, &table, day) &&
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
