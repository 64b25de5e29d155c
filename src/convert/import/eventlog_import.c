/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts an eventlog to a trace of track events. See eventlog.h.
 *
 *	entry, exit	span, named as the phase
 *	counter, alloc	counter, named as the counter or the bucket
 *	flush		span "eventlog/flush" of that duration
 *
 * Each process is a thread of the trace.
 *
 * Until a collection happens, the runtime requests it again for every block that it promotes: this
 * gives millions of equal events. Consecutive requests with one value within a millisecond become
 * one event with their number.
 */
#include "ocaml_events/eventlog.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "convert/import/import_tables.h"
#include "convert/import/imports.h"
#include "format/format.h"
#include "base/interner.h"

#define NONE	      RECORDING_NONE
#define PROCESSES_MAX 4096
#define REQUEST	      "request_" /* prefix of the names of requests */
#define REQUESTS_NS   1000000
#define NAME_BYTES    255
#define NOT_OPEN      INT64_MAX

struct type {
	uint32_t name;	/* string; 0: no name */
	uint32_t index; /* of the trace's type, plus 1; 0: not yet made */
	bool request;
};

struct eventlog_input {
	struct eventlog *log;
	struct import *in;
	struct recording *tables;	   /* those of `in` */
	struct type *type[EVENTLOG_LISTS]; /* EVENTLOG_NUMBERS of each */
	uint32_t flush_type, value_name, events_name, category;
	struct interner processes; /* a pid and lane's number is its thread */
	int64_t last_ns;

	/* Requests not yet written. */
	struct eventlog_event request;
	uint64_t requests;
	uint32_t request_thread;

	int64_t flush_end_ns; /* or NOT_OPEN */
	uint32_t flush_thread;
};

/* ---- types ---- */

static void eventlog_take_name(void *context, enum eventlog_list list, uint32_t first,
			       uint32_t last, const char *name, size_t length)
{
	struct eventlog_input *c = context;
	uint32_t string =
	    recording_string(c->tables, name, length < NAME_BYTES ? length : NAME_BYTES);

	for (uint32_t i = first; i <= last; i++)
		c->type[list][i].name = string;
}

static void add_type(struct eventlog_input *c, enum eventlog_list list, uint32_t number)
{
	static const char *const words[EVENTLOG_LISTS] = {"phase", "counter", "bucket"};
	struct type *t = &c->type[list][number];
	struct recording_track_type made = {.kind = MAYFLY_TYPE_SPAN, .category = c->category};
	char text[32];

	snprintf(text, sizeof(text), "%s %" PRIu32, words[list], number);
	if (!t->name)
		t->name = recording_name(c->tables, text);
	t->request = list == EVENTLOG_COUNTERS &&
		     !strncmp(recording_text(c->tables, t->name), REQUEST, strlen(REQUEST));
	made.name = t->name;
	if (list != EVENTLOG_PHASES) {
		made.kind = MAYFLY_TYPE_COUNTER;
		made.fields = t->request ? 2 : 1;
		made.field[0].type = made.field[1].type = MAYFLY_FIELD_UINT;
		made.field[0].name = c->value_name;
		made.field[1].name = t->request ? c->events_name : 0;
	}
	t->index = recording_track_type(c->tables, &made);
	if (t->index == NONE)
		import_fail(c->in, MAYFLY_E_TOO_LARGE);
	t->index++;
}

static void add_texts(struct eventlog_input *c)
{
	struct recording_track_type flush = {.kind = MAYFLY_TYPE_SPAN};

	c->category = flush.category = recording_name(c->tables, "ocaml");
	c->value_name = recording_name(c->tables, "value");
	c->events_name = recording_name(c->tables, "events");
	flush.name = recording_name(c->tables, "eventlog/flush");
	c->flush_type = recording_track_type(c->tables, &flush);
}

/* ---- processes ---- */

static uint32_t find_thread(struct eventlog_input *c, const struct eventlog_event *e)
{
	const struct key key = {{1, e->pid, e->lane}};
	char text[32] = "";
	bool is_new;
	uint32_t thread = interner_add(&c->processes, key, &is_new);

	if (thread == INTERNER_NONE)
		import_fail(c->in, MAYFLY_E_MEMORY);
	if (!is_new)
		return thread;
	if (thread == PROCESSES_MAX)
		import_fail(c->in, MAYFLY_E_TOO_LARGE);
	if (e->lane) /* its real pid is not in the file */
		snprintf(text, sizeof(text), "process %" PRIu32, e->lane + 1);
	return recording_thread(c->tables, e->pid, recording_name(c->tables, text));
}

/* ---- events ---- */

static int64_t trace_time(uint64_t ns)
{
	return ns < (uint64_t)TRACE_LATEST_NS ? (int64_t)ns : TRACE_LATEST_NS;
}

static void eventlog_put(struct eventlog_input *c, int64_t time_ns, enum mayfly_track_kind kind,
			 uint32_t type, uint32_t thread, const uint64_t *value)
{
	const struct trace_track event = {
	    .time_ns = time_ns, .kind = kind, .type = type, .thread = thread, .value = value};

	if (c->last_ns < time_ns)
		c->last_ns = time_ns;
	import_fail(c->in, trace_writer_track(c->in->writer, &event));
}

static void put_requests(struct eventlog_input *c)
{
	const uint64_t value[] = {c->request.value, c->requests};

	if (c->requests)
		eventlog_put(c, trace_time(c->request.time_ns), MAYFLY_TRACK_COUNT,
			     c->type[EVENTLOG_COUNTERS][c->request.number].index - 1,
			     c->request_thread, value);
	c->requests = 0;
}

static void put_flush_end(struct eventlog_input *c, int64_t time_ns)
{
	int64_t end = c->flush_end_ns;

	if (end != NOT_OPEN)
		eventlog_put(c, end < time_ns ? end : time_ns, MAYFLY_TRACK_END, c->flush_type,
			     c->flush_thread, NULL);
	c->flush_end_ns = NOT_OPEN;
}

static void take_flush(struct eventlog_input *c, const struct eventlog_event *e, uint32_t thread)
{
	int64_t now = trace_time(e->time_ns);

	/* Two processes can flush at the same time; then the span of the first is cut short. */
	put_flush_end(c, now);
	eventlog_put(c, now, MAYFLY_TRACK_BEGIN, c->flush_type, thread, NULL);
	c->flush_end_ns = e->value < (uint64_t)(TRACE_LATEST_NS - now) ? now + (int64_t)e->value
								       : TRACE_LATEST_NS;
	c->flush_thread = thread;
}

static void take_numbered(struct eventlog_input *c, const struct eventlog_event *e, uint32_t thread)
{
	static const uint8_t lists[] = {
	    [EVENTLOG_ENTRY] = EVENTLOG_PHASES,
	    [EVENTLOG_EXIT] = EVENTLOG_PHASES,
	    [EVENTLOG_COUNTER] = EVENTLOG_COUNTERS,
	    [EVENTLOG_ALLOC] = EVENTLOG_BUCKETS,
	};
	static const uint8_t kinds[] = {
	    [EVENTLOG_ENTRY] = MAYFLY_TRACK_BEGIN,
	    [EVENTLOG_EXIT] = MAYFLY_TRACK_END,
	    [EVENTLOG_COUNTER] = MAYFLY_TRACK_COUNT,
	    [EVENTLOG_ALLOC] = MAYFLY_TRACK_COUNT,
	};
	enum eventlog_list list = lists[e->kind];
	struct type *t = &c->type[list][e->number];

	if (!t->index)
		add_type(c, list, e->number);
	if (t->request) {
		c->request = *e;
		c->requests = 1;
		c->request_thread = thread;
		return;
	}
	eventlog_put(c, trace_time(e->time_ns), kinds[e->kind], t->index - 1, thread, &e->value);
}

static bool is_same_request(const struct eventlog_input *c, const struct eventlog_event *e)
{
	const struct eventlog_event *r = &c->request;

	return c->requests && e->kind == EVENTLOG_COUNTER && e->number == r->number &&
	       e->value == r->value && e->pid == r->pid && e->lane == r->lane &&
	       e->time_ns - r->time_ns < REQUESTS_NS && trace_time(e->time_ns) < c->flush_end_ns;
}

static void eventlog_take(struct eventlog_input *c, const struct eventlog_event *e)
{
	uint32_t thread;

	if (is_same_request(c, e)) {
		c->requests++;
		if (c->last_ns < trace_time(e->time_ns))
			c->last_ns = trace_time(e->time_ns);
		return;
	}
	put_requests(c);
	if (trace_time(e->time_ns) >= c->flush_end_ns)
		put_flush_end(c, c->flush_end_ns);
	thread = find_thread(c, e);
	if (e->kind == EVENTLOG_FLUSH)
		take_flush(c, e, thread);
	else
		take_numbered(c, e, thread);
}

static void take_all(struct eventlog_input *c)
{
	struct eventlog_event e;

	while (!import_failed(c->in) && eventlog_next(c->log, &e))
		if (e.kind <= EVENTLOG_FLUSH)
			eventlog_take(c, &e);
	put_requests(c);
	put_flush_end(c, c->flush_end_ns);
}

/* ---- the trace ---- */

void eventlog_import(struct import *in)
{
	struct eventlog_input c = {.in = in, .tables = in->tables, .flush_end_ns = NOT_OPEN};

	import_fail(in, eventlog_open(in->data, in->size, &c.log));
	if (in->error == MAYFLY_E_VERSION)
		import_problem(in, "of an unsupported version");
	if (in->error)
		return;
	import_problem(in, "%s", eventlog_problem(c.log));
	if (eventlog_skipped(c.log))
		snprintf(in->report.left_out, sizeof(in->report.left_out),
			 "%" PRIu64
			 " bytes that are not events; maybe processes wrote at the same time",
			 eventlog_skipped(c.log));
	add_texts(&c);
	for (int i = 0; i < EVENTLOG_LISTS; i++) {
		c.type[i] = calloc(EVENTLOG_NUMBERS, sizeof(**c.type));
		in->tables->failed |= !c.type[i];
	}
	import_begin_events(in);
	if (!import_failed(in)) {
		eventlog_names(in->options.beside, in->options.beside_size, eventlog_take_name, &c);
		take_all(&c);
		import_describe_events(in, "an eventlog of OCaml's runtime", eventlog_events(c.log),
				       c.last_ns);
		in->tables->info.pid = in->tables->thread[0].tid;
	}
	interner_free(&c.processes);
	for (int i = 0; i < EVENTLOG_LISTS; i++)
		free(c.type[i]);
	eventlog_close(c.log);
}
