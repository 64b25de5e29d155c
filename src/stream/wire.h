/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages of a stream (doc/FORMAT.md, 5) in the bytes of one connection; no input or output.
 *
 *	length u32 │ type u8 │ 3 zeros │ payload ... │ tag, 32 bytes, when there is a key
 *
 * Incoming data is untrusted: a message longer than `most` ends the connection before any of it is kept.
 */
#ifndef MAYFLY_STREAM_WIRE_H
#define MAYFLY_STREAM_WIRE_H

#include "stream/key.h"
#include "base/bytes.h"

#define STREAM_MAGIC   "MAYFLYST"
#define STREAM_VERSION 1u
#define STREAM_KEYED   1u /* feature: messages have tags */

#define STREAM_HEAD  8u
#define STREAM_ID    16u
#define STREAM_NONCE 32u

#define STREAM_HELLO_BYTES   80u
#define STREAM_WELCOME_BYTES 40u
#define STREAM_MOST_DATA     (128u << 10)
/* Messages of the handshake and of the receiver have no longer payload. */
#define STREAM_MOST_SMALL STREAM_HELLO_BYTES
#define STREAM_MOST_LARGE (8u + STREAM_MOST_DATA)

enum stream_type {
	STREAM_HELLO = 1,
	STREAM_WELCOME,
	STREAM_REFUSE,
	STREAM_START,
	STREAM_ACK,
	STREAM_DATA,
	STREAM_PING,
	STREAM_END,
	STREAM_DONE,
	STREAM_BYE,
};

/* Why a connection cannot be used. The first ones are sent in REFUSE. */
enum stream_fault {
	STREAM_FINE,
	STREAM_OTHER_VERSION,
	STREAM_NO_KEY_THERE,   /* the receiver has none */
	STREAM_KEY_NEEDED,     /* the receiver wants one */
	STREAM_WRONG_KEY,      /* it is not the same */
	STREAM_BUSY,	       /* with another recording */
	STREAM_BEGINNING_GONE, /* it lacks bytes that the sender no longer has */
	STREAM_LAST_REASON = STREAM_BEGINNING_GONE,
	STREAM_NO_STREAM, /* the data is not one of these messages */
	STREAM_BROKEN,	  /* one of them, where it must not be */
	STREAM_NO_MEMORY,
};

struct stream_message {
	uint8_t type;
	const uint8_t *payload;
	size_t size;
	const uint8_t *head, *tag; /* tag: NULL without a key */
};

struct stream_wire {
	struct bytes in, out;
	size_t in_at, out_at; /* how much of them is done with */
	size_t most;	      /* payload that may come */
	bool keyed;
	struct stream_keys keys;
	const uint8_t *own, *others; /* the two of `keys`, NULL: not known yet */
	uint64_t sent, received;     /* tagged messages */
};

void stream_wire_begin(struct stream_wire *w, bool keyed, size_t most);
void stream_wire_free(struct stream_wire *w);

/* Room for bytes from the other side; the caller then reports how many came. NULL: out of memory.
 */
uint8_t *stream_wire_room(struct stream_wire *w, size_t size);
void stream_wire_came(struct stream_wire *w, size_t size);

/* 1: a message, good until the next call; 0: more bytes are needed; -1: *fault. The tag has been
 * checked, except while the keys are not known. */
int stream_wire_next(struct stream_wire *w, struct stream_message *m, enum stream_fault *fault);

/* The same check for the message that the keys depend on. */
bool stream_wire_check(struct stream_wire *w, const struct stream_message *m);

/* Adds a message to what waits to be sent; its payload is in two parts. False: out of memory. */
bool stream_wire_say(struct stream_wire *w, enum stream_type type, const void *first,
		     size_t first_size, const void *second, size_t second_size);

/* What waits to be sent; then say how much of it has been. */
const uint8_t *stream_wire_waiting(const struct stream_wire *w, size_t *size);
void stream_wire_went(struct stream_wire *w, size_t size);

#endif
