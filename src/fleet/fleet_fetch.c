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
#include "fleet/row_binary.h"
#include "format/numbering.h"

#define QUESTION_BYTES 65536

struct fetch {
	struct clickhouse *c;
	const struct server_url *url;
	char *why;
	char *counted; /* one on samples and windows: the windows that count */
	char *last;    /* of those the last one of each process, which has what was live */
	struct heap_profile profile;
	struct numbering modules, frames; /* by path, by number in the database */
	uint32_t *frame;		  /* of the trace, by number in `frames` */
	size_t frame_room;
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

static bool fetch_frames(struct fetch *f)
{
	size_t size;
	char *answer =
	    ask(f, &size,
		"SELECT frame, any(function), any(file), any(line), any(module), any(address) "
		"FROM %s.frames WHERE frame IN (SELECT arrayJoin(frames) FROM %s.stacks WHERE "
		"stack IN (SELECT stack FROM %s.samples WHERE %s)) GROUP BY frame "
		"FORMAT RowBinary",
		f->url->database, f->url->database, f->url->database, f->counted);
	struct row_binary r = {(uint8_t *)answer, (uint8_t *)answer + (answer ? size : 0), false};
	bool good = answer != NULL;

	while (good && r.at < r.end)
		good = add_frame(f, &r);
	free(answer);
	return good;
}

/* ---- sums ---- */

static uint64_t whole(double value)
{
	return value > 0 && value < (double)((uint64_t)1 << 61) ? (uint64_t)llround(value) : 0;
}

static bool add_stack(struct fetch *f, struct row_binary *r)
{
	size_t depth = row_binary_length(r, 8);
	struct heap_figures figures = {0};

	for (size_t i = 0; i < depth; i++) {
		uint32_t number =
		    numbering_find(&f->frames, (struct key){{row_binary_fixed(r, 8)}});

		if (number != NUMBERING_NONE && heap_profile_frame(&f->profile, f->frame[number]))
			return no_memory(f);
	}
	figures.all_bytes = whole(row_binary_real(r));
	figures.all = whole(row_binary_real(r));
	figures.live_bytes = whole(row_binary_real(r));
	figures.live = whole(row_binary_real(r));
	for (size_t i = 0; i < ERROR_SUMS; i++) {
		figures.error[i].bytes_variance = row_binary_real(r);
		figures.error[i].blocks_variance = row_binary_real(r);
		figures.error[i].samples = row_binary_fixed(r, 8);
	}
	/* Bytes need a block: of few samples of large blocks the estimate may be below one half. */
	figures.live += figures.live_bytes && !figures.live;
	if (figures.all < figures.live)
		figures.all = figures.live;
	figures.all += figures.all_bytes > figures.live_bytes && figures.all == figures.live;
	return !heap_profile_row(&f->profile, &figures) || no_memory(f);
}

static bool fetch_stacks(struct fetch *f)
{
	size_t size;
	char *answer = ask(
	    f, &size,
	    "SELECT frames, ab, an, lb, ln, abv, anv, toUInt64(asm), lbv, lnv, toUInt64(lsm) FROM ("
	    "SELECT stack, sum(allocated_bytes) AS ab, sum(allocated_blocks) AS an, "
	    "sum(live_bytes * l) AS lb, sum(live_blocks * l) AS ln, "
	    "sum(allocated_bytes_variance) AS abv, sum(allocated_blocks_variance) AS anv, "
	    "sum(allocated_samples) AS asm, sum(live_bytes_variance * l) AS lbv, "
	    "sum(live_blocks_variance * l) AS lnv, sum(live_samples * l) AS lsm "
	    "FROM (SELECT *, (%s) AS l FROM %s.samples WHERE %s) GROUP BY stack"
	    ") ANY INNER JOIN (SELECT stack, frames FROM %s.stacks WHERE stack IN (SELECT "
	    "stack FROM %s.samples WHERE %s)) USING stack FORMAT RowBinary",
	    f->last, f->url->database, f->counted, f->url->database, f->url->database, f->counted);
	struct row_binary r = {(uint8_t *)answer, (uint8_t *)answer + (answer ? size : 0), false};
	bool good = answer != NULL;

	while (good && r.at < r.end)
		good = add_stack(f, &r);
	if (good && r.short_)
		good = snprintf(f->why, CLICKHOUSE_WHY, "its answer is cut off") < 0;
	free(answer);
	return good;
}

/* ---- what they are of ---- */

/* What the windows say of themselves. */
struct windows {
	unsigned long long count, hosts, exact, interval;
	long long begin_ns, end_ns;
};

static bool fetch_windows(struct fetch *f, struct windows *w)
{
	char *answer = ask(f, NULL,
			   "SELECT uniqExact(process), uniqExact(host), min(exact), "
			   "max(interval_bytes), min(begin_ns), "
			   "max(end_ns) FROM %s.windows WHERE %s",
			   f->url->database, f->counted);
	bool good = answer && sscanf(answer, "%llu %llu %llu %llu %lld %lld", &w->count, &w->hosts,
				     &w->exact, &w->interval, &w->begin_ns, &w->end_ns) == 6;

	if (answer && !good)
		snprintf(f->why, CLICKHOUSE_WHY, "its answer has another form than was asked for");
	free(answer);
	if (good && !w->count)
		snprintf(f->why, CLICKHOUSE_WHY, "it has no windows like that");
	return good && w->count;
}

/* The sums with their 95 % intervals, which the rows of the trace do not have. */
static bool describe(struct fetch *f, const char *name)
{
	struct recording *t = f->profile.tables;
	struct windows w;
	double allocated, allocated_error, live, live_error;
	char *answer;
	bool good;

	if (!fetch_windows(f, &w))
		return false;
	answer = ask(f, NULL,
		     "SELECT sum(allocated_bytes), 1.96 * sqrt(sum(allocated_bytes_variance)), "
		     "sum(live_bytes * (%s)), 1.96 * sqrt(sum(live_bytes_variance * (%s))) "
		     "FROM %s.samples WHERE %s",
		     f->last, f->last, f->url->database, f->counted);
	good = answer && sscanf(answer, "%lf %lf %lf %lf", &allocated, &allocated_error, &live,
				&live_error) == 4;
	if (answer && !good)
		snprintf(f->why, CLICKHOUSE_WHY, "its answer has another form than was asked for");
	free(answer);
	if (!good)
		return false;
	if (!w.exact) {
		f->profile.interval = w.interval > 1 ? w.interval : 2;
		f->profile.errors = true;
	}
	t->info.start_real_ns = w.begin_ns;
	t->program = recording_string(t, name, strlen(name));
	return !import_describe(
		   t, "",
		   "the sum of %llu process%s of %llu host%s: allocated %.4g MB ±%.2g, live at "
		   "their ends %.4g MB ±%.2g",
		   w.count, w.count == 1 ? "" : "es", w.hosts, w.hosts == 1 ? "" : "s",
		   allocated / 0x1p20, allocated_error / 0x1p20, live / 0x1p20,
		   live_error / 0x1p20) ||
	       no_memory(f);
}

bool fleet_fetch(struct clickhouse *c, const struct server_url *url, const char *name,
		 const char *sql, trace_sink *sink, void *context, char *why)
{
	struct fetch f = {.c = c, .url = url, .why = why};
	struct import_options options = {0};
	int error = 0;
	bool good;

	*why = 0;
	good = heap_profile_begin(&f.profile, (size_t)1 << 30) &&
	       asprintf(&f.counted,
			"push IN (SELECT min(push) FROM %s.windows WHERE %s GROUP BY window)",
			url->database, sql) > 0 &&
	       asprintf(&f.last,
			"push IN (SELECT argMax(p, e) FROM (SELECT min(push) AS p, argMin(end_ns, "
			"push) AS e, any(process) AS o FROM %s.windows WHERE %s GROUP BY window) "
			"GROUP BY o)",
			url->database, sql) > 0;
	if (!good)
		no_memory(&f);
	good = good && describe(&f, name) && fetch_frames(&f) && fetch_stacks(&f);
	if (good)
		error = heap_profile_write(&f.profile, &options, sink, context);
	if (error)
		snprintf(why, CLICKHOUSE_WHY, "%s",
			 mayfly_error_text(error < 0 ? error : MAYFLY_E_MEMORY));
	heap_profile_end(&f.profile);
	numbering_free(&f.modules);
	numbering_free(&f.frames);
	free(f.frame);
	free(f.counted);
	free(f.last);
	return good && !error;
}
