/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace on its way to a receiver, while it is recorded.
 *
 * With -o the trace is written to its file and sent from there. Without -o, nothing touches this
 * machine's disks: the spool is in memory (/dev/shm), and bytes that the receiver has not stored
 * wait in a buffer. When the buffer is full, reading the spool pauses; when the spool is full, the
 * agent drops and counts samples. The program never waits.
 */
#ifndef MAYFLY_OUTGOING_H
#define MAYFLY_OUTGOING_H

#include <stdbool.h>
#include <stdint.h>

#include "stream/sender.h"

struct record_stream {
	const char *to; /* NULL: no stream */
	const char *key_file;
	const char *spool_dir;
	uint64_t buffer_bytes;
	int64_t timeout_ns;
	bool only; /* no local file */

	struct stream_address address;
	struct stream_key key;
	struct stream_sender *sender;
	bool said_lost;
	bool failed; /* the receiver does not have all of it */
};

/* Makes the sender, which does not connect yet. 0 or an errno. */
int record_stream_open(struct record_stream *s);

/* What there is to say about the connection now, or NULL; the caller frees it. */
char *record_stream_news(struct record_stream *s);

/* The connection is lost, and the user has been told: the end has to wait for it. */
bool record_stream_is_lost(const struct record_stream *s);

/* All bytes have been handed over; waits until the receiver has stored them. whole: they are a
 * complete trace. False: the receiver does not have them. */
bool record_stream_finish(struct record_stream *s, bool whole);

/* Why, and how much it has; the caller frees it. */
char *record_stream_why(const struct record_stream *s);

void record_stream_close(struct record_stream *s);

#endif
