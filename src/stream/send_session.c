/* SPDX-License-Identifier: Apache-2.0 */
/* The sender's side of one connection: see send_session.h. */
#include "stream/send_session.h"

#include <string.h>

static bool send_session_fail(struct send_session *s, enum stream_fault fault)
{
	s->fault = fault;
	return false;
}

static bool say(struct send_session *s, enum stream_type type, const void *first, size_t first_size,
		const void *second, size_t second_size)
{
	if (stream_wire_say(&s->wire, type, first, first_size, second, second_size))
		return true;
	return send_session_fail(s, STREAM_NO_MEMORY);
}

bool send_session_begin(struct send_session *s, const struct stream_key *key,
			const struct send_offer *offer, const uint8_t nonce[STREAM_NONCE])
{
	struct bytes hello = {0};

	memset(s, 0, sizeof(*s));
	stream_wire_begin(&s->wire, key != NULL, STREAM_MOST_SMALL);
	s->key = key;
	s->offer = *offer;
	bytes_put(&hello, STREAM_MAGIC, 8);
	bytes_put_fixed(&hello, STREAM_VERSION, 4);
	bytes_put_fixed(&hello, key ? STREAM_KEYED : 0, 4);
	bytes_put(&hello, offer->id, STREAM_ID);
	bytes_put_fixed(&hello, offer->generation, 4);
	bytes_put_fixed(&hello, 0, 4);
	bytes_put_fixed(&hello, offer->first, 8);
	bytes_put(&hello, nonce, STREAM_NONCE);
	if (!hello.failed)
		memcpy(s->hello, hello.at, sizeof(s->hello));
	else
		send_session_fail(s, STREAM_NO_MEMORY);
	bytes_free(&hello);
	return !s->fault && say(s, STREAM_HELLO, s->hello, sizeof(s->hello), NULL, 0);
}

void send_session_free(struct send_session *s)
{
	stream_wire_free(&s->wire);
	memset(s, 0, sizeof(*s));
}

/* Tells the other side, too, why nothing comes. */
static bool refuse_key(struct send_session *s)
{
	static const uint8_t reason[8] = {STREAM_WRONG_KEY};

	say(s, STREAM_REFUSE, reason, sizeof(reason), NULL, 0);
	return send_session_fail(s, STREAM_WRONG_KEY);
}

static bool take_welcome(struct send_session *s, const struct stream_message *m)
{
	uint32_t version, features;

	if (m->size != STREAM_WELCOME_BYTES)
		return send_session_fail(s, STREAM_BROKEN);
	version = (uint32_t)bytes_load(m->payload);
	features = (uint32_t)(bytes_load(m->payload) >> 32);
	if (version != STREAM_VERSION)
		return send_session_fail(s, STREAM_OTHER_VERSION);
	if (!(features & STREAM_KEYED) != !s->key)
		return send_session_fail(s, s->key ? STREAM_NO_KEY_THERE : STREAM_KEY_NEEDED);
	if (s->key) {
		stream_keys_derive(&s->wire.keys, s->key, s->hello, sizeof(s->hello), m->payload,
				   m->size);
		s->wire.own = s->wire.keys.sender;
		s->wire.others = s->wire.keys.receiver;
		if (!stream_wire_check(&s->wire, m))
			return refuse_key(s);
	}
	s->state = SEND_WANTS_OFFSET;
	return say(s, STREAM_START, NULL, 0, NULL, 0);
}

static bool take_ack(struct send_session *s, uint64_t offset)
{
	if (s->state == SEND_WANTS_OFFSET) {
		if (offset < s->offer.first)
			return send_session_fail(s, STREAM_BEGINNING_GONE);
		if (offset > s->offer.available)
			return send_session_fail(s, STREAM_BROKEN);
		s->sent = offset;
		s->state = SEND_OPEN;
	} else if (offset < s->acked || offset > s->sent) {
		return send_session_fail(s, STREAM_BROKEN);
	}
	s->acked = offset;
	return true;
}

/* Valid only in place of an opening message: a refusal has no tag, so an attacker on the way could
 * forge it. */
static bool take_refusal(struct send_session *s, const struct stream_message *m)
{
	uint64_t reason = m->size == 8 ? bytes_load(m->payload) : 0;

	if (s->state > SEND_WANTS_OFFSET || !reason || reason > STREAM_LAST_REASON)
		return send_session_fail(s, STREAM_BROKEN);
	return send_session_fail(s, (enum stream_fault)reason);
}

static bool take_message(struct send_session *s, const struct stream_message *m)
{
	bool early = s->state == SEND_WANTS_WELCOME;

	if (m->type == STREAM_REFUSE)
		return take_refusal(s, m);
	if (m->type == STREAM_WELCOME && early)
		return take_welcome(s, m);
	if (early || m->size != 8)
		return send_session_fail(s, early ? STREAM_NO_STREAM : STREAM_BROKEN);
	if (m->type == STREAM_ACK)
		return take_ack(s, bytes_load(m->payload));
	if (m->type != STREAM_DONE || s->state != SEND_ENDED || bytes_load(m->payload) != s->sent)
		return send_session_fail(s, STREAM_BROKEN);
	s->acked = s->sent;
	s->state = SEND_DONE;
	return say(s, STREAM_BYE, NULL, 0, NULL, 0);
}

bool send_session_take(struct send_session *s)
{
	struct stream_message m;
	enum stream_fault fault;
	int more;

	while (!s->fault && (more = stream_wire_next(&s->wire, &m, &fault)) != 0) {
		if (more < 0)
			send_session_fail(s, fault);
		else
			take_message(s, &m);
	}
	return !s->fault;
}

bool send_session_data(struct send_session *s, const void *bytes, size_t size)
{
	uint8_t offset[8];

	for (unsigned int i = 0; i < 8; i++)
		offset[i] = (uint8_t)(s->sent >> (8 * i));
	s->sent += size;
	return say(s, STREAM_DATA, offset, sizeof(offset), bytes, size);
}

bool send_session_ping(struct send_session *s)
{
	return say(s, STREAM_PING, NULL, 0, NULL, 0);
}

bool send_session_end(struct send_session *s, bool whole)
{
	uint8_t payload[16] = {0};

	for (unsigned int i = 0; i < 8; i++)
		payload[i] = (uint8_t)(s->sent >> (8 * i));
	payload[8] = whole;
	s->state = SEND_ENDED;
	return say(s, STREAM_END, payload, sizeof(payload), NULL, 0);
}
