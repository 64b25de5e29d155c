/* SPDX-License-Identifier: Apache-2.0 */
/* Messages in bytes: see wire.h. */
#include "stream/wire.h"

#include <stdlib.h>
#include <string.h>

void stream_wire_begin(struct stream_wire *w, bool keyed, size_t most)
{
	*w = (struct stream_wire){.keyed = keyed, .most = most};
}

void stream_wire_free(struct stream_wire *w)
{
	bytes_free(&w->in);
	bytes_free(&w->out);
	*w = (struct stream_wire){0};
}

/* Frees the space of messages that have been handled. */
static void move_up(struct bytes *b, size_t *at)
{
	if (*at && b->used > *at)
		memmove(b->at, b->at + *at, b->used - *at);
	b->used -= *at;
	*at = 0;
}

uint8_t *stream_wire_room(struct stream_wire *w, size_t size)
{
	move_up(&w->in, &w->in_at);
	return bytes_extend(&w->in, size);
}

void stream_wire_came(struct stream_wire *w, size_t size)
{
	w->in.used += size;
}

static bool has_tag(const struct stream_wire *w, uint8_t type)
{
	return w->keyed && type != STREAM_HELLO && type != STREAM_REFUSE;
}

bool stream_wire_check(struct stream_wire *w, const struct stream_message *m)
{
	uint8_t expected[STREAM_TAG];

	if (!m->tag)
		return !w->keyed;
	stream_tag(expected, w->others, w->received++, m->head, STREAM_HEAD, m->payload, m->size);
	return stream_tags_equal(expected, m->tag);
}

int stream_wire_next(struct stream_wire *w, struct stream_message *m, enum stream_fault *fault)
{
	size_t left = w->in.used - w->in_at, whole;
	const uint8_t *head;
	uint32_t length;

	if (left < STREAM_HEAD)
		return 0;
	head = w->in.at + w->in_at;
	length = (uint32_t)bytes_load(head);
	*fault = STREAM_NO_STREAM;
	if (head[4] < STREAM_HELLO || head[4] > STREAM_BYE || head[5] || head[6] || head[7] ||
	    length > w->most)
		return -1;
	*m = (struct stream_message){head[4], head + STREAM_HEAD, length, head, NULL};
	whole = STREAM_HEAD + length;
	if (has_tag(w, m->type)) {
		m->tag = head + whole;
		whole += STREAM_TAG;
	}
	if (left < whole)
		return 0;
	w->in_at += whole;
	*fault = STREAM_WRONG_KEY;
	if (m->tag && w->others && !stream_wire_check(w, m))
		return -1;
	*fault = STREAM_FINE;
	return 1;
}

bool stream_wire_say(struct stream_wire *w, enum stream_type type, const void *first,
		     size_t first_size, const void *second, size_t second_size)
{
	size_t size = first_size + second_size, start;
	uint8_t tag[STREAM_TAG];

	move_up(&w->out, &w->out_at);
	start = w->out.used;
	bytes_put_fixed(&w->out, size, 4);
	bytes_put_fixed(&w->out, type, 4);
	if (first_size)
		bytes_put(&w->out, first, first_size);
	if (second_size)
		bytes_put(&w->out, second, second_size);
	if (w->out.failed)
		return false;
	if (!has_tag(w, (uint8_t)type))
		return true;
	stream_tag(tag, w->own, w->sent++, w->out.at + start, STREAM_HEAD,
		   w->out.at + start + STREAM_HEAD, size);
	bytes_put(&w->out, tag, sizeof(tag));
	return !w->out.failed;
}

const uint8_t *stream_wire_waiting(const struct stream_wire *w, size_t *size)
{
	*size = w->out.used - w->out_at;
	return *size ? w->out.at + w->out_at : NULL;
}

void stream_wire_went(struct stream_wire *w, size_t size)
{
	w->out_at += size;
	if (w->out_at == w->out.used)
		w->out.used = w->out_at = 0;
}
