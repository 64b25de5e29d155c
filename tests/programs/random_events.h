/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sequence of random events for each seed: programs/events.c emits it, read_events.c expects it.
 *
 * Among them are blocks, which say themselves what labels they have: label i of a block of
 * BLOCK_BYTES * k + j bytes (j below RANDOM_LABELS) is level=i.k, for i < j.
 */
#ifndef RANDOM_EVENTS_H
#define RANDOM_EVENTS_H

#include <stdint.h>
#include <string.h>

enum random_kind { RANDOM_BEGIN, RANDOM_END, RANDOM_INSTANT, RANDOM_COUNT, RANDOM_BLOCK };

#define RANDOM_TYPES  12
#define RANDOM_OPEN   8
#define RANDOM_TEXTS  8
#define RANDOM_LABELS 20 /* numbers of labels that a block may have: 16 of them are kept */
#define BLOCK_BYTES   1000u

/* The fields of each type, in the letters of mayfly.h. Spans, then instants, then counters. */
static const char *const random_fields[RANDOM_TYPES] = {
    "", "i", "tw", "iuft", "", "u", "iu", "ttt", "fwti", "ffff", "i", "f",
};
static const enum random_kind random_kinds[RANDOM_TYPES] = {
    RANDOM_BEGIN,   RANDOM_BEGIN,   RANDOM_BEGIN,   RANDOM_BEGIN,   RANDOM_INSTANT, RANDOM_INSTANT,
    RANDOM_INSTANT, RANDOM_INSTANT, RANDOM_INSTANT, RANDOM_INSTANT, RANDOM_COUNT,   RANDOM_COUNT,
};

struct random_event {
	enum random_kind kind;
	unsigned type;
	union {
		int64_t i;
		uint64_t u;
		double f;
		const char *text;
	} value[4];
	char text[4][RANDOM_TEXTS + 300];
	unsigned labels, group; /* BLOCK */
	size_t size;
};

struct random_events {
	uint64_t state;
	unsigned open[RANDOM_OPEN], depth;
};

static inline uint64_t random_next(struct random_events *r)
{
	uint64_t z = r->state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static inline struct random_events random_begin(uint64_t seed, unsigned thread)
{
	struct random_events r = {seed * 1000 + thread, {0}, 0};

	return r;
}

/* Short, mostly; now and then longer than is kept. Below 256 also bytes beyond ASCII. */
static inline void random_text(struct random_events *r, char *out)
{
	uint64_t dice = random_next(r);
	size_t length = dice % 64 == 0 ? dice / 64 % 300 : dice / 64 % RANDOM_TEXTS;

	for (size_t i = 0; i < length; i++)
		out[i] = (char)('!' + (dice >> 8 & 31) + i % 61);
	out[length] = 0;
}

static inline void random_values(struct random_events *r, struct random_event *e)
{
	const char *field = random_fields[e->type];

	for (unsigned i = 0; field[i]; i++) {
		uint64_t dice = random_next(r);

		if (field[i] == 't') {
			random_text(r, e->text[i]);
			e->value[i].text = e->text[i];
		} else if (field[i] == 'f') {
			e->value[i].f = (double)(int64_t)dice / 3;
		} else {
			e->value[i].u = dice >> (dice & 63); /* of all magnitudes */
			if (field[i] == 'i' && dice & 64)
				e->value[i].i = -(e->value[i].i & INT64_MAX);
		}
	}
}

static inline void random_draw(struct random_events *r, struct random_event *e)
{
	uint64_t dice = random_next(r);

	if (dice % 32 == 0) {
		e->kind = RANDOM_BLOCK;
		e->labels = dice / 32 % 4 ? 0 : (unsigned)(dice / 128 % RANDOM_LABELS);
		e->group = 1 + (unsigned)(dice >> 20 & 15);
		e->size = BLOCK_BYTES * e->group + e->labels;
		return;
	}
	e->type = (unsigned)(dice >> 8) % RANDOM_TYPES;
	e->kind = random_kinds[e->type];
	if (e->kind == RANDOM_BEGIN && (dice & 64 || r->depth == RANDOM_OPEN)) {
		if (r->depth) {
			e->kind = RANDOM_END;
			e->type = r->open[--r->depth];
			return;
		}
	}
	if (e->kind == RANDOM_BEGIN)
		r->open[r->depth++] = e->type;
	random_values(r, e);
}

#endif
