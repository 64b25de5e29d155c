/* SPDX-License-Identifier: Apache-2.0 */
/* A question to a fleet's database as a trace: see fleet_fetch.h. */
#include "fleet/ask/fleet_fetch.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "convert/import/heap_profile.h"
#include "fleet/ask/fleet_groups.h"
#include "fleet/ask/fleet_moments.h"
#include "base/array.h"
#include "base/interner.h"

#define TRIES 3

struct sum {
	double bytes, blocks;
};

/* What a stack has in a step. */
struct point {
	uint32_t step, next; /* of the same stack, later: its number + 1, or 0 */
	struct sum of[ERROR_SUMS];
};

struct stack {
	size_t first; /* of its frames in fetch.path, leaf first */
	uint32_t depth;
	uint32_t point; /* the first one: its number + 1, or 0 */
	struct sum_error error[ERROR_SUMS];
};

/* What is asked for at once: the sums by stack of the windows that have something of a kind in a step. The servers
 * add up in a table of stacks, which fits into a cache of the CPU. One of stacks and steps does not: each row
 * waits for memory, and takes seven times as long. */
struct part {
	enum trace_error_sum kind;
	uint32_t step;
	bool certain; /* how certain the sums are, too */
};

struct fetch {
	struct clickhouse *c;
	const char *sql;  /* a condition on windows: those that are asked about */
	bool chosen;	  /* some processes stand for others, which were not recorded */
	double processes; /* that the sums are divided by: 1, or all */
	/* Sums over all stacks; choice: the standard error from choosing processes. */
	double bytes[ERROR_SUMS], variance[ERROR_SUMS], choice[ERROR_SUMS];
	struct import in;
	struct heap_profile profile;
	struct fleet_windows windows;
	struct fleet_steps steps;
	struct fleet_moments moments;
	struct point *point;
	size_t points, point_room;
	struct part part;
	struct bytes asked;		/* the rows that a question is about */
	unsigned day[2];		/* if they are moments: the first and the last one's */
	struct interner stacks, frames; /* by number in the database */
	struct interner modules;	/* by path */
	struct stack *stack;		/* by number in `stacks` */
	uint32_t *frame;		/* of the trace, by number in `frames` */
	uint32_t *path;			/* frames of all stacks, as numbers in `frames` */
	size_t stack_room, frame_room, path_length, path_room;
};

/* ---- values ---- */

static uint32_t take_string(struct row_binary *r, struct recording *t)
{
	size_t length = row_binary_length(r, 1);
	uint32_t string = recording_string(t, (const char *)r->at, length);

	r->at += length;
	return string;
}

/* ---- questions ---- */

/* The table `asked` of a question, which has f->asked. */
static struct clickhouse_table about(const struct fetch *f, const char *columns)
{
	return (struct clickhouse_table){"asked", columns, &f->asked};
}

static void ask_about(struct fetch *f, const struct interner *ids)
{
	f->asked.used = 0;
	for (size_t i = 0; i < ids->count; i++)
		bytes_put_fixed(&f->asked, ids->key[i].word[0], 8);
}

/* ---- names ---- */

static uint32_t module_of(struct fetch *f, uint32_t path)
{
	struct recording_module fresh = {.path = path, .to_ns = INT64_MAX};
	bool new;
	uint32_t number = path ? interner_add(&f->modules, (struct key){{path}}, &new) : 0;

	if (!path || number == INTERNER_NONE)
		return RECORDING_NONE;
	return new ? recording_module(f->in.tables, &fresh) : number;
}

/* Frames that have a name need an address of their own only to differ. */
static bool take_frame(void *context, struct row_binary *r)
{
	struct fetch *f = context;
	struct recording *t = f->in.tables;
	uint32_t number = interner_find(&f->frames, (struct key){{row_binary_fixed(r, 8)}});
	struct recording_location place = {0};
	uint32_t module, frame;
	uint64_t address;

	place.function = take_string(r, t);
	place.file = take_string(r, t);
	place.line = (uint32_t)row_binary_fixed(r, 4);
	module = module_of(f, take_string(r, t));
	address = row_binary_fixed(r, 8);
	if (number == INTERNER_NONE)
		return true;
	frame = recording_frame(t, MAYFLY_FRAME_CODE, module,
				place.function ? (uint64_t)1 << 62 | number : address);
	f->frame[number] = frame;
	if (place.function)
		import_function(t, frame, &place);
	return !t->failed || clickhouse_no_memory(f->c);
}

static bool fetch_frames(struct fetch *f)
{
	const struct clickhouse_table table = about(f, "frame UInt64");

	if (f->frames.count && !array_reserve_filled(&f->frame, &f->frame_room, f->frames.count - 1,
						     sizeof(*f->frame), 0xff))
		return clickhouse_no_memory(f->c);
	ask_about(f, &f->frames);
	return clickhouse_rows(
	    f->c, &table, take_frame, f,
	    "SELECT frame, any(function), any(file), any(line), any(module), any(address) "
	    "FROM %s.frames WHERE frame IN asked GROUP BY frame FORMAT RowBinary",
	    f->c->url.database);
}

/* ---- stacks ---- */

/* Several rows of one stack say the same. */
static bool take_stack(void *context, struct row_binary *r)
{
	struct fetch *f = context;
	uint32_t number = interner_find(&f->stacks, (struct key){{row_binary_fixed(r, 8)}});
	size_t depth = row_binary_length(r, 8);
	bool new;

	if (number != INTERNER_NONE) {
		f->stack[number].first = f->path_length;
		f->stack[number].depth = (uint32_t)depth;
	}
	for (size_t i = 0; i < depth; i++) {
		uint32_t frame =
		    interner_add(&f->frames, (struct key){{row_binary_fixed(r, 8)}}, &new);

		if (frame == INTERNER_NONE ||
		    !array_reserve(&f->path, &f->path_room, f->path_length, sizeof(*f->path)))
			return clickhouse_no_memory(f->c);
		f->path[f->path_length++] = frame;
	}
	return true;
}

static bool fetch_stacks(struct fetch *f)
{
	const struct clickhouse_table table = about(f, "stack UInt64");

	ask_about(f, &f->stacks);
	return clickhouse_rows(
	    f->c, &table, take_stack, f,
	    "SELECT stack, frames FROM %s.stacks WHERE stack IN asked FORMAT RowBinary",
	    f->c->url.database);
}

/* ---- what the answer is of ---- */

/* Those that the sums stand for. */
static bool count_processes(struct fetch *f)
{
	struct fleet_groups all;

	if (!fleet_groups_fetch(f->c, "''", f->sql, &all))
		return false;
	if (all.count && all.group[0].stands_for > 0)
		f->processes = all.group[0].stands_for;
	fleet_groups_free(&all);
	return true;
}

/* ---- sums ---- */

static uint32_t last_step(const struct fetch *f)
{
	return f->steps.count ? f->steps.count - 1 : 0;
}

/* The point of a stack in the step that is asked for. Steps come from the last one on, so a stack has its
 * points in order. NULL: out of memory. */
static struct point *point_of(struct fetch *f, uint32_t number, uint32_t step)
{
	struct stack *stack;

	if (number == INTERNER_NONE ||
	    !array_reserve_filled(&f->stack, &f->stack_room, number, sizeof(*f->stack), 0))
		return NULL;
	stack = &f->stack[number];
	if (!stack->point || f->point[stack->point - 1].step != step) {
		if (f->points == UINT32_MAX ||
		    !array_reserve(&f->point, &f->point_room, f->points, sizeof(*f->point)))
			return NULL;
		f->point[f->points++] = (struct point){.step = step, .next = stack->point};
		stack->point = (uint32_t)f->points;
	}
	return &f->point[stack->point - 1];
}

static bool take_sum(void *context, struct row_binary *r)
{
	struct fetch *f = context;
	double square = f->processes * f->processes;
	bool new;
	uint32_t number = interner_add(&f->stacks, (struct key){{row_binary_fixed(r, 8)}}, &new);
	struct point *p = point_of(f, number, f->part.step);
	struct sum_error *error;

	if (!p)
		return clickhouse_no_memory(f->c);
	p->of[f->part.kind].bytes = row_binary_real(r) / f->processes;
	p->of[f->part.kind].blocks = row_binary_real(r) / f->processes;
	if (!f->part.certain)
		return true;
	error = &f->stack[number].error[f->part.kind];
	error->bytes_variance += row_binary_real(r) / square;
	error->blocks_variance += row_binary_real(r) / square;
	error->samples += row_binary_fixed(r, 8);
	return true;
}

static bool is_in(const struct fleet_moment *m, const struct part *p)
{
	int32_t step = (int32_t)p->step;

	return p->kind == ERROR_ALLOCATED ? m->k == step : m->k <= step && step < m->until;
}

static void ask_about_nothing(struct fetch *f)
{
	f->asked.used = 0;
	f->day[0] = UINT_MAX;
	f->day[1] = 0;
}

static void ask_about_moment(struct fetch *f, const struct fleet_moment *m)
{
	bytes_put_fixed(&f->asked, m->push, 8);
	if (m->day < f->day[0])
		f->day[0] = m->day;
	if (m->day > f->day[1])
		f->day[1] = m->day;
}

/* The samples of moments. They are in partitions by day, and in the order of services: the server reads less. */
#define SAMPLES_FORMAT " AND day >= toDate(%u) AND day <= toDate(%u)%s"
#define SAMPLES_OF(f)  (f)->day[0], (f)->day[1], (f)->windows.service

#define SUMS(kind) "sum(" kind "_bytes), sum(" kind "_blocks)"
#define ERRORS(kind)                                                                               \
	", sum(" kind "_bytes_variance), sum(" kind "_blocks_variance), sum(" kind "_samples)"

static bool fetch_part(struct fetch *f)
{
	static const char *const sums[ERROR_SUMS] = {SUMS("allocated"), SUMS("live")};
	static const char *const errors[ERROR_SUMS] = {ERRORS("allocated"), ERRORS("live")};

	const struct clickhouse_table table = about(f, "push UInt64");

	ask_about_nothing(f);
	for (size_t i = 0; i < f->moments.count; i++)
		if (is_in(&f->moments.moment[i], &f->part))
			ask_about_moment(f, &f->moments.moment[i]);
	return !f->asked.used ||
	       clickhouse_rows(
		   f->c, &table, take_sum, f,
		   "SELECT stack, %s%s FROM %s.samples PREWHERE push IN asked" SAMPLES_FORMAT
		   " GROUP BY stack FORMAT RowBinary",
		   sums[f->part.kind], f->part.certain ? errors[f->part.kind] : "",
		   f->c->url.database, SAMPLES_OF(f));
}

static bool take_choice(void *context, struct row_binary *r)
{
	struct fetch *f = context;
	uint32_t number = interner_find(&f->stacks, (struct key){{row_binary_fixed(r, 8)}});
	double bytes, blocks;

	for (size_t i = 0; i < ERROR_SUMS; i++) {
		bytes = row_binary_real(r) / f->processes;
		blocks = row_binary_real(r) / f->processes;
		if (number != INTERNER_NONE) {
			f->stack[number].error[i].choice_bytes = bytes;
			f->stack[number].error[i].choice_blocks = blocks;
		}
	}
	return true;
}

/*
 * The standard errors of each stack's sums that come from the choice of processes. Each process is taken
 * with the chance p; y is the figure of a taken process divided by p, and v the part of y's variance that
 * comes from sampling its allocations. Then the sum of (1 - p) (y^2 - v) over the taken processes
 * estimates the variance of the sum (D. Horvitz and D. Thompson, Journal of the American Statistical
 * Association 47, 1952).
 */
static bool fetch_choice(struct fetch *f)
{
	const struct part last = {.kind = ERROR_LIVE, .step = last_step(f)};
	const struct clickhouse_table table =
	    about(f, "push UInt64, one UInt64, share Float64, live UInt8");

	ask_about_nothing(f);
	for (const struct fleet_moment *m = f->moments.moment;
	     m < f->moments.moment + f->moments.count; m++) {
		ask_about_moment(f, m);
		bytes_put_fixed(&f->asked, m->one, 8);
		row_binary_put_real(&f->asked, m->share);
		bytes_put_fixed(&f->asked, is_in(m, &last), 1);
	}
	return clickhouse_rows(
	    f->c, &table, take_choice, f,
	    "SELECT stack, sqrt(greatest(0, sum(c * (ab * ab - abv)))), "
	    "sqrt(greatest(0, sum(c * (an * an - anv)))), "
	    "sqrt(greatest(0, sum(c * (lb * lb - lbv)))), "
	    "sqrt(greatest(0, sum(c * (ln * ln - lnv)))) FROM ("
	    "SELECT stack, one, max(1 - share) AS c, sum(allocated_bytes) AS ab, "
	    "sum(allocated_bytes_variance) AS abv, sum(allocated_blocks) AS an, "
	    "sum(allocated_blocks_variance) AS anv, sum(live_bytes * live) AS lb, "
	    "sum(live_bytes_variance * live) AS lbv, sum(live_blocks * live) AS ln, "
	    "sum(live_blocks_variance * live) AS lnv FROM %s.samples GLOBAL ALL INNER JOIN "
	    "(SELECT * FROM asked) AS chosen USING push PREWHERE push IN (SELECT push FROM "
	    "asked)" SAMPLES_FORMAT " GROUP BY stack, one) GROUP BY stack FORMAT RowBinary",
	    f->c->url.database, SAMPLES_OF(f));
}

static bool fetch_sums(struct fetch *f)
{
	uint32_t last = last_step(f);

	for (uint32_t step = last + 1; step-- > 0;)
		for (int kind = 0; kind < ERROR_SUMS; kind++) {
			f->part = (struct part){(enum trace_error_sum)kind, step,
						kind == ERROR_ALLOCATED || step == last};
			if (!fetch_part(f))
				return false;
		}
	return (!f->chosen || fetch_choice(f)) &&
	       fleet_moments_still_count(f->c, f->sql, &f->steps, &f->moments);
}

/* ---- rows of the trace ---- */

static uint64_t whole(double value)
{
	return value > 0 && value < (double)((uint64_t)1 << 61) ? (uint64_t)llround(value) : 0;
}

/* Whole numbers of a stack's sums up to a step, with blocks where there are bytes, and nothing live that was
 * not allocated. */
static struct heap_figures figures_of(const struct sum *sums)
{
	struct heap_figures n = {.live = whole(sums[ERROR_LIVE].blocks),
				 .live_bytes = whole(sums[ERROR_LIVE].bytes),
				 .all = whole(sums[ERROR_ALLOCATED].blocks),
				 .all_bytes = whole(sums[ERROR_ALLOCATED].bytes)};

	/* The estimate of blocks may be below one half when there are few samples of large blocks. */
	n.live += n.live_bytes && !n.live;
	if (n.all < n.live)
		n.all = n.live;
	n.all += n.all_bytes > n.live_bytes && n.all == n.live;
	return n;
}

/* What a step adds, so that rounding does not add up. */
static bool add_point(struct fetch *f, uint32_t step, const struct sum *sums, uint64_t *all,
		      uint64_t *all_bytes)
{
	struct heap_point point = {.step = step,
				   .live = whole(sums[ERROR_LIVE].blocks),
				   .live_bytes = whole(sums[ERROR_LIVE].bytes),
				   .all = whole(sums[ERROR_ALLOCATED].blocks) - *all,
				   .all_bytes = whole(sums[ERROR_ALLOCATED].bytes) - *all_bytes};

	*all += point.all;
	*all_bytes += point.all_bytes;
	heap_profile_point(&f->profile, &point);
	return !import_failed(&f->in) || clickhouse_no_memory(f->c);
}

/* The steps of a stack; sums: up to the last step. */
static bool add_points(struct fetch *f, const struct stack *stack, struct sum *sums)
{
	uint64_t all = 0, all_bytes = 0;
	const struct point *p = NULL;

	for (uint32_t at = stack->point; at; at = p->next) {
		p = &f->point[at - 1];
		sums[ERROR_ALLOCATED].bytes += p->of[ERROR_ALLOCATED].bytes;
		sums[ERROR_ALLOCATED].blocks += p->of[ERROR_ALLOCATED].blocks;
		sums[ERROR_LIVE] = p->of[ERROR_LIVE];
		if (f->steps.count && !add_point(f, p->step, sums, &all, &all_bytes))
			return false;
	}
	if (p && p->step != last_step(f))
		sums[ERROR_LIVE] = (struct sum){0};
	return true;
}

static bool add_stack(struct fetch *f, const struct stack *stack)
{
	struct sum sums[ERROR_SUMS] = {{0}};
	struct heap_figures figures;

	for (size_t i = 0; i < stack->depth; i++) {
		uint32_t frame = f->frame[f->path[stack->first + i]];

		if (frame != RECORDING_NONE)
			heap_profile_frame(&f->profile, frame);
	}
	if (!add_points(f, stack, sums))
		return false;
	figures = figures_of(sums);
	memcpy(figures.error, stack->error, sizeof(figures.error));
	for (size_t i = 0; i < ERROR_SUMS; i++) {
		f->bytes[i] += sums[i].bytes;
		f->variance[i] += stack->error[i].bytes_variance;
		f->choice[i] += stack->error[i].choice_bytes;
	}
	heap_profile_row(&f->profile, &figures);
	return !import_failed(&f->in) || clickhouse_no_memory(f->c);
}

static bool add_stacks(struct fetch *f)
{
	for (size_t i = 0; i < f->stacks.count; i++)
		if (!add_stack(f, &f->stack[i]))
			return false;
	return true;
}

/* Half of the 95 % interval. */
static double within(const struct fetch *f, enum trace_error_sum of)
{
	return 1.96 * sqrt(f->variance[of] + f->choice[of] * f->choice[of]);
}

/* The sums with their 95 % intervals, which the rows of the trace do not have. */
static bool describe(struct fetch *f, const char *name)
{
	const struct fleet_windows *w = &f->windows;
	struct recording *t = f->in.tables;

	if (!w->exact || f->chosen) {
		double interval = (double)w->interval / (f->chosen ? w->share : 1) / f->processes;

		f->profile.interval = interval > 1 ? whole(interval) : 2;
		f->profile.errors = true;
		f->profile.absent |= MAYFLY_ABSENT_SAMPLER; /* the processes may have had both */
	}
	t->info.start_real_ns = f->steps.count ? f->steps.begin_ns : w->begin_ns;
	t->info.duration_ns = f->steps.count * f->steps.length_ns;
	t->program = recording_name(t, name);
	import_describe(
	    &f->in,
	    "the %s of %llu process%s of %llu host%s: allocated %.4g MiB ±%.2g, live at "
	    "%s %.4g MiB ±%.2g",
	    f->processes == 1 ? "sum" : "mean", w->processes, w->processes == 1 ? "" : "es",
	    w->hosts, w->hosts == 1 ? "" : "s", f->bytes[ERROR_ALLOCATED] / 0x1p20,
	    within(f, ERROR_ALLOCATED) / 0x1p20,
	    f->steps.count ? "the end of the time" : "their ends", f->bytes[ERROR_LIVE] / 0x1p20,
	    within(f, ERROR_LIVE) / 0x1p20);
	return !t->failed || clickhouse_no_memory(f->c);
}

static void end(struct fetch *f)
{
	heap_profile_end(&f->profile);
	interner_free(&f->modules);
	interner_free(&f->frames);
	interner_free(&f->stacks);
	bytes_free(&f->asked);
	fleet_moments_free(&f->moments);
	free(f->point);
	free(f->stack);
	free(f->frame);
	free(f->path);
}

/* All that the answer consists of. */
static bool fetch_all(struct fetch *f, const struct fleet_filter *filter)
{
	if (!fleet_windows_fetch(f->c, f->sql, &f->windows) ||
	    (filter->per_process && !count_processes(f)) ||
	    (filter->every_ns &&
	     !fleet_steps_choose(f->c, &f->windows, filter->every_ns, &f->steps)) ||
	    !fleet_moments_fetch(f->c, f->sql, &f->steps, &f->moments))
		return false;
	f->chosen = f->windows.share > 0 && f->windows.share < 1;
	f->profile.steps = f->steps.count;
	f->profile.step_ns = f->steps.length_ns;
	return fetch_sums(f) && fetch_stacks(f) && fetch_frames(f);
}

/* f->moments.changed: it failed because the database has changed, and may be asked again. */
static bool fetch_once(struct fetch *f, const char *name, const struct fleet_filter *filter,
		       trace_sink *sink, void *context)
{
	bool good;
	int error;

	f->in = (struct import){.size = (size_t)1 << 30, .sink = sink, .context = context};
	import_begin(&f->in);
	good = !f->in.error || clickhouse_no_memory(f->c);
	if (good)
		heap_profile_begin(&f->profile, &f->in);
	good = good && fetch_all(f, filter) && add_stacks(f) && describe(f, name);
	if (good)
		heap_profile_write(&f->profile);
	error = import_end(&f->in);
	if (good && error)
		good = clickhouse_fail(f->c, "%s",
				       mayfly_error_text(error < 0 ? error : MAYFLY_E_MEMORY));
	end(f);
	return good;
}

bool fleet_fetch(struct clickhouse *c, const char *name, const struct fleet_filter *filter,
		 trace_sink *sink, void *context)
{
	const struct fetch begin = {.c = c, .sql = (const char *)filter->sql.at, .processes = 1};
	struct fetch f;
	bool good;

	clickhouse_patient(c);
	for (int tries = 0; tries < TRIES; tries++) {
		f = begin;
		good = fetch_once(&f, name, filter, sink, context);
		if (good || !f.moments.changed)
			break;
	}
	return good;
}
