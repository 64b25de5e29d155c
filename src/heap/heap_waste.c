/* SPDX-License-Identifier: Apache-2.0 */
/* What a heap wastes: see heap_waste.h. */
#include "heap/heap_waste.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/bytes.h"
#include "base/hash.h"
#include "base/interner.h"
#include "base/utf8.h"

#define WORD	       8u
#define ROUNDED_MOST   16u /* malloc adds less than that, but to the smallest blocks */
#define INTERVAL_LEAST 32u
#define FILTER_BITS    (1u << 24)
#define SIZE_CLASSES   32u /* sizes have 32 bits */
#define PROGRESS_BYTES (64ull << 20)
#define FIRST_FACTOR   0x9e3779b97f4a7c15u
#define SECOND_FACTOR  0xc2b2ae3d27d4eb4fu
#define CHOICE_SEED    0x2545f4914f6cdd1du
#define SEED_OF_TEXTS  0x165667b19e3779f9u

struct heap_waste_look {
	struct heap_waste *waste;
	struct interner contents;
	uint64_t *maybe; /* a bit for each of FILTER_BITS hashes of these */
	uint32_t *
	    again; /* of each of the contents: enum again, or NUMBER_OF_TEXT + a place in waste->text */
	size_t again_capacity;
	bool texts;
};

enum again { NOT_AGAIN, IS_NO_TEXT, NUMBER_OF_TEXT };

/* ---- contents ---- */

struct digest {
	uint64_t first, second;
	uint64_t zeros;	     /* words since the last one that is not zero */
	const uint8_t *text; /* until the window looks elsewhere; NULL: it is none */
	size_t text_bytes;
};

static void digest_words(struct digest *d, const uint8_t *at, size_t bytes)
{
	uint64_t first = d->first, second = d->second, zeros = d->zeros;

	for (size_t i = 0; i < bytes; i += WORD) {
		uint64_t word = bytes_load(at + i);

		first = (first ^ word) * FIRST_FACTOR;
		first ^= first >> 32;
		second = (second + word) * SECOND_FACTOR;
		second ^= second >> 29;
		zeros = word ? 0 : zeros + 1;
	}
	d->first = first;
	d->second = second;
	d->zeros = zeros;
}

/* Bytes of a text that ends where malloc may have rounded up; 0: it is none. */
static size_t text_bytes_of(const uint8_t *at, size_t bytes)
{
	size_t end = bytes > ROUNDED_MOST ? bytes - ROUNDED_MOST : 1, i = 0, length;

	while (end < bytes && at[end])
		end++;
	if (end == bytes)
		return 0;
	while (i < end) {
		bool is_shown = at[i] >= ' ' && at[i] != 0x7f;

		if (!is_shown && at[i] != '\t' && at[i] != '\n' && at[i] != '\r')
			return 0;
		length = utf8_length((const char *)at + i);
		if (!length)
			return 0;
		i += length;
	}
	return i == end ? end : 0;
}

static void digest_text(struct digest *d, const uint8_t *at, size_t bytes)
{
	uint8_t last[WORD] = {0};
	size_t whole = bytes / WORD * WORD;

	d->first = d->second = SEED_OF_TEXTS;
	digest_words(d, at, whole);
	for (size_t i = whole; i < bytes; i++)
		last[i - whole] = at[i];
	digest_words(d, last, WORD);
}

/* False: it cannot be read. */
static bool digest_block(struct heap_window *window, struct digest *d, uint64_t address,
			 uint64_t bytes, uint64_t limit)
{
	uint64_t left = bytes, zeros;

	*d = (struct digest){0};
	while (left) {
		size_t now = left < HEAP_WINDOW_BYTES ? (size_t)left : HEAP_WINDOW_BYTES;
		const uint8_t *at = heap_window_see(window, address + (bytes - left), now, limit);

		if (!at)
			return false;
		digest_words(d, at, now);
		left -= now;
		if (left || now != bytes || d->zeros * WORD == bytes)
			continue;
		zeros = d->zeros;
		d->text_bytes = text_bytes_of(at, now);
		d->text = d->text_bytes ? at : NULL;
		if (d->text)
			digest_text(d, at, d->text_bytes);
		d->zeros = zeros;
	}
	return true;
}

/* ---- which contents are known ---- */

/* The smallest interval with which about `most` blocks are chosen. */
static uint64_t interval_for(const struct heap_blocks *b, size_t most)
{
	uint64_t count[SIZE_CLASSES] = {0}, units[SIZE_CLASSES] = {0}, interval = INTERVAL_LEAST;

	if (b->count <= most)
		return 0;
	for (size_t i = 0; i < b->count; i++) {
		unsigned int log2 = 63 - (unsigned int)__builtin_clzll(b->size[i] | 1ull);

		count[log2]++;
		units[log2] += b->size[i];
	}
	for (;; interval *= 2) {
		double chosen = 0;

		for (unsigned int i = 0; i < SIZE_CLASSES; i++)
			chosen += (uint64_t)HEAP_UNIT << i >= interval
				      ? (double)count[i]
				      : (double)units[i] * HEAP_UNIT / (double)interval;
		if (chosen <= (double)most || interval >> 40)
			return interval;
	}
}

static bool is_chosen(const struct heap_waste *w, uint32_t block, uint64_t bytes)
{
	uint64_t hash = hash_mix(block + w->blocks * CHOICE_SEED);

	return bytes >= w->interval || (hash & (w->interval - 1)) < bytes;
}

static bool keep_text(struct heap_waste *w, uint64_t bytes, const struct digest *d)
{
	struct heap_text text = {.text_bytes = (uint32_t)d->text_bytes, .block_bytes = bytes};

	while (text.begin_bytes < d->text_bytes) {
		size_t next = utf8_length((const char *)d->text + text.begin_bytes);

		if (text.begin_bytes + next > sizeof(text.begin))
			break;
		text.begin_bytes += (uint32_t)next;
	}
	memcpy(text.begin, d->text, text.begin_bytes);
	return ARRAY_ADD(w->text, w->text_room, w->texts, text);
}

/* A block that has contents which are known. */
static bool note_again(struct heap_waste_look *l, uint32_t block, uint64_t bytes,
		       const struct digest *d, uint32_t *again)
{
	struct heap_waste *w = l->waste;

	if (*again) {
		w->content[block] = HEAP_CONTENT_LATER;
		if (*again >= NUMBER_OF_TEXT)
			w->text[*again - NUMBER_OF_TEXT].later++;
		return true;
	}
	w->content[block] = HEAP_CONTENT_SECOND;
	*again = IS_NO_TEXT;
	if (!l->texts || !d->text)
		return true;
	*again = NUMBER_OF_TEXT + (uint32_t)w->texts;
	return keep_text(w, bytes, d);
}

static bool know_contents(struct heap_waste_look *l, uint32_t block, uint64_t bytes,
			  const struct digest *d)
{
	struct key key = {{d->first, d->second, bytes}};
	struct heap_waste *w = l->waste;
	bool chosen = is_chosen(w, block, bytes), is_new = false;
	uint64_t *maybe = &l->maybe[d->first % FILTER_BITS / 64], bit = 1ull << d->first % 64;
	uint32_t number;

	/* Most blocks of a large heap are neither chosen nor known, and a search for them takes long. */
	if (!chosen && !(*maybe & bit))
		return true;
	if (chosen)
		*maybe |= bit;
	number =
	    chosen ? interner_add(&l->contents, key, &is_new) : interner_find(&l->contents, key);
	if (number == INTERNER_NONE)
		return !chosen;
	if (!array_reserve_filled(&l->again, &l->again_capacity, number, sizeof(*l->again), 0))
		return false;
	return is_new || note_again(l, block, bytes, d, &l->again[number]);
}

/* ---- all blocks ---- */

struct heap_waste_look *heap_waste_begin(struct heap_waste *w, const struct heap_blocks *b,
					 size_t most, bool texts)
{
	struct heap_waste_look *l = calloc(1, sizeof(*l));

	*w = (struct heap_waste){.blocks = b->count, .interval = interval_for(b, most)};
	w->end = calloc(b->count + 1, sizeof(*w->end));
	w->content = calloc(b->count + 1, sizeof(*w->content));
	if (l) {
		l->waste = w;
		l->texts = texts;
		l->maybe = calloc(FILTER_BITS / 64, sizeof(*l->maybe));
	}
	if (l && l->maybe && w->end && w->content)
		return l;
	heap_waste_end(l);
	heap_waste_free(w);
	return NULL;
}

bool heap_waste_see(struct heap_waste_look *l, struct heap_window *window, uint32_t block,
		    uint64_t address, uint64_t bytes, uint64_t limit)
{
	struct heap_waste *w = l->waste;
	struct digest d;

	if (!digest_block(window, &d, address, bytes, limit)) {
		w->unread++;
		return true;
	}
	w->end[block] = d.zeros < UINT32_MAX ? (uint32_t)d.zeros : UINT32_MAX;
	if (d.zeros * WORD == bytes) {
		w->content[block] = HEAP_CONTENT_ZERO;
		return true;
	}
	return know_contents(l, block, bytes, &d);
}

void heap_waste_end(struct heap_waste_look *l)
{
	if (!l)
		return;
	interner_free(&l->contents);
	free(l->again);
	free(l->maybe);
	free(l);
}

void heap_waste_free(struct heap_waste *w)
{
	free(w->end);
	free(w->content);
	free(w->text);
	*w = (struct heap_waste){0};
}

/* ---- sums ---- */

static void add_second(struct heap_waste_sum *sum, uint64_t bytes, uint64_t interval)
{
	double weight, variance;

	if (bytes >= interval) {
		sum->copy_bytes += bytes;
		sum->copy_blocks++;
		return;
	}
	weight = (double)interval / (double)bytes;
	variance = weight * weight - weight;
	sum->sampled_blocks += weight;
	sum->sampled_bytes += (double)interval;
	sum->variance_blocks += variance;
	sum->variance_bytes += variance * (double)bytes * (double)bytes;
	sum->samples++;
}

void heap_waste_add(const struct heap_waste *w, uint32_t block, uint64_t bytes,
		    struct heap_waste_sum *sum)
{
	if (block >= w->blocks)
		return;
	switch ((enum heap_content)w->content[block]) {
	case HEAP_CONTENT_ZERO:
		sum->zero_bytes += bytes;
		sum->zero_blocks++;
		return;
	case HEAP_CONTENT_SECOND:
		add_second(sum, bytes, w->interval);
		break;
	case HEAP_CONTENT_LATER:
		sum->copy_bytes += bytes;
		sum->copy_blocks++;
		break;
	case HEAP_CONTENT_OTHER:
		break;
	}
	sum->end_bytes += (uint64_t)w->end[block] * WORD;
	sum->end_blocks += w->end[block] != 0;
}

void heap_waste_add_text(const struct heap_waste *w, const struct heap_text *text,
			 struct heap_waste_sum *sum)
{
	add_second(sum, text->block_bytes, w->interval);
	sum->copy_bytes += text->later * text->block_bytes;
	sum->copy_blocks += text->later;
}
