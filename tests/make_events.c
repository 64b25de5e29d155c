/* SPDX-License-Identifier: Apache-2.0 */
/*
 * make_events KIND FILE: writes a trace with track events and labels that are known, for the tests
 * of the commands.
 *
 *	exact	 a server that handles 200 requests on two threads: see handle(); every allocation
 *	sampled	 the same at 64 KiB
 *	lossy	 the same as exact, with begins and ends that are missing, and some that were lost
 *	snapshots the same as counters of each half second
 *	gc	 what an eventlog of OCaml says: no blocks at all
 *	strange	 names and values that are broken or hostile
 *	labels	 the blocks of exact, without track events
 *	overwritten the same as exact, after OCaml's runtime has overwritten events
 *	hostile	 names that are orders to a terminal, everywhere
 *	many	 sampled, MANY of each: functions, lines, modules, threads, labels, sizes, lifetimes, spans,
 *		 instants, counters
 *	many-exact  the same, with every allocation
 *	few	 5 functions and lines, every allocation
 *	huge	 50,000 of them
 */
#include "trace/write/writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define US	      1000ll
#define MS	      1000000ll
#define INTERVAL_LOG2 16u

static struct recording *r;
static struct trace_writer *w;
static int64_t now;
static uint32_t thread, node;
static uint32_t labels; /* set of what is allocated */
static bool exact, tracks;

static uint32_t string(const char *text)
{
	return recording_string(r, text, strlen(text));
}

static void check(int error)
{
	if (!error)
		return;
	fprintf(stderr, "make_events: %s\n", mayfly_error_text(error));
	exit(1);
}

/* fields: the letter of each one's type and its name, separated by spaces: "uid tpath". */
static uint32_t type(uint32_t kind, const char *name, const char *category, const char *unit,
		     const char *fields)
{
	static const char letters[] = "iuftw"; /* in the order of enum mayfly_field_type */
	struct recording_track_type t = {
	    .kind = kind, .name = string(name), .category = string(category), .unit = string(unit)};

	while (*fields) {
		size_t length = strcspn(fields, " ");

		t.field[t.fields].type = (uint32_t)(strchr(letters, *fields) - letters);
		t.field[t.fields++].name = recording_string(r, fields + 1, length - 1);
		fields += length + (fields[length] == ' ');
	}
	return recording_track_type(r, &t);
}

static void track(uint32_t kind, uint32_t of_type, uint64_t first, uint64_t second)
{
	const uint64_t value[MAYFLY_TRACK_VALUES] = {first, second};
	struct trace_track event = {.time_ns = now,
				    .kind = kind,
				    .type = of_type,
				    .thread = thread,
				    .node = kind == MAYFLY_TRACK_INSTANT ? node : 0,
				    .value = value};

	if (tracks)
		check(trace_writer_track(w, &event));
}

static void begin(uint32_t of_type, uint64_t first, uint64_t second)
{
	track(MAYFLY_TRACK_BEGIN, of_type, first, second);
}

static void end(uint32_t of_type)
{
	track(MAYFLY_TRACK_END, of_type, 0, 0);
}

/* hits: of sampled traces. */
static void allocate(uint64_t size, uint32_t hits, bool leaked, uint32_t heap)
{
	struct trace_block block = {.size = size,
				    .node = node,
				    .thread = thread,
				    .hits = exact ? 0 : hits,
				    .interval_log2 = exact ? 0 : INTERVAL_LOG2,
				    .flags = (uint8_t)(heap << MAYFLY_FLAG_HEAP_SHIFT),
				    .labels = labels};
	uint64_t serial;

	check(trace_writer_alloc(w, now, &block, &serial));
	now += 10 * US;
	if (!leaked)
		check(trace_writer_free(w, now, serial, &block, thread, 0));
}

static uint32_t text_value(const char *text)
{
	return recording_event_text(r, text, strlen(text));
}

static uint32_t label_set(const char *request, const char *tenant)
{
	const struct recording_label label[] = {
	    {text_value("tenant"), text_value(tenant)},
	    {text_value("request"), text_value(request)},
	};

	return recording_labels(r, label, 2);
}

static uint32_t stack(const char *leaf)
{
	const char *const names[] = {"main", leaf};
	uint32_t at = 0;

	for (uint32_t i = 0; i < 2; i++) {
		struct recording_location l = {
		    string(names[i]), string("/src/server.c"), i + 1, false, 0, 0};
		uint32_t f = recording_frame(r, MAYFLY_FRAME_CODE, 0,
					     0x1000 + 0x10000 * i + 16 * leaf[0] + leaf[2]);

		if (!r->frame[f].locations) {
			r->frame[f].first_location = recording_location(r, &l);
			r->frame[f].locations = 1;
		}
		at = recording_node(r, at, f);
	}
	return at;
}

/* ---- the server ---- */

static uint32_t request, parse, render, reload, queue, resident, forked;

static void add_types(void)
{
	request = type(MAYFLY_TYPE_SPAN, "request", "", "", "uid tpath");
	parse = type(MAYFLY_TYPE_SPAN, "parse", "", "", "ubytes");
	render = type(MAYFLY_TYPE_SPAN, "render", "", "", "");
	reload = type(MAYFLY_TYPE_INSTANT, "reload", "", "", "tfile");
	queue = type(MAYFLY_TYPE_COUNTER, "queue", "", "requests", "ivalue");
	resident = type(MAYFLY_TYPE_COUNTER, "rss", "process", "bytes", "uvalue");
	forked = type(MAYFLY_TYPE_INSTANT, "fork", "process", "", "ichild");
}

/*
 * 3 ms and some: "request" with 1 KB of its own, "parse" with 4 blocks of 2000 bytes, "render" with
 * one of 3000, which every tenth request keeps, and with one of a pool.
 */
static void handle(uint32_t number)
{
	node = stack("handle");
	begin(request, number, text_value(number % 2 ? "/search" : "/index"));
	labels = label_set(number % 2 ? "search" : "index", number % 4 ? "small" : "large");
	allocate(1024, 1, false, 0);
	now += MS;
	begin(parse, 8000, 0);
	node = stack("parse");
	for (int i = 0; i < 4; i++)
		allocate(2000, 1, false, 0);
	now += MS + number * US;
	end(parse);
	begin(render, 0, 0);
	node = stack("render");
	allocate(3000, 1, number % 10 == 0, 0);
	allocate(512, 1, false, MAYFLY_HEAP_POOL);
	now += MS;
	end(render);
	labels = 0;
	end(request);
}

static void serve(void)
{
	add_types();
	node = stack("start");
	allocate(5000, 1, true, 0);
	for (uint32_t i = 0; i < 200; i++) {
		thread = i % 2;
		track(MAYFLY_TRACK_COUNT, queue, (uint64_t)(int64_t)(5 - (int)(i % 10)), 0);
		handle(i);
		if (i % 50 == 0) {
			node = stack("reload");
			track(MAYFLY_TRACK_INSTANT, reload, text_value("/etc/server.conf"), 0);
			track(MAYFLY_TRACK_COUNT, resident, (i + 10) << 20, 0);
		}
	}
	thread = 0;
	track(MAYFLY_TRACK_INSTANT, forked, (uint64_t)-4711, 0);
}

/* A request that does not end, ends without begins; 7 events were lost. */
static void serve_lossy(void)
{
	add_types();
	end(render);
	serve();
	end(parse);
	end(parse);
	begin(request, 200, text_value("/last"));
	r->info.dropped_events = 7;
}

/* Between requests the runtime has overwritten events, three times. */
static void serve_overwritten(void)
{
	uint32_t lost = type(MAYFLY_TYPE_INSTANT, "events_lost", "ocaml", "", "uwords");

	add_types();
	for (uint64_t i = 0; i < 3; i++) {
		track(MAYFLY_TRACK_INSTANT, lost, 100 + i, 0);
		now += MS;
	}
	serve();
}

/* ---- OCaml's eventlog ---- */

static void collect(void)
{
	static const char *const buckets[] = {"alloc 01", "alloc 02", "alloc 10-19", "alloc large"};
	uint32_t minor = type(MAYFLY_TYPE_SPAN, "minor", "ocaml", "", "");
	uint32_t copy = type(MAYFLY_TYPE_SPAN, "minor/copy", "ocaml", "", "");
	uint32_t major = type(MAYFLY_TYPE_SPAN, "major", "ocaml", "", "");
	uint32_t promoted = type(MAYFLY_TYPE_COUNTER, "minor/promoted", "ocaml", "", "uvalue");
	uint32_t asked =
	    type(MAYFLY_TYPE_COUNTER, "request_major/alloc_shr", "ocaml", "", "uvalue uevents");

	for (uint32_t i = 0; i < 100; i++) {
		now += 5 * MS;
		begin(minor, 0, 0);
		begin(copy, 0, 0);
		now += (i + 1) * (i + 1) * US / 4;
		end(copy);
		end(minor);
		track(MAYFLY_TRACK_COUNT, promoted, 100 * i, 0);
		track(MAYFLY_TRACK_COUNT, asked, 1, 1000);
		if (i % 10)
			continue;
		begin(major, 0, 0);
		now += (i + 1) * 100 * US;
		end(major);
	}
	for (uint32_t i = 0; i < 4; i++)
		track(MAYFLY_TRACK_COUNT,
		      type(MAYFLY_TYPE_COUNTER, buckets[i], "ocaml", "", "uvalue"), 4000 >> 3 * i,
		      0);
	r->info.absent = MAYFLY_ABSENT_ALLOCATIONS | MAYFLY_ABSENT_PEAK | MAYFLY_ABSENT_LIVE |
			 MAYFLY_ABSENT_ALLOCATED | MAYFLY_ABSENT_TEMPORARY |
			 MAYFLY_ABSENT_LIFETIMES | MAYFLY_ABSENT_SIZES | MAYFLY_ABSENT_ERRORS |
			 MAYFLY_ABSENT_BLOCKS | MAYFLY_ABSENT_START | MAYFLY_ABSENT_COMMAND |
			 MAYFLY_ABSENT_MODULES;
	r->info.interval_bytes = 1;
	r->note = string("converted from an eventlog");
}

/* ---- strange ---- */

static void say_strange(void)
{
	static const char *const names[] = {"escape\033[2J", "two\nlines",	"",
					    "\xff\xfe",	     "quote \" and \\", "résumé"};
	struct recording_label label = {text_value("ke\ny"), text_value("val\"ue\x1b[1m")};

	node = stack("strange");
	labels = recording_labels(r, &label, 1);
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		uint32_t span = type(MAYFLY_TYPE_SPAN, names[i], names[i], "", "t\xff\"f tpath");
		uint32_t counter = type(MAYFLY_TYPE_COUNTER, names[i], names[i], names[i], "fx");

		begin(span, text_value(names[i]), text_value(names[5]));
		allocate(100, 1, true, 0);
		end(span);
		track(MAYFLY_TRACK_COUNT, counter, i % 2 ? 0x7ff8000000000000 : UINT64_MAX / 3, 0);
	}
}

/* ---- hostile ---- */

/* Each name in each place that a name can have. */
static void say_hostile(void)
{
	static const char *const names[] = {"\033]0;title\a\033[31mred\033[2J",
					    "\xe2\x80\xae"
					    "gnp.exe\xe2\x80\xac",
					    "\xc2\x9b"
					    "31mC1",
					    "\x9b"
					    "31mbyte",
					    "carriage\rreturn",
					    "\tTAB\nFORGED,\"line\"",
					    "\x7f\x08\x08"
					    "delete",
					    "\xe2\x81\xa6isolate\xd8\x9c"};
	const size_t count = sizeof(names) / sizeof(*names);

	r->program = string(names[0]);
	r->command = calloc(count, sizeof(*r->command));
	for (size_t i = 0; i < count; i++)
		r->command[r->command_count++] = string(names[i]);
	r->note = string(names[5]);
	for (uint32_t i = 0; i < count; i++) {
		const struct recording_module m = {.path = string(names[i]),
						   .problem = string(names[i]),
						   .start = 0x10000000ull * (i + 1),
						   .end = 0x10000000ull * (i + 1) + 4096,
						   .to_ns = INT64_MAX};
		struct recording_location l = {string(names[i]), string(names[i]), i, false, 0, 0};
		struct recording_label label = {text_value(names[i]), text_value(names[i])};
		uint32_t f =
		    recording_frame(r, MAYFLY_FRAME_CODE, recording_module(r, &m), m.start);
		uint32_t span = type(MAYFLY_TYPE_SPAN, names[i], names[i], "", "tpath");
		uint32_t instant = type(MAYFLY_TYPE_INSTANT, names[i], names[i], "", "tpath");
		uint32_t counter =
		    type(MAYFLY_TYPE_COUNTER, names[i], names[i], names[i], "uvalue");

		r->frame[f].first_location = recording_location(r, &l);
		r->frame[f].locations = 1;
		node = recording_node(r, node, f);
		thread = recording_thread(r, 5000 + i, string(names[i]));
		labels = recording_labels(r, &label, 1);
		begin(span, text_value(names[i]), 0);
		for (uint32_t k = 0; k < 5; k++)
			allocate(100 + i, 1, k, 0);
		now += US;
		end(span);
		track(MAYFLY_TRACK_INSTANT, instant, text_value(names[i]), 0);
		track(MAYFLY_TRACK_COUNT, counter, i, 0);
	}
}

/* ---- many ---- */

#define MANY 3000u

static const char *numbered(const char *word, uint32_t number)
{
	static char text[128];

	snprintf(text, sizeof(text), "%s_%04u_of_a_long_name_that_says_what_it_is", word, number);
	return text;
}

static uint32_t numbered_node(uint32_t number)
{
	const uint64_t start = 0x10000000ull + 0x10000ull * number;
	const struct recording_module m = {.path = string(numbered("/opt/server/lib", number)),
					   .start = start,
					   .end = start + 0x10000,
					   .to_ns = INT64_MAX};
	struct recording_location l = {
	    string(numbered("function", number)), string("/src/many.c"), number + 1, false, 0, 0};
	uint32_t f = recording_frame(r, MAYFLY_FRAME_CODE, recording_module(r, &m), start + 0x100);

	r->frame[f].first_location = recording_location(r, &l);
	r->frame[f].locations = 1;
	return recording_node(r, stack("main"), f);
}

static void say_many(void)
{
	for (uint32_t i = 0; i < MANY; i++) {
		struct recording_label label = {text_value("tenant"),
						text_value(numbered("tenant", i))};
		uint32_t span = type(MAYFLY_TYPE_SPAN, numbered("span", i), "many", "", "");
		uint32_t instant = type(MAYFLY_TYPE_INSTANT, numbered("instant", i), "", "", "");
		uint32_t counter =
		    type(MAYFLY_TYPE_COUNTER, numbered("counter", i), "", "bytes", "uvalue");

		node = numbered_node(i);
		thread = recording_thread(r, 5000 + i, string(numbered("t", i)));
		labels = recording_labels(r, &label, 1);
		begin(span, 0, 0);
		for (uint32_t k = 0; k < 10 + i % 30; k++)
			allocate(16 * (i + 1ull), 1, i % 2, 0);
		now += i * US;
		end(span);
		track(MAYFLY_TRACK_INSTANT, instant, 0, 0);
		track(MAYFLY_TRACK_COUNT, counter, 1000000ull * i, 0);
	}
}

/* ---- few and huge ---- */

#define FUNCTIONS_OF_MODULE 500u

static uint32_t function_node(uint32_t number)
{
	const uint32_t at = number / FUNCTIONS_OF_MODULE;
	const uint64_t start = 0x10000000ull + 0x100000ull * at;
	const struct recording_module m = {.path = string(numbered("/opt/server/lib", at)),
					   .start = start,
					   .end = start + 0x100000,
					   .to_ns = INT64_MAX};
	struct recording_location l = {string(numbered("a_namespace::function", number)),
				       string("/src/huge.c"),
				       number + 1,
				       false,
				       0,
				       0};
	uint32_t f = recording_frame(r, MAYFLY_FRAME_CODE, recording_module(r, &m),
				     start + 0x100 + 16 * (number % FUNCTIONS_OF_MODULE));

	r->frame[f].first_location = recording_location(r, &l);
	r->frame[f].locations = 1;
	return recording_node(r, stack("main"), f);
}

static void say_functions(uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		node = function_node(i);
		allocate(16 * (i % 1000 + 1), 1, true, 0);
		now += US;
	}
}

static void say_few(void)
{
	say_functions(5);
}

static void say_huge(void)
{
	say_functions(50000);
}

/* ---- all ---- */

static void set_info(void)
{
	const struct recording_module m = {
	    .path = string("/opt/server"), .start = 0x400000, .end = 0x500000, .to_ns = INT64_MAX};

	recording_thread(r, 4242, string("server"));
	recording_thread(r, 4250, string("worker"));
	recording_module(r, &m);
	r->info.pid = 4242;
	r->info.parent_pid = 4241;
	r->info.start_real_ns = 1700000000123456789;
	r->info.interval_bytes = exact ? 1 : 1u << INTERVAL_LOG2;
	r->info.ending = MAYFLY_END_EXITED;
	r->info.complete = true;
	r->program = string("/opt/server");
}

static const struct kind {
	const char *name;
	void (*tell)(void);
	bool exact, tracks;
	int64_t snapshot_ns;
} kinds[] = {
    {"exact", serve, true, true, 0},	     {"sampled", serve, false, true, 0},
    {"lossy", serve_lossy, true, true, 0},   {"snapshots", serve, true, true, 500 * MS},
    {"gc", collect, true, true, 0},	     {"strange", say_strange, true, true, 0},
    {"labels", serve, true, false, 0},	     {"overwritten", serve_overwritten, true, true, 0},
    {"many", say_many, false, true, 0},	     {"many-exact", say_many, true, true, 0},
    {"hostile", say_hostile, true, true, 0}, {"few", say_few, true, false, 0},
    {"huge", say_huge, true, false, 0},
};

static int write_file(const char *path, const struct kind *kind)
{
	const struct trace_writer_options options = {
	    .mode = exact ? MAYFLY_EXACT : MAYFLY_SAMPLED,
	    .interval_log2 = exact ? 0 : INTERVAL_LOG2,
	    .snapshot_ns = kind->snapshot_ns,
	};
	struct trace_buffer buffer = {0};
	FILE *file = fopen(path, "wb");

	w = trace_writer_new(&options, r, trace_buffer_sink, &buffer);
	if (!w)
		return 1;
	kind->tell();
	r->info.duration_ns = now;
	check(trace_writer_finish(w));
	trace_writer_free_all(w);
	if (!file || fwrite(buffer.bytes, 1, buffer.used, file) != buffer.used ||
	    fclose(file) != 0) {
		perror(path);
		return 1;
	}
	free(buffer.bytes);
	return 0;
}

int main(int argc, char **argv)
{
	const struct kind *kind = NULL;
	int status;

	for (size_t i = 0; argc == 3 && i < sizeof(kinds) / sizeof(*kinds); i++)
		if (strcmp(argv[1], kinds[i].name) == 0)
			kind = &kinds[i];
	if (!kind) {
		fprintf(stderr, "usage: make_events exact|sampled|lossy|snapshots|gc|strange|"
				"labels|overwritten FILE\n");
		return 2;
	}
	exact = kind->exact;
	tracks = kind->tracks;
	r = recording_new();
	if (!r)
		return 1;
	set_info();
	status = write_file(argv[2], kind);
	recording_free(r);
	return status;
}
