/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mayfly record --stream: the options, and what is said about the receiver.
 *
 * With -o the trace is written to its file and sent from there. Without, nothing of it touches this
 * machine's disks: the spool is in memory (/dev/shm), and what the receiver has not stored waits in
 * a buffer. When that is full, the spool is not read on; when the spool is full, the agent drops
 * and counts samples. The program never waits.
 */
#ifndef MAYFLY_RECORD_STREAM_H
#define MAYFLY_RECORD_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/option_table.h"
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

/* The options; their struct is struct record_stream. */
extern const struct option_row record_stream_rows[];

/* When all are known; output: of -o, or NULL. False after a line on stderr. */
bool record_stream_check(struct record_stream *s, const char *output);

/* Makes the sender, which nothing is done with yet. False after a line on stderr. */
bool record_stream_open(struct record_stream *s);

/* What there is to say about the connection now, or NULL; the caller frees it. */
char *record_stream_news(struct record_stream *s);

/* The trace is given: waits until the receiver has it. whole: it is a complete one. False: it does
 * not. */
bool record_stream_finish(struct record_stream *s, bool whole);

/* Why, and how much it has; the caller frees it. */
char *record_stream_why(const struct record_stream *s);

void record_stream_close(struct record_stream *s);

/* Reads a key file; false after a line on stderr. Also for the receiver. */
bool read_key_file(struct stream_key *key, const char *path);

/* Reads --stream's or the receiver's address. Without a key it must not lead off this machine.
 * False after a line on stderr. */
bool read_stream_address(struct stream_address *a, const char *text, bool keyed);

#endif
