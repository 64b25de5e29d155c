/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The receiver's side of one connection; no input or output. What it may do to the recording goes
 * through a stream_intake, which outlives connections:
 *
 *	connection ─┐
 *	connection ─┼─> receive_session ──> stream_intake ──> store()
 *	connection ─┘   handshake, order    which recording, how far
 *
 * Nothing is changed before the other side has shown that it has the key.
 */
#ifndef MAYFLY_STREAM_RECEIVE_SESSION_H
#define MAYFLY_STREAM_RECEIVE_SESSION_H

#include "stream/wire.h"

struct stream_intake {
	bool begun; /* it belongs to the recording `id` */
	uint8_t id[STREAM_ID];
	uint32_t generation;
	uint64_t taken;	 /* bytes given to store() */
	uint64_t stored; /* of them, those that will stay; kept up by the caller */
	bool ended, whole;
	void *context;
	/* All that was stored is void: bytes of this recording come, from 0. False: it cannot be
	 * done, which the caller knows of. */
	bool (*restart)(void *context, const uint8_t id[STREAM_ID], uint32_t generation);
	bool (*store)(void *context, const void *bytes, size_t size);
	/* What is not stored will come again. */
	void (*forget)(void *context);
};

struct receive_session {
	struct stream_wire wire;
	const struct stream_key *key; /* NULL: none */
	struct stream_intake *intake;
	uint8_t nonce[STREAM_NONCE];
	enum { RECEIVE_WANTS_HELLO, RECEIVE_WANTS_START, RECEIVE_OPEN, RECEIVE_OVER } state;
	enum stream_fault fault; /* not FINE: close after sending what waits */
	uint8_t id[STREAM_ID];
	uint32_t generation;
	uint64_t first;
	bool answer; /* the other side waits for an ACK */
	bool ended;  /* it has said END, and waits for DONE */
};

void receive_session_begin(struct receive_session *s, const struct stream_key *key,
			   struct stream_intake *intake, const uint8_t nonce[STREAM_NONCE]);
void receive_session_free(struct receive_session *s);

/* After stream_wire_came(). False: s->fault. */
bool receive_session_take(struct receive_session *s);

/* While open: reports how much has been stored. To be called only when nothing else waits to be
 * sent: a peer that keeps asking and never reads must not fill the memory. */
bool receive_session_ack(struct receive_session *s);

/* The recording is complete and has its name. */
bool receive_session_done(struct receive_session *s);

#endif
