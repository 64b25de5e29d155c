/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts a file PID.events of OCaml's runtime, 5.3 and later, to a trace of track events. See
 * runtime_rings.h: each ring holds the latest events of a domain.
 *
 *	ring of domain 0 | ring of domain 1 | ... --merge by time--> track events of "domain 0", ...
 *
 * Each domain is a thread of the trace. Time 0 is the first event's.
 */
#include "convert/import/imports.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "convert/import/import_tables.h"
#include "format/format.h"
#include "ocaml_events/runtime_rings.h"

#define RING_START 0 /* the number of this event: its value is the process id */

struct ring {
	struct runtime_place place;
	struct runtime_event next;
	uint64_t told; /* of the place's lost words */
	bool ready;    /* there is a next one */
	uint32_t thread;
};

struct runtime_input {
	struct runtime_rings rings;
	struct runtime_types *types;
	struct recording *tables;
	struct trace_writer *writer;
	struct ring *ring;
	uint32_t *active, actives; /* domains with events */
	uint64_t start_ns, events, lost;
	int64_t last_ns;
	uint32_t pid;
	bool damaged;
};

/* ---- types ---- */

static uint32_t input_string(struct runtime_input *c, const char *text)
{
	return *text ? recording_string(c->tables, text, strlen(text)) : 0;
}

/* Equal types get one number. */
static int type_number(struct runtime_input *c, const struct mayfly_track_type *type,
		       uint32_t *number)
{
	struct recording_track_type made = {.kind = type->kind, .fields = (uint32_t)type->fields};

	made.name = input_string(c, type->name);
	made.category = input_string(c, type->category);
	made.unit = input_string(c, type->unit);
	for (size_t i = 0; i < type->fields; i++) {
		made.field[i].type = type->field[i].type;
		made.field[i].name = input_string(c, type->field[i].name);
		if (made.field[i].name == RECORDING_NONE)
			return MAYFLY_E_MEMORY;
	}
	if (made.name == RECORDING_NONE || made.category == RECORDING_NONE ||
	    made.unit == RECORDING_NONE)
		return MAYFLY_E_MEMORY;
	*number = recording_track_type(c->tables, &made);
	return *number == RECORDING_NONE ? MAYFLY_E_TOO_LARGE : 0;
}

/* ---- events ---- */

static int put_tracks(struct runtime_input *c, const struct runtime_track *track, size_t count)
{
	int error = 0;

	for (size_t i = 0; i < count && !error; i++) {
		const struct runtime_track *t = &track[i];
		uint64_t ns = t->mono_ns > c->start_ns ? t->mono_ns - c->start_ns : 0;
		struct trace_track event = {
		    .time_ns = ns < (uint64_t)TRACE_LATEST_NS ? (int64_t)ns : TRACE_LATEST_NS,
		    .kind = t->kind,
		    .thread = c->ring[t->domain].thread,
		    .value = &t->value,
		};

		if (c->last_ns < event.time_ns)
			c->last_ns = event.time_ns;
		error = type_number(c, t->type, &event.type);
		if (!error)
			error = trace_writer_track(c->writer, &event);
	}
	return error;
}

static int put_lost(struct runtime_input *c, uint32_t domain)
{
	struct runtime_track track[RUNTIME_TRACKS];
	struct ring *g = &c->ring[domain];
	uint64_t words = g->place.lost - g->told;

	if (!words)
		return 0;
	c->lost += words;
	g->told = g->place.lost;
	/* Before the first event nothing is known that could be cut off. */
	if (!g->ready)
		return 0;
	return put_tracks(c, track, runtime_types_lost(c->types, domain, words, track));
}

static void look_for_next(struct runtime_input *c, uint32_t domain)
{
	struct ring *g = &c->ring[domain];

	g->ready = runtime_rings_next(&c->rings, domain, &g->place, &g->next);
	c->damaged |= g->place.damaged;
}

static int find_domains(struct runtime_input *c)
{
	uint64_t first = UINT64_MAX;

	for (uint32_t i = 0; i < c->rings.domains; i++) {
		struct ring *g = &c->ring[i];
		char name[32];
		uint32_t string;

		look_for_next(c, i);
		c->lost += g->place.lost;
		g->told = g->place.lost;
		if (!g->ready)
			continue;
		if (g->next.mono_ns < first)
			first = g->next.mono_ns;
		snprintf(name, sizeof(name), "domain %" PRIu32, i);
		string = recording_string(c->tables, name, strlen(name));
		g->thread =
		    string == RECORDING_NONE ? string : recording_thread(c->tables, i, string);
		if (g->thread == RECORDING_NONE)
			return MAYFLY_E_MEMORY;
		c->active[c->actives++] = i;
	}
	c->start_ns = c->actives ? first : 0;
	return 0;
}

/* The domain with the earliest event; false: there are no more. */
static bool find_earliest(struct runtime_input *c, uint32_t *earliest)
{
	bool found = false;

	for (uint32_t i = 0; i < c->actives;) {
		const struct ring *g = &c->ring[c->active[i]];

		if (!g->ready) {
			c->active[i] = c->active[--c->actives];
			continue;
		}
		if (!found || g->next.mono_ns < c->ring[*earliest].next.mono_ns ||
		    (g->next.mono_ns == c->ring[*earliest].next.mono_ns &&
		     c->active[i] < *earliest))
			*earliest = c->active[i];
		found = true;
		i++;
	}
	return found;
}

static int take_events(struct runtime_input *c)
{
	struct runtime_track track[RUNTIME_TRACKS];
	int error = find_domains(c);
	uint32_t domain;

	while (!error && find_earliest(c, &domain)) {
		const struct runtime_event *e = &c->ring[domain].next;

		if (e->kind == RUNTIME_LIFE && e->number == RING_START)
			c->pid = e->value <= INT32_MAX ? (uint32_t)e->value : 0;
		c->events++;
		error = put_tracks(c, track, runtime_types_take(c->types, &c->rings, e, track));
		look_for_next(c, domain);
		if (!error)
			error = put_lost(c, domain);
	}
	return error;
}

/* ---- the trace ---- */

static int runtime_describe(struct runtime_input *c, struct import_report *report)
{
	if (c->damaged)
		snprintf(report->problem, sizeof(report->problem), "an event that makes no sense");
	if (c->lost)
		snprintf(report->left_out, sizeof(report->left_out),
			 "%" PRIu64 " words of older events, which the runtime has overwritten",
			 c->lost);
	c->tables->info.pid = c->pid;
	return import_describe_events(c->tables, "runtime events of OCaml", c->events, c->last_ns,
				      report->problem, report->left_out);
}

static int runtime_convert(struct runtime_input *c, trace_sink *sink, void *context,
			   struct import_report *report)
{
	const struct trace_writer_options how = {.mode = MAYFLY_EXACT};
	int error;

	c->tables = recording_new();
	c->types = runtime_types_new(c->rings.domains);
	c->ring = calloc(c->rings.domains, sizeof(*c->ring));
	c->active = calloc(c->rings.domains, sizeof(*c->active));
	if (c->tables)
		c->writer = trace_writer_new(&how, c->tables, sink, context);
	if (!c->writer || !c->types || !c->ring || !c->active)
		return MAYFLY_E_MEMORY;
	error = take_events(c);
	if (!error)
		error = runtime_describe(c, report);
	return error ? error : trace_writer_finish(c->writer);
}

int runtime_events_import(const void *data, size_t size, const struct import_options *options,
			  trace_sink *sink, void *context, struct import_report *report)
{
	struct runtime_input c = {0};
	int error = runtime_rings_open(&c.rings, data, size);

	(void)options;
	if (error == MAYFLY_E_VERSION)
		snprintf(report->problem, sizeof(report->problem), "of an unsupported version");
	if (error)
		return error;
	error = runtime_convert(&c, sink, context, report);
	trace_writer_free_all(c.writer);
	recording_free(c.tables);
	runtime_types_free(c.types);
	free(c.ring);
	free(c.active);
	return error;
}
