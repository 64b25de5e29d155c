/* SPDX-License-Identifier: Apache-2.0 */
/* The receiver's side of one connection: see receive_session.h. */
#include "stream/receive_session.h"

#include <string.h>

#include "base/varint.h"

static bool receive_session_fail(struct receive_session *s, enum stream_fault fault)
{
	s->fault = fault;
	return false;
}

static bool say_number(struct receive_session *s, enum stream_type type, uint64_t number)
{
	uint8_t payload[8];

	for (unsigned int i = 0; i < 8; i++)
		payload[i] = (uint8_t)(number >> (8 * i));
	if (stream_wire_say(&s->wire, type, payload, sizeof(payload), NULL, 0))
		return true;
	return receive_session_fail(s, STREAM_NO_MEMORY);
}

static bool refuse(struct receive_session *s, enum stream_fault reason)
{
	say_number(s, STREAM_REFUSE, reason);
	return receive_session_fail(s, reason);
}

void receive_session_begin(struct receive_session *s, const struct stream_key *key,
			   struct stream_intake *intake, const uint8_t nonce[STREAM_NONCE])
{
	memset(s, 0, sizeof(*s));
	stream_wire_begin(&s->wire, key != NULL, STREAM_MOST_SMALL);
	s->key = key;
	s->intake = intake;
	memcpy(s->nonce, nonce, sizeof(s->nonce));
}

void receive_session_free(struct receive_session *s)
{
	stream_wire_free(&s->wire);
	memset(s, 0, sizeof(*s));
}

static bool say_welcome(struct receive_session *s, const struct stream_message *hello)
{
	uint8_t welcome[STREAM_WELCOME_BYTES] = {STREAM_VERSION, 0, 0, 0};

	welcome[4] = s->key ? STREAM_KEYED : 0;
	memcpy(welcome + 8, s->nonce, sizeof(s->nonce));
	if (s->key) {
		stream_keys_derive(&s->wire.keys, s->key, hello->payload, hello->size, welcome,
				   sizeof(welcome));
		s->wire.own = s->wire.keys.receiver;
		s->wire.others = s->wire.keys.sender;
	}
	s->state = RECEIVE_WANTS_START;
	return stream_wire_say(&s->wire, STREAM_WELCOME, welcome, sizeof(welcome), NULL, 0) ||
	       receive_session_fail(s, STREAM_NO_MEMORY);
}

static bool take_hello(struct receive_session *s, const struct stream_message *m)
{
	struct varint_in in = varint_begin(m->payload, m->size);
	uint64_t version, features;

	if (m->size != STREAM_HELLO_BYTES || memcmp(m->payload, STREAM_MAGIC, 8) != 0)
		return receive_session_fail(s, STREAM_NO_STREAM);
	in.at += 8;
	version = varint_fixed(&in, 4);
	features = varint_fixed(&in, 4);
	memcpy(s->id, in.at, STREAM_ID);
	in.at += STREAM_ID;
	s->generation = (uint32_t)varint_fixed(&in, 4);
	varint_fixed(&in, 4);
	s->first = varint_fixed(&in, 8);
	if (version != STREAM_VERSION)
		return refuse(s, STREAM_OTHER_VERSION);
	if (!(features & STREAM_KEYED) != !s->key)
		return refuse(s, s->key ? STREAM_KEY_NEEDED : STREAM_NO_KEY_THERE);
	return say_welcome(s, m);
}

/* A recording that the sender starts again replaces what arrived of it before. */
static bool take_start(struct receive_session *s)
{
	struct stream_intake *in = s->intake;
	bool known = in->begun && !memcmp(in->id, s->id, STREAM_ID);

	if (in->begun && (!known || s->generation < in->generation))
		return refuse(s, STREAM_BUSY);
	if (!known || s->generation > in->generation) {
		if (s->first)
			return refuse(s, STREAM_BEGINNING_GONE);
		if (in->ended || !in->restart(in->context, s->id, s->generation))
			return refuse(s, STREAM_BUSY);
		in->begun = true;
		memcpy(in->id, s->id, STREAM_ID);
		in->generation = s->generation;
		in->taken = in->stored = 0;
	}
	if (in->stored < s->first)
		return refuse(s, STREAM_BEGINNING_GONE);
	if (in->taken > in->stored)
		in->forget(in->context);
	in->taken = in->stored;
	s->wire.most = STREAM_MOST_LARGE;
	s->state = RECEIVE_OPEN;
	s->answer = true;
	return true;
}

static bool take_data(struct receive_session *s, const struct stream_message *m)
{
	struct stream_intake *in = s->intake;

	if (m->size <= 8 || in->ended || bytes_load(m->payload) != in->taken)
		return receive_session_fail(s, STREAM_BROKEN);
	if (!in->store(in->context, m->payload + 8, m->size - 8))
		return receive_session_fail(s, STREAM_NO_MEMORY);
	in->taken += m->size - 8;
	s->answer = true;
	return true;
}

static bool take_end(struct receive_session *s, const struct stream_message *m)
{
	struct stream_intake *in = s->intake;

	if (m->size != 16 || bytes_load(m->payload) != in->taken ||
	    bytes_load(m->payload + 8) > 1 || (in->ended && in->whole != (m->payload[8] == 1)))
		return receive_session_fail(s, STREAM_BROKEN);
	in->ended = s->ended = true;
	in->whole = m->payload[8] == 1;
	return true;
}

static bool take_message(struct receive_session *s, const struct stream_message *m)
{
	if (s->state == RECEIVE_WANTS_HELLO)
		return m->type == STREAM_HELLO ? take_hello(s, m)
					       : receive_session_fail(s, STREAM_NO_STREAM);
	if (s->state == RECEIVE_WANTS_START && m->type == STREAM_REFUSE)
		return receive_session_fail(s, STREAM_WRONG_KEY);
	if (s->state == RECEIVE_WANTS_START)
		return m->type == STREAM_START && !m->size ? take_start(s)
							   : receive_session_fail(s, STREAM_BROKEN);
	switch (m->type) {
	case STREAM_DATA:
		return take_data(s, m);
	case STREAM_PING:
		s->answer = true;
		return true;
	case STREAM_END:
		return take_end(s, m);
	case STREAM_BYE:
		s->state = RECEIVE_OVER;
		return true;
	default:
		return receive_session_fail(s, STREAM_BROKEN);
	}
}

bool receive_session_take(struct receive_session *s)
{
	struct stream_message m;
	enum stream_fault fault;
	int more;

	while (!s->fault && s->state != RECEIVE_OVER &&
	       (more = stream_wire_next(&s->wire, &m, &fault)) != 0) {
		if (more > 0)
			take_message(s, &m);
		else if (fault == STREAM_WRONG_KEY && s->state == RECEIVE_WANTS_START)
			refuse(s, fault);
		else
			receive_session_fail(s, fault);
	}
	return !s->fault;
}

bool receive_session_ack(struct receive_session *s)
{
	s->answer = false;
	return say_number(s, STREAM_ACK, s->intake->stored);
}

bool receive_session_done(struct receive_session *s)
{
	s->answer = s->ended = false;
	return say_number(s, STREAM_DONE, s->intake->stored);
}
