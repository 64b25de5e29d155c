/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzz target: the two ends of a stream. The first byte says what happens to the rest:
 *
 *	0	a receiver without a key hears it
 *	1	a receiver with a key hears it
 *	2	a sender hears it
 *	else	a sender and a receiver with one key talk, and somebody between them changes bytes
 *
 * Nothing that was not sent may be stored, and nothing out of order.
 */
#include <stdlib.h>
#include <string.h>

#include "stream/receive_session.h"
#include "stream/send_session.h"

#include "fuzz_main.h"

#define TRUTH_BYTES 5000u

static const uint8_t nonce[STREAM_NONCE] = {1, 2, 3};
static uint8_t truth[TRUTH_BYTES];
static struct stream_key key;

struct store {
	uint8_t bytes[1u << 17];
	size_t used;
};

static bool restart(void *context, const uint8_t id[STREAM_ID], uint32_t generation)
{
	(void)id;
	(void)generation;
	((struct store *)context)->used = 0;
	return true;
}

static bool keep(void *context, const void *bytes, size_t size)
{
	struct store *s = context;

	if (size > sizeof(s->bytes) - s->used)
		return false;
	memcpy(s->bytes + s->used, bytes, size);
	s->used += size;
	return true;
}

static void forget(void *context)
{
	(void)context;
}

static struct stream_intake intake_into(struct store *s)
{
	return (struct stream_intake){
	    .context = s, .restart = restart, .store = keep, .forget = forget};
}

static void require(bool condition)
{
	if (!condition)
		abort();
}

/* In pieces of a size that the data has chosen. False: it does not want more. */
static bool hear(struct stream_wire *w, const uint8_t *data, size_t size)
{
	uint8_t *room = stream_wire_room(w, size);

	if (!room)
		return false;
	if (size)
		memcpy(room, data, size);
	stream_wire_came(w, size);
	return true;
}

static void to_receiver(const uint8_t *data, size_t size, const struct stream_key *with)
{
	struct store *store = calloc(1, sizeof(*store));
	struct stream_intake intake = intake_into(store);
	struct receive_session s;
	size_t piece = size ? 1 + data[0] * 16u : 1, waiting;

	require(store);
	receive_session_begin(&s, with, &intake, nonce);
	for (size_t at = 0; at < size && !s.fault; at += piece) {
		if (!hear(&s.wire, data + at, size - at < piece ? size - at : piece))
			break;
		receive_session_take(&s);
		require(intake.taken == store->used);
		intake.stored = intake.taken;
		stream_wire_waiting(&s.wire, &waiting);
		if (s.state == RECEIVE_OPEN && s.answer && !waiting)
			receive_session_ack(&s);
	}
	require(!with || !store->used); /* it takes the key to say something */
	stream_wire_waiting(&s.wire, &waiting);
	require(waiting < 4096);
	receive_session_free(&s);
	free(store);
}

static void to_sender(const uint8_t *data, size_t size)
{
	struct send_offer offer = {.first = 10, .available = 100000};
	size_t piece = size ? 1 + data[0] : 1;
	struct send_session s;

	require(send_session_begin(&s, NULL, &offer, nonce));
	for (size_t at = 0; at < size && !s.fault; at += piece) {
		if (!hear(&s.wire, data + at, size - at < piece ? size - at : piece))
			break;
		send_session_take(&s);
		require(s.acked <= s.sent && s.sent <= offer.available);
		if (s.state != SEND_OPEN || s.fault)
			continue;
		require(s.sent >= offer.first);
		if (s.sent + 100 <= offer.available)
			send_session_data(&s, truth, 100);
		else
			send_session_end(&s, true);
	}
	send_session_free(&s);
}

/* ---- somebody in between ---- */

struct meddler {
	const uint8_t *data;
	size_t size;
};

/* Three bytes of the input for each message that passes: whether, where and how it is changed. */
static void pass(struct stream_wire *from, struct stream_wire *to, struct meddler *m)
{
	uint8_t copy[4096];
	size_t size;
	const uint8_t *waiting = stream_wire_waiting(from, &size);

	if (!waiting)
		return;
	if (size > sizeof(copy))
		size = sizeof(copy);
	memcpy(copy, waiting, size);
	stream_wire_went(from, size);
	if (m->size >= 3) {
		if (m->data[0] & 1)
			copy[(m->data[1] | m->data[0] << 8) / 2 % size] ^= m->data[2];
		else if (m->data[0] & 2)
			size = (size_t)m->data[1] % (size + 1);
		m->data += 3;
		m->size -= 3;
	}
	hear(to, copy, size);
}

static void between(const uint8_t *data, size_t size)
{
	struct store *store = calloc(1, sizeof(*store));
	struct stream_intake intake = intake_into(store);
	struct send_offer offer = {.available = TRUTH_BYTES};
	struct meddler meddler = {data, size};
	struct receive_session r;
	struct send_session s;

	require(store && send_session_begin(&s, &key, &offer, nonce));
	receive_session_begin(&r, &key, &intake, nonce);
	for (unsigned int i = 0; i < 40 && !s.fault && !r.fault; i++) {
		pass(&s.wire, &r.wire, &meddler);
		receive_session_take(&r);
		require(store->used <= s.sent && !memcmp(store->bytes, truth, store->used));
		require(!intake.ended || store->used == TRUTH_BYTES);
		intake.stored = intake.taken;
		if (r.state == RECEIVE_OPEN && r.ended)
			receive_session_done(&r);
		else if (r.state == RECEIVE_OPEN && r.answer)
			receive_session_ack(&r);
		pass(&r.wire, &s.wire, &meddler);
		send_session_take(&s);
		require(s.acked <= store->used);
		if (s.state != SEND_OPEN)
			continue;
		if (s.sent < TRUTH_BYTES)
			send_session_data(&s, truth + s.sent, TRUTH_BYTES / 5);
		else
			send_session_end(&s, true);
	}
	require(size || s.state == SEND_DONE);
	send_session_free(&s);
	receive_session_free(&r);
	free(store);
}

static void start(void)
{
	if (key.size)
		return;
	require(stream_keys_start() && stream_keys_supported());
	key.size = 32;
	memset(key.bytes, 'k', key.size);
	for (size_t i = 0; i < TRUTH_BYTES; i++)
		truth[i] = (uint8_t)(i * 37 + i / 251);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	start();
	if (!size)
		return 0;
	switch (data[0]) {
	case 0:
		to_receiver(data + 1, size - 1, NULL);
		break;
	case 1:
		to_receiver(data + 1, size - 1, &key);
		break;
	case 2:
		to_sender(data + 1, size - 1);
		break;
	default:
		between(data + 1, size - 1);
	}
	return 0;
}
