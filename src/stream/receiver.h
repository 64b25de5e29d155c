/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receives one recording over as many connections as it takes.
 *
 * A new connection has a short time to show that it is a sender with the key; when the few places for
 * that are taken, the one that has waited longest is closed. One connection brings the recording: the newest.
 */
#ifndef MAYFLY_STREAM_RECEIVER_H
#define MAYFLY_STREAM_RECEIVER_H

#include "stream/address.h"
#include "stream/receive_session.h"

enum stream_event {
	STREAM_EVENT_BEGUN,   /* the recording's first connection, or its next one */
	STREAM_EVENT_LOST,    /* that connection is gone */
	STREAM_EVENT_REFUSED, /* somebody was turned away: `fault` */
	STREAM_EVENT_FULL,    /* cannot store: `error`; it is tried again */
	STREAM_EVENT_ROOM,    /* it works again */
};

struct stream_receiver_options {
	int listener;
	int stop; /* readable: end */
	const struct stream_key *key;
	int64_t timeout_ns; /* for the sender to come back; 0: for ever */
	struct stream_intake *intake;
	/* Stores the waiting bytes; sets intake->stored. 0 or an errno. */
	int (*flush)(void *context);
	/* All is stored, and this is the end. False: it failed, and that was said. */
	bool (*finish)(void *context, bool whole);
	void (*event)(void *context, enum stream_event event, const char *peer,
		      enum stream_fault fault, int error);
	void *context; /* of these three */
};

enum stream_outcome {
	STREAM_RECEIVED, /* finish() was called */
	STREAM_STOPPED,	 /* by options.stop */
	STREAM_TIMED_OUT,
	STREAM_FAILED, /* poll(), memory, or finish(): errno, or 0 when it was said */
};

enum stream_outcome stream_receive(const struct stream_receiver_options *options);

#endif
