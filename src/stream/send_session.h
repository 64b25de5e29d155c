/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sender's side of one connection; no input or output. Bytes come in, bytes wait to go out
 * (stream_wire_waiting()).
 *
 *	HELLO ──> WELCOME <── START ──> ACK <──		then the session is open
 *	DATA, PING ──> ACK <── END ──> DONE <── BYE ──>
 */
#ifndef MAYFLY_STREAM_SEND_SESSION_H
#define MAYFLY_STREAM_SEND_SESSION_H

#include "stream/wire.h"

/* Which bytes of which recording there are to send. */
struct send_offer {
	uint8_t id[STREAM_ID];
	uint32_t generation;
	uint64_t first, available; /* bytes [first, available) can be had */
};

struct send_session {
	struct stream_wire wire;
	const struct stream_key *key; /* NULL: none */
	uint8_t hello[STREAM_HELLO_BYTES];
	struct send_offer offer;
	enum { SEND_WANTS_WELCOME, SEND_WANTS_OFFSET, SEND_OPEN, SEND_ENDED, SEND_DONE } state;
	enum stream_fault fault; /* not FINE: close the connection */
	uint64_t acked, sent;	 /* while open: what the receiver has stored, and was sent */
};

bool send_session_begin(struct send_session *s, const struct stream_key *key,
			const struct send_offer *offer, const uint8_t nonce[STREAM_NONCE]);
void send_session_free(struct send_session *s);

/* After stream_wire_came(). False: s->fault. */
bool send_session_take(struct send_session *s);

/* While open. They go on from s->sent. False: s->fault. */
bool send_session_data(struct send_session *s, const void *bytes, size_t size);
bool send_session_ping(struct send_session *s);

/* All is sent. whole: it is a complete trace, not one that was cut off. */
bool send_session_end(struct send_session *s, bool whole);

#endif
