/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The events of an OCaml 5 program's runtime (ocaml_events/runtime_rings.h), read while it runs.
 *
 *	FILE.events/PID.events ──look, now and then──> track events by domain ──hand──> the trace
 *
 * The rings are mapped; the mapping stays when the program removes its file at its end. What was
 * read waits here until there is a stream to put it into. Rings that fill quickly are looked at more
 * often.
 */
#ifndef MAYFLY_RUNTIME_WATCH_H
#define MAYFLY_RUNTIME_WATCH_H

#include "ocaml_events/runtime_rings.h"
#include "spool/spool_stream.h"

struct watched_track {
	struct runtime_track track;
	uint64_t order; /* in which it was read */
};

struct runtime_watch {
	int fd; /* of the file, when it is open but has no rings yet; -1: none */
	void *map;
	bool unknown; /* of a version that is not supported: no longer looked at */
	bool said;    /* the caller's: it has reported that */
	struct runtime_rings rings;
	struct runtime_types *types;
	struct runtime_place *place; /* of each domain */
	uint64_t *told;		     /* of the place's lost words */
	bool *named;
	struct watched_track *track;
	size_t tracks, room;
	uint64_t order;
	uint64_t looked_ns;
	unsigned int wait_ms; /* after which the next look is worth it */
};

void runtime_watch_start(struct runtime_watch *w);
/* Reads what is new. path: of the file, which may not be there yet. */
void runtime_watch_look(struct runtime_watch *w, const char *path);
/* Enough wait here to be worth a stream. */
bool runtime_watch_is_full(const struct runtime_watch *w);
/* Hands over what waits, but nothing from before this moment. 0 or a negative enum mayfly_error. */
int runtime_watch_hand(struct runtime_watch *w, uint64_t start_mono_ns, struct spool_stream *to);
void runtime_watch_free(struct runtime_watch *w);

#endif
