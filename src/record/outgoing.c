/* SPDX-License-Identifier: Apache-2.0 */
/* A trace on its way to a receiver: see outgoing.h. */
#include "record/outgoing.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/system/clock.h"

/* A shorter break is not worth a message. */
#define OUTAGE_NS 2000000000ll

int record_stream_open(struct record_stream *s)
{
	struct stream_sender_options options = {
	    .address = &s->address,
	    .key = s->key_file ? &s->key : NULL,
	    .ring_bytes = s->buffer_bytes,
	    .timeout_ns = s->timeout_ns,
	};

	if (!s->to)
		return 0;
	return stream_keys_start() ? stream_sender_new(&options, &s->sender) : EIO;
}

void record_stream_close(struct record_stream *s)
{
	stream_sender_free(s->sender);
	s->sender = NULL;
	stream_key_clear(&s->key);
}

static const char *fault_text(const struct stream_sender_status *status)
{
	switch (status->fault) {
	case STREAM_FINE:
		break;
	case STREAM_OTHER_VERSION:
		return "the receiver is another version of mayfly";
	case STREAM_NO_KEY_THERE:
		return "the receiver has no key";
	case STREAM_KEY_NEEDED:
		return "the receiver needs a key, --key FILE";
	case STREAM_WRONG_KEY:
		return "the receiver has another key";
	case STREAM_BUSY:
		return "the receiver is busy with another recording";
	case STREAM_BEGINNING_GONE:
		return "the beginning of the trace is lost: neither end has it any more";
	case STREAM_NO_STREAM:
		return "the other end is not 'mayfly receive'";
	case STREAM_BROKEN:
		return "the receiver's answer is invalid";
	case STREAM_NO_MEMORY:
		return "out of memory";
	}
	if (status->error == ECONNREFUSED || status->error == ENOENT)
		return "no receiver is listening";
	return status->error ? strerror(status->error) : "no answer";
}

char *record_stream_news(struct record_stream *s)
{
	struct stream_sender_status status;
	char *text = NULL;

	if (!s->sender)
		return NULL;
	stream_sender_status(s->sender, &status);
	if (status.connected && s->said_lost) {
		s->said_lost = false;
		if (asprintf(&text, "connected to %s again", s->to) < 0)
			text = NULL;
	} else if (!status.connected && !s->said_lost && (status.error || status.fault) &&
		   now_ns() - status.since_ns > OUTAGE_NS) {
		s->said_lost = true;
		if (asprintf(&text, "no connection to %s: %s; trying again", s->to,
			     fault_text(&status)) < 0)
			text = NULL;
	}
	return text;
}

bool record_stream_is_lost(const struct record_stream *s)
{
	struct stream_sender_status status;

	if (!s->sender || !s->said_lost)
		return false;
	stream_sender_status(s->sender, &status);
	return !status.connected;
}

bool record_stream_finish(struct record_stream *s, bool whole)
{
	if (!s->sender)
		return true;
	if (!stream_sender_finish(s->sender, whole) || !whole)
		s->failed = true;
	return !s->failed;
}

char *record_stream_why(const struct record_stream *s)
{
	struct stream_sender_status status;
	char got[32] = "nothing", *text;

	stream_sender_status(s->sender, &status);
	if (status.stored)
		snprintf(got, sizeof(got), "only %" PRIu64 " bytes", status.stored);
	if (asprintf(&text, "%s has received %s of the trace after %.3g s: %s", s->to, got,
		     (double)s->timeout_ns / 1e9, fault_text(&status)) < 0)
		return NULL;
	return text;
}
