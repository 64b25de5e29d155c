/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading the rings of OCaml's runtime. See runtime_rings.h.
 *
 * The runtime may overwrite an event while it is copied. It moves the head before it does so;
 * therefore the head is read again after copying, and a copy that the head has passed is thrown
 * away.
 */
#include "ocaml_events/runtime_rings.h"

#include <stdatomic.h>
#include <string.h>

#define VERSION	       1
#define VERSIONS_MOST  255 /* greater numbers are something else */
#define HEADER_WORDS   8
#define HEADER_BYTES   (HEADER_WORDS * 8)
#define LEAST_HEAD     16
#define MOST_HEAD      4096
#define MOST_WORDS     ((uint64_t)1 << 32)
#define LENGTH_SHIFT   54
#define USER_BIT       ((uint64_t)1 << 53)
#define TYPE_SHIFT     49
#define NUMBER_SHIFT   36
#define COPIED_WORDS   3  /* of an event: what is of interest */
#define OVERTAKEN_MOST 16 /* times in a row; then the rest is left for the next time */

/* Fields of the header. */
enum {
	VERSION_AT,
	DOMAINS_AT,
	HEAD_BYTES_AT,
	RING_BYTES_AT,
	WORDS_AT,
	HEADS_AT,
	RINGS_AT,
	NAMES_AT
};

static uint64_t word_at(const struct runtime_rings *r, uint64_t offset)
{
	uint64_t word;

	memcpy(&word, r->data + offset, sizeof(word));
	return word;
}

static bool get_header(const void *data, size_t size, uint64_t field[HEADER_WORDS])
{
	memset(field, 0, HEADER_BYTES);
	if (size < HEADER_BYTES)
		return false;
	memcpy(field, data, HEADER_BYTES);
	if (!field[VERSION_AT] || field[VERSION_AT] > VERSIONS_MOST || !field[DOMAINS_AT] ||
	    field[DOMAINS_AT] > RUNTIME_DOMAINS || field[HEAD_BYTES_AT] < LEAST_HEAD ||
	    field[HEAD_BYTES_AT] > MOST_HEAD || field[WORDS_AT] > MOST_WORDS ||
	    field[RING_BYTES_AT] != 8 * field[WORDS_AT] || field[HEADS_AT] < HEADER_BYTES)
		return false;
	return field[RINGS_AT] >= field[DOMAINS_AT] * field[HEAD_BYTES_AT] &&
	       field[RINGS_AT] - field[DOMAINS_AT] * field[HEAD_BYTES_AT] == field[HEADS_AT] &&
	       field[NAMES_AT] > field[RINGS_AT];
}

bool runtime_rings_recognise(const void *data, size_t size)
{
	uint64_t field[HEADER_WORDS];

	return get_header(data, size, field);
}

int runtime_rings_open(struct runtime_rings *r, const void *data, size_t size)
{
	uint64_t field[HEADER_WORDS], words;

	if (!get_header(data, size, field))
		return MAYFLY_E_NOT_A_TRACE;
	if (field[VERSION_AT] != VERSION)
		return MAYFLY_E_VERSION;
	words = field[WORDS_AT];
	*r = (struct runtime_rings){
	    .data = data,
	    .size = size,
	    .domains = (uint32_t)field[DOMAINS_AT],
	    .words = words,
	    .heads = field[HEADS_AT],
	    .head_bytes = field[HEAD_BYTES_AT],
	    .rings = field[RINGS_AT],
	    .names = field[NAMES_AT],
	};
	/* Positions are taken modulo this. */
	return words < COPIED_WORDS || words & (words - 1) ? MAYFLY_E_NOT_A_TRACE : 0;
}

/* The offset of the ring's head; false: it or the ring is not in the file. */
static bool find_ring(const struct runtime_rings *r, uint32_t domain, uint64_t *head,
		      uint64_t *ring)
{
	uint64_t bytes = r->words * 8, index = domain;

	/* No sum overflows: all but the offsets are small. */
	if (domain >= r->domains || r->heads > r->size || r->rings > r->size)
		return false;
	*head = r->heads + index * r->head_bytes;
	*ring = r->rings + index * bytes;
	return *head + LEAST_HEAD <= r->size && *ring + bytes <= r->size;
}

enum get { GOT, SKIPPED, DAMAGED };

static enum get get_event(const uint64_t word[COPIED_WORDS], uint64_t length,
			  struct runtime_event *event)
{
	static const uint8_t own_kinds[] = {RUNTIME_USER_UNIT, RUNTIME_USER_INT, RUNTIME_USER_BEGIN,
					    RUNTIME_USER_END, RUNTIME_USER_CUSTOM};
	/* The other types: padding, sizes of blocks (of an instrumented runtime). */
	static const uint8_t kinds[] = {
	    [1] = RUNTIME_LIFE, [2] = RUNTIME_BEGIN, [3] = RUNTIME_END, [4] = RUNTIME_COUNTER};
	bool own = word[0] & USER_BIT;
	unsigned int type = word[0] >> TYPE_SHIFT & 15;

	if (!own && (!type || type >= sizeof(kinds)))
		return SKIPPED;
	if (length < 2 || (own && type >= sizeof(own_kinds)))
		return DAMAGED;
	event->kind = own ? own_kinds[type] : kinds[type];
	if (length < 3 && (event->kind == RUNTIME_COUNTER || event->kind == RUNTIME_USER_INT))
		return DAMAGED;
	event->number = word[0] >> NUMBER_SHIFT & (RUNTIME_NUMBERS - 1);
	event->mono_ns = word[1];
	event->value = length < 3 ? 0 : word[2];
	return GOT;
}

/* Copies what may be the next event. False: there is none. */
static bool copy_event(const struct runtime_rings *r, uint32_t domain, struct runtime_place *place,
		       uint64_t word[COPIED_WORDS], bool *overtaken)
{
	uint64_t head_at, ring, head, tail, left;

	if (place->damaged || !find_ring(r, domain, &head_at, &ring))
		return false;
	/* In this order the head is the newer one, so that it is at most a ring's size behind. */
	tail = word_at(r, head_at + 8);
	atomic_thread_fence(memory_order_acquire);
	head = word_at(r, head_at);
	if (head > place->at) {
		place->lost += head - place->at;
		place->at = head;
	}
	if (place->at >= tail)
		return false;
	if (tail - place->at > r->words) {
		place->damaged = true;
		return false;
	}
	left = r->words - (place->at & (r->words - 1));
	memset(word, 0, COPIED_WORDS * sizeof(*word));
	memcpy(word, r->data + ring + 8 * (place->at & (r->words - 1)),
	       8 * (left < COPIED_WORDS ? left : COPIED_WORDS));
	atomic_thread_fence(memory_order_acquire);
	*overtaken = word_at(r, head_at) > place->at;
	/* An event never continues at the ring's start. */
	if (!*overtaken && (word[0] >> LENGTH_SHIFT > left || !(word[0] >> LENGTH_SHIFT))) {
		place->damaged = true;
		return false;
	}
	return true;
}

bool runtime_rings_next(const struct runtime_rings *r, uint32_t domain, struct runtime_place *place,
			struct runtime_event *event)
{
	unsigned int tries = 0;
	uint64_t word[COPIED_WORDS];
	bool overtaken;

	while (copy_event(r, domain, place, word, &overtaken)) {
		enum get get;

		if (overtaken) {
			if (++tries == OVERTAKEN_MOST)
				break;
			continue;
		}
		get = get_event(word, word[0] >> LENGTH_SHIFT, event);
		place->at += word[0] >> LENGTH_SHIFT;
		place->damaged = get == DAMAGED;
		if (get == GOT) {
			event->domain = domain;
			return true;
		}
	}
	return false;
}

uint64_t runtime_rings_waiting(const struct runtime_rings *r, uint32_t domain,
			       const struct runtime_place *place)
{
	uint64_t head, ring, tail;

	if (place->damaged || !find_ring(r, domain, &head, &ring))
		return 0;
	tail = word_at(r, head + 8);
	return tail > place->at ? tail - place->at : 0;
}

void runtime_rings_name(const struct runtime_rings *r, uint32_t number,
			char name[RUNTIME_NAME_BYTES])
{
	uint64_t offset = (uint64_t)number * RUNTIME_NAME_BYTES;

	name[0] = 0;
	if (r->names <= r->size && offset + RUNTIME_NAME_BYTES <= r->size - r->names)
		memcpy(name, r->data + r->names + offset, RUNTIME_NAME_BYTES);
	name[RUNTIME_NAME_BYTES - 1] = 0;
}
