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
	struct import *in;
	struct recording *tables; /* those of `in` */
	struct ring *ring;
	uint32_t *active, actives; /* domains with events */
	uint64_t start_ns, events, lost;
	int64_t last_ns;
	uint32_t pid;
	bool damaged;
};

/* ---- types ---- */

/* Equal types get one number. */
static uint32_t type_number(struct runtime_input *c, const struct mayfly_track_type *type)
{
	uint32_t number = recording_copy_track_type(c->tables, type);

	if (number == RECORDING_NONE)
		import_fail(c->in, MAYFLY_E_TOO_LARGE);
	return number;
}

/* ---- events ---- */

static void put_tracks(struct runtime_input *c, const struct runtime_track *track, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct runtime_track *t = &track[i];
		uint64_t ns = t->mono_ns > c->start_ns ? t->mono_ns - c->start_ns : 0;
		struct trace_track event = {
		    .time_ns = ns < (uint64_t)TRACE_LATEST_NS ? (int64_t)ns : TRACE_LATEST_NS,
		    .kind = t->kind,
		    .type = type_number(c, t->type),
		    .thread = c->ring[t->domain].thread,
		    .value = &t->value,
		};

		if (c->last_ns < event.time_ns)
			c->last_ns = event.time_ns;
		import_fail(c->in, trace_writer_track(c->in->writer, &event));
	}
}

static void put_lost(struct runtime_input *c, uint32_t domain)
{
	struct runtime_track track[RUNTIME_TRACKS];
	struct ring *g = &c->ring[domain];
	uint64_t words = g->place.lost - g->told;

	c->lost += words;
	g->told = g->place.lost;
	/* Before the first event nothing is known that could be cut off. */
	if (words && g->ready)
		put_tracks(c, track, runtime_types_lost(c->types, domain, words, track));
}

static void look_for_next(struct runtime_input *c, uint32_t domain)
{
	struct ring *g = &c->ring[domain];

	g->ready = runtime_rings_next(&c->rings, domain, &g->place, &g->next);
	c->damaged |= g->place.damaged;
}

static void find_domains(struct runtime_input *c)
{
	uint64_t first = UINT64_MAX;

	for (uint32_t i = 0; i < c->rings.domains; i++) {
		struct ring *g = &c->ring[i];
		char name[32];

		look_for_next(c, i);
		c->lost += g->place.lost;
		g->told = g->place.lost;
		if (!g->ready)
			continue;
		if (g->next.mono_ns < first)
			first = g->next.mono_ns;
		snprintf(name, sizeof(name), "domain %" PRIu32, i);
		g->thread = recording_thread(c->tables, i, recording_name(c->tables, name));
		c->active[c->actives++] = i;
	}
	c->start_ns = c->actives ? first : 0;
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

static void take_events(struct runtime_input *c)
{
	struct runtime_track track[RUNTIME_TRACKS];
	uint32_t domain;

	find_domains(c);
	while (!import_failed(c->in) && find_earliest(c, &domain)) {
		const struct runtime_event *e = &c->ring[domain].next;

		if (e->kind == RUNTIME_LIFE && e->number == RING_START)
			c->pid = e->value <= INT32_MAX ? (uint32_t)e->value : 0;
		c->events++;
		put_tracks(c, track, runtime_types_take(c->types, &c->rings, e, track));
		look_for_next(c, domain);
		put_lost(c, domain);
	}
}

/* ---- the trace ---- */

static void runtime_describe(struct runtime_input *c)
{
	if (c->damaged)
		import_problem(c->in, "an event that makes no sense");
	if (c->lost)
		snprintf(c->in->report.left_out, sizeof(c->in->report.left_out),
			 "%" PRIu64 " words of older events, which the runtime has overwritten",
			 c->lost);
	c->tables->info.pid = c->pid;
	import_describe_events(c->in, "runtime events of OCaml", c->events, c->last_ns);
}

void runtime_events_import(struct import *in)
{
	struct runtime_input c = {.in = in, .tables = in->tables};

	import_fail(in, runtime_rings_open(&c.rings, in->data, in->size));
	if (in->error == MAYFLY_E_VERSION)
		import_problem(in, "of an unsupported version");
	if (in->error)
		return;
	c.types = runtime_types_new(c.rings.domains);
	c.ring = calloc(c.rings.domains, sizeof(*c.ring));
	c.active = calloc(c.rings.domains, sizeof(*c.active));
	import_begin_events(in);
	if (!c.types || !c.ring || !c.active)
		import_fail(in, MAYFLY_E_MEMORY);
	if (!in->error)
		take_events(&c);
	runtime_describe(&c);
	runtime_types_free(c.types);
	free(c.ring);
	free(c.active);
}
