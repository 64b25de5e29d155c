/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Labels: see labels.h. A label gets its number from a table that only grows and has no lock. A
 * thread that loses its slot to another thread compares with the label that is there now.
 */
#include "agent/labels.h"

#include <string.h>

#include "agent/names.h"

#define SLOTS (2 * SPOOL_LABEL_IDS)

struct label {
	const char *key, *value;
	uint8_t key_length, value_length;
};

/* Pages that are never touched cost nothing. */
static struct label labels[SPOOL_LABEL_IDS];
static _Atomic uint32_t slots[SLOTS]; /* number of the label, 0: free */
static _Atomic uint32_t latest;

/* ---- numbers ---- */

static uint32_t hash_label(uint32_t h, const char *text, uint32_t length)
{
	for (uint32_t i = 0; i < length; i++)
		h = (h ^ (uint8_t)text[i]) * 0x01000193u;
	return (h ^ length) * 0x9e3779b1u;
}

static bool equal(const struct label *a, const struct label *b)
{
	return a->key_length == b->key_length && a->value_length == b->value_length &&
	       !memcmp(a->key, b->key, a->key_length) &&
	       !memcmp(a->value, b->value, a->value_length);
}

static COLD void note_full(void)
{
	static _Atomic bool noted;

	if (spool_header && !atomic_exchange(&noted, true))
		spool_note("there are too many different labels: some are not recorded");
}

static COLD uint32_t add_label(const struct label *given)
{
	uint32_t number = atomic_load(&latest);
	struct label *label;

	do {
		if (number + 1 >= SPOOL_LABEL_IDS) {
			note_full();
			return 0;
		}
	} while (!atomic_compare_exchange_weak(&latest, &number, number + 1));
	label = &labels[++number];
	*label = *given;
	label->key = names_keep(given->key, given->key_length);
	label->value = names_keep(given->value, given->value_length);
	return label->key && label->value ? number : 0;
}

uint32_t labels_number(const char *key, const char *value)
{
	struct label given = {
	    .key = key,
	    .value = value,
	    .key_length = (uint8_t)names_length(key),
	    .value_length = (uint8_t)names_length(value),
	};
	uint32_t h = hash_label(hash_label(0, key, given.key_length), value, given.value_length);
	uint32_t added = 0;

	for (uint32_t i = h >> 15;;) {
		_Atomic uint32_t *slot = &slots[i % SLOTS];
		uint32_t number = atomic_load_explicit(slot, memory_order_acquire);

		if (!number) {
			if (!added && !(added = add_label(&given)))
				return 0;
			if (atomic_compare_exchange_strong(slot, &number, added))
				return added;
		}
		if (equal(&labels[number], &given))
			return number;
		i++;
	}
}

/* ---- the thread's ---- */

#define FENCE __atomic_signal_fence(__ATOMIC_SEQ_CST)

/* The places after the last label hold 0, so a signal handler in between finds no wrong label. */
void labels_push(uint32_t number)
{
	uint32_t place = self.labels;

	self.labels = place + 1;
	FENCE;
	if (place < SPOOL_LABELS_MOST)
		self.label[place] = number;
	FENCE;
	self.label_version++;
}

void labels_pop(void)
{
	uint32_t place = self.labels;

	if (!place--)
		return;
	if (place < SPOOL_LABELS_MOST)
		self.label[place] = 0;
	FENCE;
	self.labels = place;
	FENCE;
	self.label_version++;
}

void labels_set_pool(uint32_t number)
{
	if (self.pool_label == number)
		return;
	self.pool_label = number;
	self.label_version++;
}

/* The labels of a block that is allocated now. The pool's comes last. */
static uint32_t collect(uint32_t *number)
{
	uint32_t most = self.pool_label ? SPOOL_LABELS_MOST - 1 : SPOOL_LABELS_MOST, count = 0;

	for (uint32_t i = 0; i < self.labels && i < SPOOL_LABELS_MOST && count < most; i++)
		if (self.label[i])
			number[count++] = self.label[i];
	if (self.pool_label)
		number[count++] = self.pool_label;
	return count;
}

/* ---- records ---- */

static void put_label(struct writer *w, uint32_t number)
{
	uint8_t *said = &w->label_said[number / 8], bit = (uint8_t)(1u << number % 8);

	if (*said & bit)
		return;
	*said |= bit;
	w->labels_said = true;
	*w->at++ = SPOOL_LABEL;
	spool_put_u(w, number);
	spool_put_text(w, labels[number].key, labels[number].key_length);
	spool_put_text(w, labels[number].value, labels[number].value_length);
}

/* The most that their records need. */
static size_t label_bytes(const uint32_t *number, uint32_t count)
{
	size_t bytes = 16;

	for (uint32_t i = 0; i < count; i++)
		bytes += 16 + labels[number[i]].key_length + labels[number[i]].value_length;
	return bytes;
}

static bool in_force(const struct writer *w, const uint32_t *number, uint32_t count)
{
	return w->label_count == count && !memcmp(w->label, number, count * sizeof(*number));
}

COLD bool labels_write(struct writer *w, size_t bytes)
{
	uint32_t number[SPOOL_LABELS_MOST], count = collect(number);

	/* A new packet has none in force. */
	if (!in_force(w, number, count) && !spool_room(w, bytes + label_bytes(number, count)))
		return false;
	if (!in_force(w, number, count)) {
		for (uint32_t i = 0; i < count; i++)
			put_label(w, number[i]);
		*w->at++ = SPOOL_LABELS;
		spool_put_u(w, count);
		for (uint32_t i = 0; i < count; i++)
			spool_put_u(w, number[i]);
		spool_commit(w);
		memcpy(w->label, number, count * sizeof(*number));
		w->label_count = count;
	}
	w->label_version = self.label_version;
	return true;
}
