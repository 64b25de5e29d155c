/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The events of OCaml's runtime, 5.3 and later: a file PID.events, which the runtime writes while
 * others read it.
 *
 *	header | head and tail of each ring | rings | names of the program's own events
 *
 *	header	u64 version (1), rings, bytes of a ring's head and tail, bytes of a ring, its words,
 *		and the offsets of heads, rings and names
 *	ring	of a domain; head and tail only grow, and a word lies at its position modulo the
 *		ring's size. Before the oldest event is overwritten, the head moves past it.
 *	event	u64 words << 54 | by the program << 53 | type << 49 | number << 36
 *		u64 ns of CLOCK_MONOTONIC, and a value or none
 *	name	128 bytes for each number
 *
 * runtime_rings.c reads events, runtime_types.c gives them names and makes track events of them.
 * Nothing that the file says is believed: it may change at any time.
 */
#ifndef MAYFLY_RUNTIME_RINGS_H
#define MAYFLY_RUNTIME_RINGS_H

#include <mayfly/trace.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/ocaml_rings.h"

/* Domains are no threads of the kernel: two threads share one, and a domain's place is used again.
 * So in a recording each has a line of its own, with a number that no thread has. */
#define RUNTIME_DOMAIN_TID 0x40000000u

/* ---- reading: runtime_rings.c ---- */

struct runtime_rings {
	const uint8_t *data;
	size_t size;
	uint32_t domains;
	uint64_t words; /* of a ring: a power of two */
	uint64_t heads, head_bytes, rings, names;
};

enum runtime_kind {
	RUNTIME_LIFE, /* of the ring or of a domain */
	RUNTIME_BEGIN,
	RUNTIME_END,
	RUNTIME_COUNTER,
	/* The program's own, of Runtime_events.User. */
	RUNTIME_USER_UNIT,
	RUNTIME_USER_INT,
	RUNTIME_USER_BEGIN,
	RUNTIME_USER_END,
	RUNTIME_USER_CUSTOM,
};

struct runtime_event {
	uint64_t mono_ns;
	uint64_t value;
	uint32_t domain;
	uint16_t number;
	uint8_t kind; /* enum runtime_kind */
};

/* How far a ring has been read; zero: not at all. */
struct runtime_place {
	uint64_t at;
	uint64_t lost; /* words that were overwritten before they were read */
	bool damaged;
};

/* Whether this is the beginning of such a file, of any version. */
bool runtime_rings_recognise(const void *data, size_t size);
/* 0, MAYFLY_E_NOT_A_TRACE or MAYFLY_E_VERSION. The data is not copied. */
int runtime_rings_open(struct runtime_rings *r, const void *data, size_t size);
/* The next event of this domain; false: there is none yet. */
bool runtime_rings_next(const struct runtime_rings *r, uint32_t domain, struct runtime_place *place,
			struct runtime_event *event);
/* Words that wait to be read. */
uint64_t runtime_rings_waiting(const struct runtime_rings *r, uint32_t domain,
			       const struct runtime_place *place);
/* The name of the program's event. */
void runtime_rings_name(const struct runtime_rings *r, uint32_t number,
			char name[RUNTIME_NAME_BYTES]);

/* ---- track events: runtime_types.c ---- */

struct runtime_track {
	uint64_t mono_ns;
	uint64_t value;
	const struct mayfly_track_type *type; /* stays until runtime_types_free() */
	uint32_t domain;
	uint32_t kind; /* enum mayfly_track_kind */
};

#define RUNTIME_DEPTH  24		   /* of phases in phases */
#define RUNTIME_TRACKS (RUNTIME_DEPTH + 2) /* that one event can make */

struct runtime_types;

/* The instant that runtime_types_lost() makes, of the category "ocaml". */
#define RUNTIME_EVENTS_LOST "events_lost"

struct runtime_types *runtime_types_new(uint32_t domains); /* NULL: no memory */
void runtime_types_free(struct runtime_types *t);	   /* NULL is allowed */
/* The track events of an event, which must be those of the runtime_rings. Returns their number. The
 * end of a phase whose begin was lost gives none. */
size_t runtime_types_take(struct runtime_types *t, const struct runtime_rings *r,
			  const struct runtime_event *event,
			  struct runtime_track track[RUNTIME_TRACKS]);
/* The same for events of this domain that were lost: the phases that it was in end here. */
size_t runtime_types_lost(struct runtime_types *t, uint32_t domain, uint64_t words,
			  struct runtime_track track[RUNTIME_TRACKS]);

#endif
