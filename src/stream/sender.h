/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends a trace to a receiver while it is made, in a thread of its own.
 *
 *	put() ──> ring of bytes ──────┐
 *	                              ├──> thread ──> connection ──> receiver
 *	grown() ──> file of a trace ──┘       ▲  again when it breaks    │
 *	                                      └───── how far stored ─────┘
 *
 * What the receiver has not stored is kept: in the ring, which is bounded, or in the file that the
 * trace is written to anyway. A ring that is full takes no more; nobody waits, until the end.
 */
#ifndef MAYFLY_STREAM_SENDER_H
#define MAYFLY_STREAM_SENDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stream/address.h"
#include "stream/wire.h"

struct stream_sender_options {
	const struct stream_address *address; /* both stay the caller's, as long as this lives */
	const struct stream_key *key;	      /* NULL: none */
	uint64_t ring_bytes;
	int64_t timeout_ns; /* at the end, without anything being stored */
};

struct stream_sender;

/* Does not connect yet. 0 or an errno. */
int stream_sender_new(const struct stream_sender_options *options, struct stream_sender **out);

/* Begins to. 0 or an errno; it is done anyway, at the latest, when it is asked to finish. */
int stream_sender_start(struct stream_sender *s);

/* Ends without waiting. NULL is allowed. */
void stream_sender_free(struct stream_sender *s);

/* How many of the bytes it takes. */
size_t stream_sender_put(struct stream_sender *s, const void *bytes, size_t size);

/* Instead: the bytes are those of a file, as many as grown() says. 0 or an errno. */
int stream_sender_file(struct stream_sender *s, int fd);
void stream_sender_grown(struct stream_sender *s, uint64_t size);

/* What was sent is void: another trace comes in its place. */
void stream_sender_restart(struct stream_sender *s);

/* From now on put() waits for room, but not longer than the timeout while the receiver stores
 * nothing; after that it accepts nothing more. */
void stream_sender_ending(struct stream_sender *s);

/* It has done so. */
bool stream_sender_gave_up(struct stream_sender *s);

/* All has been given: waits until the receiver has it. False: it gave up. whole: the trace is
 * complete. */
bool stream_sender_finish(struct stream_sender *s, bool whole);

/* Saves what the receiver does not have to a file, from the trace's byte *from on; nothing more is
 * sent. 0 or an errno. */
int stream_sender_save(struct stream_sender *s, int fd, uint64_t *from);

struct stream_sender_status {
	bool connected;
	int64_t since_ns;	 /* CLOCK_MONOTONIC: of the last change of that */
	enum stream_fault fault; /* of the last connection */
	int error;		 /* errno, or 0 */
	uint64_t given, stored;
};

void stream_sender_status(struct stream_sender *s, struct stream_sender_status *status);

#endif
