/* SPDX-License-Identifier: Apache-2.0 */
/* Eventlogs of OCaml's runtime, made here: every event is in the trace, at its time and with its
 * name; requests that were joined are as many as they were; files of forked processes are put in
 * order; what is damaged or cut off does no harm. */
#include <byteswap.h>
#include <inttypes.h>
#include <string.h>

#include "convert/import/imports.h"
#include "ocaml_events/eventlog.h"

#include "test.h"

/* ---- a file ---- */

#define BYTES_MAX 4000000

struct file {
	uint8_t *data;
	size_t size;
	bool swapped;
};

static void put(struct file *f, uint64_t value, size_t bytes)
{
	if (f->swapped)
		value = bswap_64(value) >> (64 - 8 * bytes);
	if (f->size + bytes > BYTES_MAX)
		abort();
	memcpy(f->data + f->size, &value, bytes);
	f->size += bytes;
}

static struct file begin(bool swapped)
{
	struct file f = {.data = malloc(BYTES_MAX), .swapped = swapped};

	put(&f, 0xc1fc1fc1, 4);
	put(&f, 1, 2);
	put(&f, 0, 2);
	return f;
}

static void add(struct file *f, uint64_t time, uint32_t pid, uint32_t kind, uint64_t number,
		uint64_t value)
{
	put(f, time, 8);
	put(f, pid, 4);
	put(f, kind, 4);
	if (kind >= EVENTLOG_COUNTER)
		put(f, value, 8);
	if (kind == EVENTLOG_ALLOC)
		put(f, number, 1);
	else if (kind < EVENTLOG_FLUSH)
		put(f, number, 2);
}

/* ---- what is made of it ---- */

struct made {
	struct trace_buffer bytes;
	struct import_report report;
	struct mayfly_trace *trace;
	const struct mayfly_info *info;
	struct mayfly_track_cursor *cursor;
	int error;
};

static struct made import(const struct file *f, const char *metadata)
{
	struct made m = {.report = {"", ""}};
	/* Exactly as many bytes as there are, for the sanitizers. */
	uint8_t *exact = malloc(f->size + !f->size);
	struct import in = {
	    .size = f->size,
	    .options = {.beside = metadata, .beside_size = metadata ? strlen(metadata) : 0},
	    .sink = trace_buffer_sink,
	    .context = &m.bytes};

	memcpy(exact, f->data, f->size);
	in.data = exact;
	m.error = import_run(&in, eventlog_import);
	m.report = in.report;
	free(exact);
	if (m.error)
		return m;
	CHECK(mayfly_trace_open(m.bytes.bytes, m.bytes.used, &m.trace) == 0);
	if (m.trace) {
		m.info = mayfly_trace_info(m.trace);
		CHECK(mayfly_track_cursor_open(m.trace, &m.cursor) == 0);
	}
	return m;
}

static void drop(struct made *m)
{
	mayfly_track_cursor_close(m->cursor);
	mayfly_trace_close(m->trace);
	free(m->bytes.bytes);
}

static bool next(struct made *m, struct mayfly_track_event *e)
{
	return m->cursor && mayfly_track_cursor_next(m->cursor, e) == 1;
}

static const struct mayfly_track_type *type_of(const struct made *m,
					       const struct mayfly_track_event *e)
{
	return mayfly_trace_track_type(m->trace, e->type);
}

static void check_event(struct made *m, int64_t time, uint32_t kind, const char *name,
			uint64_t value)
{
	struct mayfly_track_event e;
	const struct mayfly_track_type *t;

	if (!next(m, &e)) {
		CHECK(!"there is an event", "%s at %" PRId64, name, time);
		return;
	}
	t = type_of(m, &e);
	CHECK(e.time_ns == time, "%" PRId64 ", expected %" PRId64 " %s", e.time_ns, time, name);
	CHECK(e.kind == kind, "%u, expected %u of %s", e.kind, kind, name);
	CHECK(t && strcmp(t->name, name) == 0, "%s, expected %s", t ? t->name : "none", name);
	CHECK(t && strcmp(t->category, "ocaml") == 0);
	if (kind == MAYFLY_TRACK_COUNT)
		CHECK(e.values >= 1 && e.value[0].u == value, "%" PRIu64 ", expected %" PRIu64,
		      e.value[0].u, value);
}

static void check_end(struct made *m)
{
	struct mayfly_track_event e;

	CHECK(!next(m, &e));
}

/* ---- tests ---- */

static void write_plain(struct file *f)
{
	add(f, 1000, 77, EVENTLOG_ENTRY, 24, 0);
	add(f, 1500, 77, EVENTLOG_ENTRY, 27, 0);
	add(f, 1501, 77, EVENTLOG_EXIT, 27, 0);
	add(f, 1501, 77, EVENTLOG_COUNTER, 12, UINT64_MAX);
	add(f, 2000, 77, EVENTLOG_EXIT, 24, 0);
	add(f, 2001, 77, EVENTLOG_ENTRY, 31, 0);
	add(f, 2002, 77, EVENTLOG_EXIT, 31, 0);
	add(f, 2003, 77, EVENTLOG_ALLOC, 19, 5);
	add(f, 2004, 77, EVENTLOG_ALLOC, 0, 6);
	add(f, 2005, 77, EVENTLOG_FLUSH, 0, 95);
	add(f, 3000, 77, EVENTLOG_ENTRY, 30, 0);
}

static void check_plain(struct made *m, const char *minor, const char *unknown)
{
	check_event(m, 1000, MAYFLY_TRACK_BEGIN, minor, 0);
	check_event(m, 1500, MAYFLY_TRACK_BEGIN, "minor/copy", 0);
	check_event(m, 1501, MAYFLY_TRACK_END, "minor/copy", 0);
	check_event(m, 1501, MAYFLY_TRACK_COUNT, "minor/promoted", UINT64_MAX);
	check_event(m, 2000, MAYFLY_TRACK_END, minor, 0);
	check_event(m, 2001, MAYFLY_TRACK_BEGIN, unknown, 0);
	check_event(m, 2002, MAYFLY_TRACK_END, unknown, 0);
	check_event(m, 2003, MAYFLY_TRACK_COUNT, "alloc large", 5);
	check_event(m, 2004, MAYFLY_TRACK_COUNT, "bucket 0", 6);
	check_event(m, 2005, MAYFLY_TRACK_BEGIN, "eventlog/flush", 0);
	check_event(m, 2100, MAYFLY_TRACK_END, "eventlog/flush", 0);
	check_event(m, 3000, MAYFLY_TRACK_BEGIN, "explicit/gc_major_slice", 0);
	check_end(m);
}

static void every_event_in_both_byte_orders(void)
{
	for (int swapped = 0; swapped < 2; swapped++) {
		struct file f = begin(swapped);
		struct made m;

		write_plain(&f);
		CHECK(eventlog_recognise(f.data, f.size));
		CHECK(import_recognise(f.data, f.size)->convert == eventlog_import);
		m = import(&f, NULL);
		CHECK(m.error == 0, "%d", m.error);
		CHECK(!*m.report.problem, "%s", m.report.problem);
		check_plain(&m, "minor", "phase 31");
		CHECK(m.info && m.info->pid == 77 && m.info->threads == 1);
		CHECK(m.info && m.info->duration_ns == 3000 && m.info->complete);
		CHECK(m.info && m.info->samples == 0 && m.info->track_events == 12);
		drop(&m);
		free(f.data);
	}
}

static void names_of_the_metadata(void)
{
	static const char metadata[] =
	    "/* CTF 1.8 */ trace { byte_order = le; };\n"
	    "enum other : uint8_t { \"no\" = 24 };\n"
	    "/* enum gc_phase : uint16_t { \"comment\" = 24 }; */ // enum gc_phase { a }\n"
	    "enum gc_phase : integer { size = 16; } {\n"
	    "\t\"compact\" = 0, second, \"max\" = 99999999999999999999, \"tail\",\n"
	    "\t\"minor/copy\" = 0x1b, \"explicit/gc_major_slice\" = 036,\n"
	    "\t\"my minor\" = 24 ... 26, \"late\" = 31, };\n"
	    "event { fields := struct { enum gc_phase phase; }; };\n";
	static const char weak[] =
	    "enum gc_phase : uint16_t { \"my minor\" = 24 ... 26, \"minor/cop";
	struct file f = begin(false);
	struct made m;

	write_plain(&f);
	m = import(&f, "enum gc_phase : uint16_t { \"minor/copy\" = 27, \"a\" = 24 ... 26, "
		       "\"explicit/gc_major_slice\" = 30, \"late\"}");
	check_plain(&m, "a", "late");
	drop(&m);
	m = import(&f, metadata);
	check_plain(&m, "my minor", "late");
	drop(&m);
	m = import(&f, "binary \xff\x01 \"open");
	check_plain(&m, "minor", "phase 31");
	drop(&m);
	m = import(&f, weak);
	check_event(&m, 1000, MAYFLY_TRACK_BEGIN, "my minor", 0);
	drop(&m);
	free(f.data);
}

/* Requests are joined, all else is not; sums and numbers are those of the file. */
static void requests_are_counted(void)
{
	struct file f = begin(false);
	uint64_t count = 0, total = 0, events = 0, other = 0, ends = 0;
	struct mayfly_track_event e;
	struct made m;

	for (uint64_t i = 0; i < 100000; i++) {
		uint64_t value = i % 1000 == 999 ? 2 : 1;

		add(&f, i * 100, 5, EVENTLOG_COUNTER, 13, value);
		total += value;
		if (i % 5000 == 0)
			add(&f, i * 100, 5, EVENTLOG_COUNTER, 12, 1);
		if (i % 7000 == 0) {
			add(&f, i * 100 + 1, 5, EVENTLOG_ENTRY, 24, 0);
			add(&f, i * 100 + 2, 5, EVENTLOG_EXIT, 24, 0);
		}
	}
	m = import(&f, NULL);
	CHECK(m.error == 0);
	while (next(&m, &e)) {
		const struct mayfly_track_type *t = type_of(&m, &e);

		if (strcmp(t->name, "request_major/alloc_shr") != 0) {
			other += t->kind == MAYFLY_TYPE_COUNTER;
			ends += e.kind == MAYFLY_TRACK_END;
			continue;
		}
		CHECK(t->fields == 2 && strcmp(t->field[1].name, "events") == 0);
		events++;
		count += e.value[1].u;
		total -= e.value[0].u * e.value[1].u;
		/* None of those that were joined is beyond the next event. */
		CHECK(e.value[1].u <= 1000);
	}
	CHECK(count == 100000, "%" PRIu64, count);
	CHECK(total == 0);
	CHECK(other == 20 && ends == 15);
	CHECK(events >= 200 && events < 400, "%" PRIu64, events);
	CHECK(m.info && m.info->duration_ns == 9999900);
	drop(&m);
	free(f.data);
}

/* What a process writes when its buffer is full. */
static void write_turn(struct file *f, uint64_t value, uint64_t from, uint64_t to)
{
	for (uint64_t t = from; t <= to; t += 10)
		add(f, t, 9, EVENTLOG_COUNTER, 0, value);
	add(f, to + 1, 9, EVENTLOG_FLUSH, 0, 2);
}

/* Parent and child write in turns, with one number, each what is older than the other's. */
static void forks_are_put_in_order(void)
{
	struct file f = begin(false);
	struct mayfly_track_event e;
	int64_t last = 0;
	int got[3] = {0};
	struct made m;

	write_turn(&f, 1, 0, 100);
	write_turn(&f, 2, 65, 95);
	write_turn(&f, 1, 110, 200);
	write_turn(&f, 2, 105, 305);
	write_turn(&f, 1, 210, 300);
	m = import(&f, NULL);
	CHECK(m.error == 0 && m.info && m.info->complete);
	while (next(&m, &e)) {
		const struct mayfly_thread *t = mayfly_trace_thread(m.trace, e.thread);

		CHECK(e.time_ns >= last);
		last = e.time_ns;
		CHECK(t->tid == 9);
		if (e.kind != MAYFLY_TRACK_COUNT)
			continue;
		CHECK((e.value[0].u == 2) == (strcmp(t->name, "process 2") == 0), "at %" PRId64,
		      e.time_ns);
		got[e.value[0].u]++;
	}
	CHECK(got[1] == 31 && got[2] == 25, "%d %d", got[1], got[2]);
	drop(&m);
	free(f.data);
}

/* A process begins to write in the middle of an event of another one: every event but the torn one
 * is there, whatever bytes are in between. */
static void writers_at_once_lose_one_event(void)
{
	for (size_t torn = 1; torn < 26; torn++) {
		struct file f = begin(false);
		struct mayfly_track_event e;
		struct made m;
		int got = 0;

		for (uint64_t i = 0; i < 100; i++)
			add(&f, 1000 + i, 4711, EVENTLOG_COUNTER, 0, i);
		add(&f, 1100, 4711, EVENTLOG_COUNTER, 0, 1000);
		f.size -= 26 - torn;
		for (uint64_t i = 100; i < 200; i++)
			add(&f, 500 + i, 4711, EVENTLOG_COUNTER, 0, i);
		m = import(&f, NULL);
		CHECK(m.error == 0 && !*m.report.problem, "%zu", torn);
		while (next(&m, &e)) {
			CHECK(e.value[0].u < 200 && e.time_ns < 1100,
			      "%zu bytes of it, %" PRIu64 " at %" PRId64, torn, e.value[0].u,
			      e.time_ns);
			got++;
		}
		/* The event behind the torn one may be taken for its rest. */
		CHECK(got >= 198, "%zu: %d", torn, got);
		CHECK(m.info && !m.info->complete);
		drop(&m);
		free(f.data);
	}
}

static void processes_are_threads(void)
{
	struct file f = begin(false);
	struct mayfly_track_event e;
	struct made m;
	uint64_t i = 0;

	for (i = 0; i < 15000; i++)
		add(&f, i, (uint32_t)(i / 5 * 7919 % 1000 + 1), EVENTLOG_COUNTER, 0,
		    i / 5 * 7919 % 1000 + 1);
	m = import(&f, NULL);
	CHECK(m.error == 0 && m.info && m.info->threads == 1000);
	for (i = 0; next(&m, &e); i++)
		CHECK(mayfly_trace_thread(m.trace, e.thread)->tid == e.value[0].u);
	CHECK(i == 15000);
	drop(&m);
	for (i = 0; i < 25000; i++)
		add(&f, 15000 + i, (uint32_t)(i / 5 + 1), EVENTLOG_COUNTER, 0, 0);
	m = import(&f, NULL);
	CHECK(m.error == MAYFLY_E_TOO_LARGE, "%d", m.error);
	drop(&m);
	free(f.data);
}

static void nothing_but_events(void)
{
	struct file f = begin(false);
	struct mayfly_result *result;
	struct mayfly_query q;
	struct made m;

	m = import(&f, NULL); /* paused from its start to its end */
	CHECK(m.error == 0 && m.info && m.info->complete && !m.info->track_events);
	drop(&m);
	write_plain(&f);
	m = import(&f, NULL);
	for (uint32_t metric = MAYFLY_PEAK; metric <= MAYFLY_TEMPORARY; metric++) {
		mayfly_query_defaults(&q);
		q.metric = metric;
		CHECK(mayfly_query_absent(m.trace, &q) & MAYFLY_ABSENT_ALLOCATIONS);
		CHECK(mayfly_query_run(m.trace, &q, &result) == MAYFLY_E_ABSENT);
	}
	drop(&m);
	free(f.data);
}

static void cut_off_anywhere(void)
{
	struct file f = begin(false);
	size_t whole;
	uint64_t last = 0;

	write_plain(&f);
	whole = f.size;
	for (f.size = 0; f.size < whole; f.size++) {
		struct made m = import(&f, NULL);

		if (f.size < 8) {
			CHECK(m.error == MAYFLY_E_NOT_A_TRACE);
			CHECK(!eventlog_recognise(f.data, f.size));
			continue;
		}
		CHECK(m.error == 0, "%zu bytes", f.size);
		CHECK(m.info && m.info->track_events >= last && m.info->track_events <= last + 2);
		CHECK(m.info && m.info->complete == !*m.report.problem);
		CHECK(!*m.report.problem || strstr(m.report.problem, "cut off"));
		last = m.info ? m.info->track_events : 0;
		drop(&m);
	}
	CHECK(last == 11, "%" PRIu64, last);
	free(f.data);
}

static void what_is_not_known(void)
{
	struct file f = begin(false);
	struct made m;

	write_plain(&f);
	add(&f, 4000, 77, 5, 0, 0);
	m = import(&f, NULL);
	CHECK(m.error == 0 && strstr(m.report.problem, "unknown kind"));
	CHECK(m.info && !m.info->complete);
	check_plain(&m, "minor", "phase 31");
	drop(&m);
	/* Events of a kind that is not known are left out, and no others. */
	for (int i = 0; i < 4; i++)
		add(&f, 5000, 77, EVENTLOG_COUNTER, 0, 7);
	m = import(&f, NULL);
	CHECK(m.error == 0 && !*m.report.problem);
	CHECK(strstr(m.report.left_out, "24 bytes"), "%s", m.report.left_out);
	CHECK(m.info && !m.info->complete && m.info->track_events == 16);
	drop(&m);
	f.data[4] = 2;
	m = import(&f, NULL);
	CHECK(m.error == MAYFLY_E_VERSION && *m.report.problem);
	drop(&m);
	f.data[4] = 1;
	f.data[6] = 1; /* another stream */
	CHECK(!eventlog_recognise(f.data, f.size));
	free(f.data);
}

/* Times, durations and numbers as large as they can be, and times that only go back. */
static void extremes_do_no_harm(void)
{
	struct file f = begin(false);
	struct made m;
	struct mayfly_track_event e;
	uint64_t got = 0;

	for (int i = 0; i < 10; i++) {
		add(&f, UINT64_MAX - 2, 1, EVENTLOG_FLUSH, 0, UINT64_MAX);
		add(&f, 10, 1, EVENTLOG_FLUSH, 0, UINT64_MAX);
		add(&f, 11, 1, EVENTLOG_FLUSH, 0, 0);
		add(&f, 12, 1, EVENTLOG_COUNTER, 65535, 1);
		add(&f, 13, 1, EVENTLOG_ENTRY, 65535, 1);
	}
	m = import(&f, NULL);
	CHECK(m.error == 0, "%d", m.error);
	while (next(&m, &e))
		got++;
	CHECK(got == 80, "%" PRIu64, got);
	drop(&m);
	f.size = 8;
	for (uint64_t i = 0; i < 100000; i++)
		add(&f, 1000000 - i, 1, EVENTLOG_COUNTER, 0, i);
	m = import(&f, NULL);
	CHECK(m.error == 0 && m.info && m.info->track_events == 100000);
	for (got = 100000; next(&m, &e); got--)
		CHECK(e.value[0].u == got - 1);
	CHECK(got == 0);
	drop(&m);
	free(f.data);
}

static void noise_does_no_harm(void)
{
	struct file plain = begin(false);
	uint64_t state = 1;

	for (int i = 0; i < 20; i++)
		write_plain(&plain);
	for (int round = 0; round < 500; round++) {
		struct file f = plain;
		struct made m;
		char metadata[64];

		f.data = malloc(BYTES_MAX);
		memcpy(f.data, plain.data, plain.size);
		for (int i = 0; i < 8; i++) {
			state = state * 6364136223846793005u + 1442695040888963407u;
			f.data[8 + (state >> 33) % (f.size - 8)] = (uint8_t)(state >> 24);
		}
		for (size_t i = 0; i < sizeof(metadata) - 1; i++) {
			static const char pieces[] = "enumgc_phase{}=,.\"0x9:;/* \\";

			state = state * 6364136223846793005u + 1442695040888963407u;
			metadata[i] = pieces[(state >> 33) % (sizeof(pieces) - 1)];
		}
		memcpy(metadata, "enum gc_phase{", 14);
		metadata[sizeof(metadata) - 1] = 0;
		m = import(&f, metadata);
		CHECK(m.error == 0 || m.error == MAYFLY_E_TOO_LARGE, "%d", m.error);
		drop(&m);
		free(f.data);
	}
	free(plain.data);
}

int main(void)
{
	RUN(every_event_in_both_byte_orders);
	RUN(names_of_the_metadata);
	RUN(requests_are_counted);
	RUN(forks_are_put_in_order);
	RUN(writers_at_once_lose_one_event);
	RUN(processes_are_threads);
	RUN(nothing_but_events);
	RUN(cut_off_anywhere);
	RUN(what_is_not_known);
	RUN(extremes_do_no_harm);
	RUN(noise_does_no_harm);
	DONE();
}
