/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Track events: what happens beside the blocks. TRACK and TYPE records of format/spool_format.h.
 *
 *	program: mayfly.h ──> calls.c ──┐
 *	hooks of the process ───────────┼──> tracks.c ──> this thread's packet
 *	OCaml's runtime: ocaml_gc.c ────┘
 *
 * One event is one record in the packet of its thread: no lock, no system call. What finds no room
 * is dropped and counted. Every function keeps errno, may be called from any thread at any time
 * (before the agent runs, in a signal handler, in a forked child), and then does nothing, or counts
 * a dropped event, where it cannot record.
 */
#ifndef MAYFLY_TRACKS_H
#define MAYFLY_TRACKS_H

#include "agent/agent.h"
#include "agent/unwind/walk.h"

/* A type of the agent's own. Static, zero `id`: it is registered with its first event. */
struct track_type {
	const char *name, *category, *unit;
	uint8_t kind; /* enum spool_type */
	uint8_t fields;
	struct {
		uint8_t type; /* enum spool_field */
		const char *name;
	} field[SPOOL_EVENT_VALUES];
	_Atomic uint32_t id;
};

/* An instant's type: so many fields, each {type, name}. */
#define TRACK_INSTANT(variable, its_category, its_name, count, ...)                                \
	static struct track_type variable = {                                                      \
	    .name = its_name,                                                                      \
	    .category = its_category,                                                              \
	    .unit = "",                                                                            \
	    .kind = SPOOL_TYPE_INSTANT,                                                            \
	    .fields = count,                                                                       \
	    .field = {__VA_ARGS__},                                                                \
	}

/* kind: enum spool_track. values: one for each field: the bits of a number, or a pointer to a text
 * that ends with a zero (SPOOL_TEXT_BYTES of it are taken, NULL is ""). from: where the stack
 * begins, or NULL for none. */
void tracks_add(uint32_t kind, struct track_type *type, const uint64_t *values,
		const struct walk_start *from);

/* Whether an event would be recorded now; asked before what it needs is computed. */
bool tracks_wanted(void);

#endif
