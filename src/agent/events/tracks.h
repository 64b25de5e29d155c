/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Track events: what happens besides allocations. TRACK and TYPE records of format/spool_format.h.
 *
 *	program: mayfly.h ──> calls.c ──┐
 *	hooks of the process ───────────┼──> tracks.c ──> this thread's packet
 *	OCaml's runtime: ocaml_gc.c ────┘
 *
 * One event is one record in the packet of its thread: no lock, no system call. An event that finds
 * no room is dropped and counted. Every function keeps errno and may be called from any thread at
 * any time (before the agent runs, in a signal handler, in a forked child); where it cannot record,
 * it does nothing, or counts a dropped event.
 */
#ifndef MAYFLY_TRACKS_H
#define MAYFLY_TRACKS_H

#include "agent/agent.h"
#include "agent/unwind/walk.h"

/* A type of the agent's own: static, with `id` 0 until its first event registers it. */
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

/* The type of an instant; after the number of fields, each as {type, name}. */
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

/* True: an event would be recorded now. To be asked before its values are computed. */
bool tracks_wanted(void);

#endif
