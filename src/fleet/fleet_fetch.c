/* SPDX-License-Identifier: Apache-2.0 */
/* A question to a fleet's database as a trace: see fleet_fetch.h. */
#include "fleet/fleet_fetch.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "convert/import/heap_profile.h"
#include "fleet/fleet_groups.h"
#include "fleet/fleet_rollup.h"
#include "fleet/row_binary.h"
#include "format/numbering.h"

#define QUESTION_BYTES 65536
#define STEPS_MOST     1000
#define STEPS_FITTING  60
#define NO_NEXT	       "toInt64(9000000000000000000)" /* later than any window's end */
struct fetch {
	struct clickhouse *c;
	const struct server_url *url;
	char *why;
	char *counted;	  /* a condition on samples and windows: the windows that count */
	char *where;	  /* the same for samples, and more that lets the server read less */
	char *moments;	  /* a table of them: choose_windows() */
	int64_t begin_ns; /* of the first step of time */
	bool chosen;	  /* some processes stand for others, which were not recorded */
	double processes; /* that the sums are divided by: 1, or all */
	/* Of all stacks; choice: the standard error from that. */
	double bytes[ERROR_SUMS], variance[ERROR_SUMS], choice[ERROR_SUMS];
	struct heap_profile profile;
	struct bytes asked;		  /* the numbers of the stacks of the answer */
	struct numbering modules, frames; /* by path, by number in the database */
	uint32_t *frame;		  /* of the trace, by number in `frames` */
	size_t frame_room;
	char *stacks_answer;
	struct numbering stacks;      /* by number in the database */
	struct row_binary *frames_of; /* by number in `stacks`: in stacks_answer */
	size_t frames_of_room;
};

static bool no_memory(const struct fetch *f)
{
	snprintf(f->why, CLICKHOUSE_WHY, "out of memory");
	return false;
}

/* ---- values ---- */

static uint32_t take_string(struct row_binary *r, struct recording *t, uint64_t *hash)
{
	size_t length = row_binary_length(r, 1);
	uint32_t string = recording_string(t, (const char *)r->at, length);

	r->at += length;
	if (hash)
		*hash = string;
	return string;
}

/* ---- questions ---- */

/* %s as often as given. An answer for the caller to free; NULL: f->why says why. */
static char *ask(const struct fetch *f, size_t *size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static char *ask(const struct fetch *f, size_t *size, const char *format, ...)
{
	char *statement = malloc(QUESTION_BYTES), *answer = NULL;
	va_list list;
	int length;

	if (!statement) {
		no_memory(f);
		return NULL;
	}
	va_start(list, format);
	length = vsnprintf(statement, QUESTION_BYTES, format, list);
	va_end(list);
	if (length >= QUESTION_BYTES)
		snprintf(f->why, CLICKHOUSE_WHY, "the question is too long");
	else if (!clickhouse_run(f->c, statement, NULL, 0, &answer, size, f->why) && !answer)
		no_memory(f);
	free(statement);
	return answer;
}

/* ---- names ---- */

static uint32_t module_of(struct fetch *f, uint32_t path)
{
	struct recording_module fresh = {.path = path, .to_ns = INT64_MAX};
	bool new;
	uint32_t number = path ? numbering_of(&f->modules, (struct key){{path}}, &new) : 0;

	if (!path || number == NUMBERING_NONE)
		return RECORDING_NONE;
	return new ? recording_module(f->profile.tables, &fresh) : number;
}

/* Frames that have a name need an address of their own only to differ. */
static bool add_frame(struct fetch *f, struct row_binary *r)
{
	struct recording *t = f->profile.tables;
	uint64_t id = row_binary_fixed(r, 8), address;
	struct recording_location place = {.function = take_string(r, t, NULL),
					   .file = take_string(r, t, NULL)};
	uint32_t module, number, frame;
	bool new;

	place.line = (uint32_t)row_binary_fixed(r, 4);
	module = module_of(f, take_string(r, t, NULL));
	address = row_binary_fixed(r, 8);
	number = numbering_of(&f->frames, (struct key){{id}}, &new);
	if (number == NUMBERING_NONE ||
	    !array_reserve(&f->frame, &f->frame_room, number, sizeof(*f->frame)))
		return no_memory(f);
	frame = recording_frame(t, MAYFLY_FRAME_CODE, module,
				place.function ? (uint64_t)1 << 62 | number : address);
	f->frame[number] = frame;
	if (frame == RECORDING_NONE || (place.function && import_function(t, frame, &place)))
		return no_memory(f);
	return true;
}

/* ---- stacks ---- */

/* What a question about the stacks of the answer says: f->asked. */
#define ASKED "stack IN asked"

/* ask() with them. */
static char *ask_stacks(const struct fetch *f, size_t *size, const char *format)
{
	const struct clickhouse_table table = {"asked", "stack UInt64", f->asked.at, f->asked.used};
	char *statement, *answer = NULL;

	if (asprintf(&statement, format, f->url->database, f->url->database) < 0) {
		no_memory(f);
		return NULL;
	}
	if (!clickhouse_ask(f->c, statement, &table, &answer, size, f->why) && !answer)
		no_memory(f);
	free(statement);
	return answer;
}

static bool fetch_frames(struct fetch *f)
{
	size_t size;
	char *answer = ask_stacks(
	    f, &size,
	    "SELECT frame, any(function), any(file), any(line), any(module), any(address) FROM "
	    "%s.frames WHERE frame IN (SELECT arrayJoin(frames) FROM %s.stacks WHERE " ASKED ") "
	    "GROUP BY frame FORMAT RowBinary");
	struct row_binary r = {(uint8_t *)answer, (uint8_t *)answer + (answer ? size : 0), false};
	bool good = answer != NULL;

	while (good && r.at < r.end)
		good = add_frame(f, &r);
	free(answer);
	return good;
}

/* A stack's frames, in f->stacks: where they are. */
static bool add_frames_of(struct fetch *f, struct row_binary *r)
{
	struct key stack = {{row_binary_fixed(r, 8)}};
	const uint8_t *at = r->at;
	size_t depth = row_binary_length(r, 8);
	uint32_t number;
	bool new;

	r->at += depth * 8;
	number = numbering_of(&f->stacks, stack, &new);
	if (number == NUMBERING_NONE ||
	    !array_reserve(&f->frames_of, &f->frames_of_room, number, sizeof(*f->frames_of)))
		return no_memory(f);
	f->frames_of[number] = (struct row_binary){at, r->at, false};
	return true;
}

static bool fetch_stacks(struct fetch *f)
{
	struct row_binary r = {0};
	size_t size;

	f->stacks_answer = ask_stacks(
	    f, &size, "SELECT stack, frames FROM %s.stacks WHERE " ASKED " FORMAT RowBinary");
	if (!f->stacks_answer)
		return false;
	r = (struct row_binary){(uint8_t *)f->stacks_answer, (uint8_t *)f->stacks_answer + size,
				false};
	while (r.at < r.end)
		if (!add_frames_of(f, &r))
			return false;
	return true;
}

/* ---- what the answer is of ---- */

/* What the windows say of themselves. */
struct windows {
	unsigned long long count, hosts, exact, interval;
	long long begin_ns, end_ns, length_ns; /* the mean length of one */
	double share;			       /* the smallest */
	unsigned day[2];		       /* the first and the last that one began on */
	unsigned long long services;
};

static bool fetch_windows(struct fetch *f, struct windows *w)
{
	char *answer = ask(f, NULL,
			   "SELECT uniqExact(process), uniqExact(host), min(exact), "
			   "max(interval_bytes), min(begin_ns), "
			   "max(end_ns), toInt64(avg(end_ns - begin_ns)), min(share), "
			   "toUInt16(min(day)), toUInt16(max(day)), uniqExact(service) "
			   "FROM %s.windows WHERE %s",
			   f->url->database, f->counted);
	bool good =
	    answer && sscanf(answer, "%llu %llu %llu %llu %lld %lld %lld %lf %u %u %llu", &w->count,
			     &w->hosts, &w->exact, &w->interval, &w->begin_ns, &w->end_ns,
			     &w->length_ns, &w->share, &w->day[0], &w->day[1], &w->services) == 11;

	if (answer && !good)
		snprintf(f->why, CLICKHOUSE_WHY, "its answer has another form than was asked for");
	free(answer);
	f->chosen = good && w->share > 0 && w->share < 1;
	if (good && !w->count)
		snprintf(f->why, CLICKHOUSE_WHY, "it has no windows like that");
	return good && w->count;
}

/* Samples are in partitions by day, and in the order of services. */
static bool narrow(struct fetch *f, const struct windows *w)
{
	char *service = NULL;
	bool good =
	    w->services != 1 ||
	    asprintf(&service, " AND service = (SELECT any(service) FROM %s.windows WHERE %s)",
		     f->url->database, f->counted) > 0;

	good = good && asprintf(&f->where, "%s AND day >= toDate(%u) AND day <= toDate(%u)%s",
				f->counted, w->day[0], w->day[1], service ? service : "") > 0;
	free(service);
	return good || no_memory(f);
}

/* Those that the sums stand for. */
static bool count_processes(struct fetch *f, const char *sql)
{
	struct fleet_groups all;

	if (!fleet_groups_fetch(f->c, f->url, "''", sql, &all, f->why))
		return false;
	if (all.count && all.group[0].stands_for > 0)
		f->processes = all.group[0].stands_for;
	fleet_groups_free(&all);
	return true;
}

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

/* The steps end with the last window. */
static bool choose_steps(struct fetch *f, const struct windows *w, int64_t every_ns)
{
	int64_t span_ns = w->end_ns > w->begin_ns ? w->end_ns - w->begin_ns : 1;
	int64_t step_ns = every_ns > 0 ? every_ns : fitting_step(span_ns, w->length_ns);
	int64_t steps = (span_ns + step_ns - 1) / step_ns;

	if (steps > STEPS_MOST) {
		snprintf(f->why, CLICKHOUSE_WHY,
			 "every=%" PRId64 "s are %" PRId64
			 " steps, and %d is the most: ask for longer ones, "
			 "or for less time with from= and to=",
			 (int64_t)(step_ns / SECOND), steps, STEPS_MOST);
		return false;
	}
	f->profile.step_ns = step_ns;
	f->profile.steps = (uint32_t)steps;
	f->begin_ns = w->end_ns - steps * step_ns;
	return true;
}

/*
 * The windows that count, as (push, k, until, one, share): what was allocated in one belongs to step k, and
 * what was live at its end counts at the ends of the steps from k to before `until`. That is up to the next
 * window of its process, or, where there is none, for one and a half of its own length: then the
 * process has ended. Without times there is one step, and the last window of each process counts. one, share:
 * its process, and with which chance that was chosen.
 */
static bool choose_windows(struct fetch *f, const char *sql, bool times)
{
	char *when = NULL;
	bool good =
	    times ? asprintf(&when,
			     "toInt64(greatest(0, intDiv(w.1 - %" PRId64 " - 1, %" PRId64
			     "))) AS k, toInt64(intDiv(least(w.4, w.1 + intDiv((w.1 - "
			     "w.2) * 3, 2) + 1) - %" PRId64 " - 1, %" PRId64 ")) AS until",
			     f->begin_ns, f->profile.step_ns, f->begin_ns, f->profile.step_ns) > 0
		  : asprintf(&when, "toInt64(0) AS k, toInt64(w.4 = " NO_NEXT ") AS until") > 0;

	good =
	    good &&
	    asprintf(&f->moments,
		     "SELECT w.3 AS push, %s, o AS one, w.5 AS share FROM (SELECT o, "
		     "arrayJoin(arrayMap((x, next) -> (x.1, x.2, x.3, next, x.4), a, "
		     "arrayPushBack(arrayMap(x -> x.1, arraySlice(a, 2)), " NO_NEXT "))) AS w FROM "
		     "(SELECT o, arraySort(groupArray((e, b, p, s))) AS a FROM "
		     "(SELECT min(push) AS p, argMin(end_ns, push) AS e, argMin(begin_ns, "
		     "push) AS b, argMin(share, push) AS s, any(process) AS o FROM %s.windows "
		     "WHERE %s GROUP BY window HAVING argMin(exact, push) != %d) GROUP BY o))",
		     when, f->url->database, sql, FLEET_JOINED) > 0;
	free(when);
	return good || no_memory(f);
}

/* ---- sums ---- */

static uint64_t whole(double value)
{
	return value > 0 && value < (double)((uint64_t)1 << 61) ? (uint64_t)llround(value) : 0;
}

/* Of the sums of a stack up to a step. */
struct sums {
	double allocated_bytes, allocated, live_bytes, live;
};

/* Whole numbers of them, with blocks where there are bytes, and nothing live that was not allocated. */
static struct heap_figures figures_of(const struct sums *s)
{
	struct heap_figures n = {.live = whole(s->live),
				 .live_bytes = whole(s->live_bytes),
				 .all = whole(s->allocated),
				 .all_bytes = whole(s->allocated_bytes)};

	/* Of few samples of large blocks the estimate of blocks may be below one half. */
	n.live += n.live_bytes && !n.live;
	if (n.all < n.live)
		n.all = n.live;
	n.all += n.all_bytes > n.live_bytes && n.all == n.live;
	return n;
}

/* What a step adds, so that rounding does not add up. */
static bool add_point(struct fetch *f, uint32_t step, const struct sums *s, uint64_t *all,
		      uint64_t *all_bytes)
{
	struct heap_point point = {.step = step,
				   .live = whole(s->live),
				   .live_bytes = whole(s->live_bytes),
				   .all = whole(s->allocated) - *all,
				   .all_bytes = whole(s->allocated_bytes) - *all_bytes};

	*all += point.all;
	*all_bytes += point.all_bytes;
	return !heap_profile_point(&f->profile, &point) || no_memory(f);
}

#define POINT_BYTES  (4 + 4 * 8)
#define ERRORS_BYTES (ERROR_SUMS * 5 * 8)

/* The steps of a stack; *sums: up to the last one. */
static bool add_points(struct fetch *f, struct row_binary *r, struct sums *sums)
{
	uint32_t steps = f->profile.steps ? f->profile.steps : 1;
	size_t points = row_binary_length(r, POINT_BYTES);
	uint64_t all = 0, all_bytes = 0, next = 0;

	for (size_t i = 0; i < points; i++) {
		uint64_t step = row_binary_fixed(r, 4);

		sums->allocated_bytes += row_binary_real(r) / f->processes;
		sums->allocated += row_binary_real(r) / f->processes;
		sums->live_bytes = row_binary_real(r) / f->processes;
		sums->live = row_binary_real(r) / f->processes;
		if (step < next || step >= steps) {
			snprintf(f->why, CLICKHOUSE_WHY,
				 "its answer has another form than was asked for");
			return false;
		}
		next = step + 1;
		if (f->profile.steps && !add_point(f, (uint32_t)step, sums, &all, &all_bytes))
			return false;
	}
	if (next < steps)
		sums->live_bytes = sums->live = 0;
	return true;
}

static bool add_stack(struct fetch *f, struct row_binary *r)
{
	uint32_t stack = numbering_find(&f->stacks, (struct key){{row_binary_fixed(r, 8)}});
	struct row_binary none = {0}, of = stack == NUMBERING_NONE ? none : f->frames_of[stack];
	double square = f->processes * f->processes;
	struct heap_figures figures;
	struct sums sums = {0};

	for (size_t depth = row_binary_length(&of, 8); depth; depth--) {
		uint32_t number =
		    numbering_find(&f->frames, (struct key){{row_binary_fixed(&of, 8)}});

		if (number != NUMBERING_NONE && heap_profile_frame(&f->profile, f->frame[number]))
			return no_memory(f);
	}
	if (!add_points(f, r, &sums))
		return false;
	figures = figures_of(&sums);
	for (size_t i = 0; i < ERROR_SUMS; i++) {
		figures.error[i].bytes_variance = row_binary_real(r) / square;
		figures.error[i].blocks_variance = row_binary_real(r) / square;
		figures.error[i].samples = row_binary_fixed(r, 8);
		figures.error[i].choice_bytes = row_binary_real(r) / f->processes;
		figures.error[i].choice_blocks = row_binary_real(r) / f->processes;
		f->variance[i] += figures.error[i].bytes_variance;
		f->choice[i] += figures.error[i].choice_bytes;
	}
	f->bytes[ERROR_ALLOCATED] += sums.allocated_bytes;
	f->bytes[ERROR_LIVE] += sums.live_bytes;
	return !heap_profile_row(&f->profile, &figures) || no_memory(f);
}

/*
 * The standard errors of each stack's sums from the choice of processes. When each process is taken with the
 * chance p, and y is what one that was taken stands for, of which v is the variance of sampling, then
 * the sum of (1 - p) (y^2 - v) estimates the variance of the sum (D. Horvitz and D. Thompson, Journal of the
 * American Statistical Association 47, 1952). For ANY LEFT JOIN; or columns of zeros.
 */
static bool choice_of(const struct fetch *f, uint32_t last, char **sql)
{
	return (f->chosen
		    ? asprintf(
			  sql,
			  "ANY LEFT JOIN (SELECT stack, "
			  "sqrt(greatest(0, sum(c * (ab * ab - abv)))) AS cab, "
			  "sqrt(greatest(0, sum(c * (an * an - anv)))) AS can, "
			  "sqrt(greatest(0, sum(c * (lb * lb - lbv)))) AS clb, "
			  "sqrt(greatest(0, sum(c * (ln * ln - lnv)))) AS cln FROM ("
			  "SELECT stack, one, max(1 - share) AS c, sum(allocated_bytes) AS ab, "
			  "sum(allocated_bytes_variance) AS abv, sum(allocated_blocks) AS an, "
			  "sum(allocated_blocks_variance) AS anv, "
			  "sum(live_bytes * (%u < until)) AS lb, "
			  "sum(live_bytes_variance * (%u < until)) AS lbv, "
			  "sum(live_blocks * (%u < until)) AS ln, "
			  "sum(live_blocks_variance * (%u < until)) AS lnv FROM "
			  "%s.samples GLOBAL ANY INNER JOIN (%s) USING push PREWHERE %s "
			  "GROUP BY stack, one) GROUP BY stack) USING stack",
			  last, last, last, last, f->url->database, f->moments, f->where)
		    : asprintf(sql,
			       "ANY LEFT JOIN (SELECT toUInt64(0) AS stack, toFloat64(0) AS cab, "
			       "toFloat64(0) AS can, toFloat64(0) AS clb, "
			       "toFloat64(0) AS cln) USING stack")) > 0 ||
	       no_memory(f);
}

#define ALLOCATED_SUMS                                                                             \
	"sum(allocated_bytes) AS ab1, sum(allocated_blocks) AS an1, "                              \
	"sum(allocated_bytes_variance) AS abv1, sum(allocated_blocks_variance) AS anv1, "          \
	"sum(allocated_samples) AS asm1"
#define LIVE_SUMS                                                                                  \
	"sum(live_bytes) AS lb1, sum(live_blocks) AS ln1, sum(live_bytes_variance) AS lbv1, "      \
	"sum(live_blocks_variance) AS lnv1, sum(live_samples) AS lsm1"

/*
 * What windows with the same k and until have, by stack. The servers of a cluster each add up their own rows.
 * Without times, most windows are not the last ones of their processes, and of those nothing that is live
 * is read.
 */
static bool sums_of(const struct fetch *f, char **sql)
{
	const char *database = f->url->database;

	return (f->profile.steps
		    ? asprintf(sql,
			       "SELECT stack, k, until, " ALLOCATED_SUMS ", " LIVE_SUMS
			       " FROM %s.samples GLOBAL ANY INNER JOIN (%s) USING push PREWHERE %s "
			       "GROUP BY stack, k, until",
			       database, f->moments, f->where)
		    : asprintf(
			  sql,
			  "SELECT stack, toInt64(0) AS k, toInt64(1) AS until, " ALLOCATED_SUMS
			  ", toFloat64(0) AS lb1, toFloat64(0) AS ln1, toFloat64(0) AS lbv1, "
			  "toFloat64(0) AS lnv1, toUInt64(0) AS lsm1 FROM %s.samples PREWHERE "
			  "%s GROUP BY stack UNION ALL "
			  "SELECT stack, toInt64(0) AS k, toInt64(1) AS until, toFloat64(0) AS "
			  "ab1, toFloat64(0) AS an1, toFloat64(0) AS abv1, toFloat64(0) AS "
			  "anv1, toUInt64(0) AS asm1, " LIVE_SUMS " FROM %s.samples PREWHERE "
			  "push IN (SELECT push FROM (%s) WHERE until > 0) AND %s "
			  "GROUP BY stack",
			  database, f->where, database, f->moments, f->where)) > 0 ||
	       no_memory(f);
}

/* One row for each stack, with an array of its steps. */
static char *ask_sums(struct fetch *f, size_t *size)
{
	uint32_t last = f->profile.steps ? f->profile.steps - 1 : 0;
	char *choice = NULL, *sums = NULL, *answer = NULL;

	if (choice_of(f, last, &choice) && sums_of(f, &sums))
		answer = ask(
		    f, size,
		    "SELECT stack, points, abv, anv, toUInt64(asm), cab, can, lbv, lnv, "
		    "toUInt64(lsm), clb, cln FROM (SELECT stack, arraySort(groupArray(("
		    "toUInt32(step), ab, an, lb, ln))) AS points, "
		    "sum(sabv) AS abv, sum(sanv) AS anv, sum(sasm) AS asm, "
		    "sum(slbv * (step = %u)) AS lbv, sum(slnv * (step = %u)) AS lnv, "
		    "sum(slsm * (step = %u)) AS lsm FROM (SELECT stack, step, "
		    "sum(ab1 * (step = k)) AS ab, sum(an1 * (step = k)) AS an, "
		    "sum(lb1 * (step < until)) AS lb, sum(ln1 * (step < until)) AS ln, "
		    "sum(abv1 * (step = k)) AS sabv, sum(anv1 * (step = k)) AS sanv, "
		    "sum(asm1 * (step = k)) AS sasm, "
		    "sum(lbv1 * (step < until)) AS slbv, sum(lnv1 * (step < until)) AS slnv, "
		    "sum(lsm1 * (step < until)) AS slsm FROM (SELECT *, arrayJoin(arrayMap(i -> k "
		    "+ i, range(toUInt64(greatest(1, least(until, %u) - k))))) AS step FROM (%s)) "
		    "GROUP BY stack, step) GROUP BY stack) %s FORMAT RowBinary",
		    last, last, last, last + 1, sums, choice);
	free(choice);
	free(sums);
	return answer;
}

/* The first value of each row: the stack. The others are read only to get to the next one. */
static bool note_stacks(struct fetch *f, struct row_binary r)
{
	while (r.at < r.end) {
		bytes_put_fixed(&f->asked, row_binary_fixed(&r, 8), 8);
		r.at += row_binary_length(&r, POINT_BYTES) * POINT_BYTES;
		for (size_t i = 0; i < ERRORS_BYTES / 8; i++)
			row_binary_fixed(&r, 8);
	}
	if (r.short_)
		snprintf(f->why, CLICKHOUSE_WHY, "its answer is cut off");
	return !r.short_ && (!f->asked.failed || no_memory(f));
}

static bool fetch_sums(struct fetch *f)
{
	size_t size;
	char *answer = ask_sums(f, &size);
	struct row_binary r = {(uint8_t *)answer, (uint8_t *)answer + (answer ? size : 0), false};
	bool good = answer && note_stacks(f, r) && fetch_frames(f) && fetch_stacks(f);

	while (good && r.at < r.end)
		good = add_stack(f, &r);
	free(answer);
	return good;
}

/* Half of the 95 % interval. */
static double within(const struct fetch *f, enum trace_error_sum of)
{
	return 1.96 * sqrt(f->variance[of] + f->choice[of] * f->choice[of]);
}

/* The sums with their 95 % intervals, which the rows of the trace do not have. */
static bool describe(struct fetch *f, const struct windows *w, const char *name)
{
	struct recording *t = f->profile.tables;

	if (!w->exact || f->chosen) {
		double interval = (double)w->interval / (f->chosen ? w->share : 1) / f->processes;

		f->profile.interval = interval > 1 ? whole(interval) : 2;
		f->profile.errors = true;
	}
	t->info.start_real_ns = f->profile.steps ? f->begin_ns : w->begin_ns;
	t->info.duration_ns = f->profile.steps * f->profile.step_ns;
	t->program = recording_string(t, name, strlen(name));
	return !import_describe(
		   t, "",
		   "the %s of %llu process%s of %llu host%s: allocated %.4g MB ±%.2g, live at "
		   "%s %.4g MB ±%.2g",
		   f->processes == 1 ? "sum" : "mean", w->count, w->count == 1 ? "" : "es",
		   w->hosts, w->hosts == 1 ? "" : "s", f->bytes[ERROR_ALLOCATED] / 0x1p20,
		   within(f, ERROR_ALLOCATED) / 0x1p20,
		   f->profile.steps ? "the end of the time" : "their ends",
		   f->bytes[ERROR_LIVE] / 0x1p20, within(f, ERROR_LIVE) / 0x1p20) ||
	       no_memory(f);
}

bool fleet_fetch(struct clickhouse *c, const struct server_url *url, const char *name,
		 const struct fleet_filter *filter, trace_sink *sink, void *context, char *why)
{
	const char *sql = (const char *)filter->sql.at;
	bool times = filter->every_ns != 0;
	struct fetch f = {.c = c, .url = url, .why = why, .processes = 1};
	struct import_options options = {0};
	struct windows w;
	int error = 0;
	bool good;

	*why = 0;
	clickhouse_patient(c);
	good = heap_profile_begin(&f.profile, (size_t)1 << 30) &&
	       asprintf(&f.counted,
			"push IN (SELECT min(push) FROM %s.windows WHERE %s GROUP BY window)",
			url->database, sql) > 0;
	if (!good)
		no_memory(&f);
	good = good && fetch_windows(&f, &w) && narrow(&f, &w) &&
	       (!filter->per_process || count_processes(&f, sql)) &&
	       (!times || choose_steps(&f, &w, filter->every_ns)) &&
	       choose_windows(&f, sql, times) && fetch_sums(&f) && describe(&f, &w, name);
	if (good)
		error = heap_profile_write(&f.profile, &options, sink, context);
	if (error)
		snprintf(why, CLICKHOUSE_WHY, "%s",
			 mayfly_error_text(error < 0 ? error : MAYFLY_E_MEMORY));
	heap_profile_end(&f.profile);
	numbering_free(&f.modules);
	numbering_free(&f.frames);
	numbering_free(&f.stacks);
	bytes_free(&f.asked);
	free(f.frame);
	free(f.frames_of);
	free(f.stacks_answer);
	free(f.where);
	free(f.counted);
	free(f.moments);
	return good && !error;
}
