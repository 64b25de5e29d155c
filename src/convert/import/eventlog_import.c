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
#include "convert/import/imports.h"
#include "ocaml_events/eventlog.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "convert/import/import_tables.h"
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
	struct recording *tables;
	struct trace_writer *writer;
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

static int eventlog_take_name(void *context, enum eventlog_list list, uint32_t first, uint32_t last,
			      const char *name, size_t length)
{
	struct eventlog_input *c = context;
	uint32_t string;

	string = recording_string(c->tables, name, length < NAME_BYTES ? length : NAME_BYTES);
	if (string == NONE)
		return MAYFLY_E_MEMORY;
	for (uint32_t i = first; i <= last; i++)
		c->type[list][i].name = string;
	return 0;
}

static uint32_t number_name(struct eventlog_input *c, enum eventlog_list list, uint32_t number)
{
	static const char *const words[EVENTLOG_LISTS] = {"phase", "counter", "bucket"};
	char text[32];
	int length = snprintf(text, sizeof(text), "%s %" PRIu32, words[list], number);

	return recording_string(c->tables, text, (size_t)length);
}

static int add_type(struct eventlog_input *c, enum eventlog_list list, uint32_t number)
{
	struct type *t = &c->type[list][number];
	struct recording_track_type made = {.kind = MAYFLY_TYPE_SPAN, .category = c->category};

	if (!t->name)
		t->name = number_name(c, list, number);
	if (t->name == NONE)
		return MAYFLY_E_MEMORY;
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
		return MAYFLY_E_TOO_LARGE;
	t->index++;
	return 0;
}

static int add_texts(struct eventlog_input *c)
{
	struct recording_track_type flush = {.kind = MAYFLY_TYPE_SPAN};

	c->category = recording_string(c->tables, "ocaml", 5);
	c->value_name = recording_string(c->tables, "value", 5);
	c->events_name = recording_string(c->tables, "events", 6);
	flush.name = recording_string(c->tables, "eventlog/flush", 14);
	flush.category = c->category;
	if (c->category == NONE || c->value_name == NONE || c->events_name == NONE ||
	    flush.name == NONE)
		return MAYFLY_E_MEMORY;
	c->flush_type = recording_track_type(c->tables, &flush);
	return c->flush_type == NONE ? MAYFLY_E_MEMORY : 0;
}

/* ---- processes ---- */

static int find_thread(struct eventlog_input *c, const struct eventlog_event *e, uint32_t *thread)
{
	const struct key key = {{1, e->pid, e->lane}};
	uint32_t name = 0;
	char text[32];
	bool is_new;

	*thread = interner_add(&c->processes, key, &is_new);
	if (*thread == INTERNER_NONE)
		return MAYFLY_E_MEMORY;
	if (!is_new)
		return 0;
	if (*thread == PROCESSES_MAX)
		return MAYFLY_E_TOO_LARGE;
	/* Its real pid is not in the file. */
	snprintf(text, sizeof(text), "process %" PRIu32, e->lane + 1);
	if (e->lane)
		name = recording_string(c->tables, text, strlen(text));
	if (name == NONE || recording_thread(c->tables, e->pid, name) != *thread)
		return MAYFLY_E_MEMORY;
	return 0;
}

/* ---- events ---- */

static int64_t trace_time(uint64_t ns)
{
	return ns < (uint64_t)TRACE_LATEST_NS ? (int64_t)ns : TRACE_LATEST_NS;
}

static int eventlog_put(struct eventlog_input *c, int64_t time_ns, enum mayfly_track_kind kind,
			uint32_t type, uint32_t thread, const uint64_t *value)
{
	const struct trace_track event = {
	    .time_ns = time_ns, .kind = kind, .type = type, .thread = thread, .value = value};

	if (c->last_ns < time_ns)
		c->last_ns = time_ns;
	return trace_writer_track(c->writer, &event);
}

static int put_requests(struct eventlog_input *c)
{
	const uint64_t value[] = {c->request.value, c->requests};

	if (!c->requests)
		return 0;
	c->requests = 0;
	return eventlog_put(c, trace_time(c->request.time_ns), MAYFLY_TRACK_COUNT,
			    c->type[EVENTLOG_COUNTERS][c->request.number].index - 1,
			    c->request_thread, value);
}

static int put_flush_end(struct eventlog_input *c, int64_t time_ns)
{
	int64_t end = c->flush_end_ns;

	if (end == NOT_OPEN)
		return 0;
	c->flush_end_ns = NOT_OPEN;
	return eventlog_put(c, end < time_ns ? end : time_ns, MAYFLY_TRACK_END, c->flush_type,
			    c->flush_thread, NULL);
}

static int take_flush(struct eventlog_input *c, const struct eventlog_event *e, uint32_t thread)
{
	int64_t now = trace_time(e->time_ns);
	/* Two processes can flush at the same time; then the span of the first is cut short. */
	int error = put_flush_end(c, now);

	if (!error)
		error = eventlog_put(c, now, MAYFLY_TRACK_BEGIN, c->flush_type, thread, NULL);
	c->flush_end_ns = e->value < (uint64_t)(TRACE_LATEST_NS - now) ? now + (int64_t)e->value
								       : TRACE_LATEST_NS;
	c->flush_thread = thread;
	return error;
}

static int take_numbered(struct eventlog_input *c, const struct eventlog_event *e, uint32_t thread)
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
	int error = t->index ? 0 : add_type(c, list, e->number);

	if (error)
		return error;
	if (t->request) {
		c->request = *e;
		c->requests = 1;
		c->request_thread = thread;
		return 0;
	}
	return eventlog_put(c, trace_time(e->time_ns), kinds[e->kind], t->index - 1, thread,
			    &e->value);
}

static bool is_same_request(const struct eventlog_input *c, const struct eventlog_event *e)
{
	const struct eventlog_event *r = &c->request;

	return c->requests && e->kind == EVENTLOG_COUNTER && e->number == r->number &&
	       e->value == r->value && e->pid == r->pid && e->lane == r->lane &&
	       e->time_ns - r->time_ns < REQUESTS_NS && trace_time(e->time_ns) < c->flush_end_ns;
}

static int eventlog_take(struct eventlog_input *c, const struct eventlog_event *e)
{
	uint32_t thread;
	int error;

	if (is_same_request(c, e)) {
		c->requests++;
		if (c->last_ns < trace_time(e->time_ns))
			c->last_ns = trace_time(e->time_ns);
		return 0;
	}
	error = put_requests(c);
	if (!error && trace_time(e->time_ns) >= c->flush_end_ns)
		error = put_flush_end(c, c->flush_end_ns);
	if (!error)
		error = find_thread(c, e, &thread);
	if (error)
		return error;
	return e->kind == EVENTLOG_FLUSH ? take_flush(c, e, thread) : take_numbered(c, e, thread);
}

static int take_all(struct eventlog_input *c)
{
	struct eventlog_event e;
	int error = 0;

	while (!error && eventlog_next(c->log, &e))
		if (e.kind <= EVENTLOG_FLUSH)
			error = eventlog_take(c, &e);
	if (!error)
		error = put_requests(c);
	return error ? error : put_flush_end(c, c->flush_end_ns);
}

/* ---- the trace ---- */

static int eventlog_describe(struct eventlog_input *c, const struct import_report *report)
{
	int error = import_describe_events(c->tables, "an eventlog of OCaml's runtime",
					   eventlog_events(c->log), c->last_ns, report->problem,
					   report->left_out);

	if (!error)
		c->tables->info.pid = c->tables->thread[0].tid;
	return error;
}

static int eventlog_convert(struct eventlog_input *c, const struct import_options *options,
			    trace_sink *sink, void *context, const struct import_report *report)
{
	const struct trace_writer_options how = {.mode = MAYFLY_EXACT};
	int error = add_texts(c);

	if (!error)
		error =
		    eventlog_names(options->beside, options->beside_size, eventlog_take_name, c);
	if (error)
		return error;
	c->writer = trace_writer_new(&how, c->tables, sink, context);
	error = c->writer ? take_all(c) : MAYFLY_E_MEMORY;
	if (!error)
		error = eventlog_describe(c, report);
	return error ? error : trace_writer_finish(c->writer);
}

static bool allocate(struct eventlog_input *c)
{
	c->tables = recording_new();
	for (int i = 0; i < EVENTLOG_LISTS; i++) {
		c->type[i] = calloc(EVENTLOG_NUMBERS, sizeof(**c->type));
		if (!c->type[i])
			return false;
	}
	return c->tables != NULL;
}

int eventlog_import(const void *data, size_t size, const struct import_options *options,
		    trace_sink *sink, void *context, struct import_report *report)
{
	struct eventlog_input c = {.flush_end_ns = NOT_OPEN};
	int error = eventlog_open(data, size, &c.log);

	if (error == MAYFLY_E_VERSION)
		snprintf(report->problem, sizeof(report->problem), "of an unsupported version");
	if (error)
		return error;
	snprintf(report->problem, sizeof(report->problem), "%s", eventlog_problem(c.log));
	if (eventlog_skipped(c.log))
		snprintf(report->left_out, sizeof(report->left_out),
			 "%" PRIu64
			 " bytes that are not events; maybe processes wrote at the same time",
			 eventlog_skipped(c.log));
	error =
	    allocate(&c) ? eventlog_convert(&c, options, sink, context, report) : MAYFLY_E_MEMORY;
	trace_writer_free_all(c.writer);
	recording_free(c.tables);
	interner_free(&c.processes);
	for (int i = 0; i < EVENTLOG_LISTS; i++)
		free(c.type[i]);
	eventlog_close(c.log);
	return error;
}
