/* SPDX-License-Identifier: Apache-2.0 */
/* Matching: see expression.h. */
#include "match/expression_parts.h"

#include <stdlib.h>
#include <string.h>

#define SMALL_STEPS 256u /* of most expressions: no memory is needed for a match */

/* ---- places in the text, and the steps that are reached at one ---- */

struct place {
	bool begin, end, word_before, word_after;
};

/* A set of steps: those at item[0] to item[count - 1]. */
struct reached {
	uint32_t count;
	uint16_t *item;
};

/* Lists with room for each step. */
struct run {
	const struct expression *e;
	struct reached set[2], *now, *next;
	uint32_t *mark; /* the number of the place at which it was reached last */
	uint32_t number;
	uint16_t *waiting; /* each step puts two others here at most, once */
	uint32_t *owned;   /* that room; NULL: it is `small` */
	uint32_t small[3 * SMALL_STEPS];
};

static bool holds(enum step_kind kind, const struct place *p)
{
	switch (kind) {
	case STEP_BEGIN:
		return p->begin;
	case STEP_END:
		return p->end;
	case STEP_WORD_EDGE:
		return p->word_before != p->word_after;
	case STEP_NO_WORD_EDGE:
		return p->word_before == p->word_after;
	case STEP_WORD_BEGIN:
		return !p->word_before && p->word_after;
	case STEP_WORD_END:
		return p->word_before && !p->word_after;
	case STEP_CHARACTER:
	case STEP_ANY:
	case STEP_SET:
	case STEP_OTHER:
	case STEP_SPLIT:
	case STEP_JUMP:
	case STEP_MATCH:
		break;
	}
	return false;
}

/* False: out of memory. */
static bool begin(struct run *r, const struct expression *e)
{
	const size_t steps = e->steps;
	uint32_t *room = r->small;

	r->owned = NULL;
	if (steps > SMALL_STEPS)
		room = r->owned = malloc(3 * steps * sizeof(*room));
	if (!room)
		return false;
	r->e = e;
	r->mark = room;
	r->set[0].item = (uint16_t *)(room + steps);
	r->set[1].item = r->set[0].item + steps;
	r->waiting = r->set[1].item + steps;
	r->now = &r->set[0];
	r->next = &r->set[1];
	r->now->count = 0;
	r->number = 1;
	memset(r->mark, 0, steps * sizeof(*r->mark));
	return true;
}

/* Adds a step and all that are reached from it without a character. True: the end is among them. */
static bool reach(struct run *r, struct reached *set, uint32_t first, const struct place *p)
{
	size_t waiting = 0;

	r->waiting[waiting++] = (uint16_t)first;
	while (waiting) {
		uint32_t at = r->waiting[--waiting];
		const struct step *s = &r->e->step[at];

		if (r->mark[at] == r->number)
			continue;
		r->mark[at] = r->number;
		switch (s->kind) {
		case STEP_CHARACTER:
		case STEP_ANY:
		case STEP_SET:
		case STEP_OTHER:
			set->item[set->count++] = (uint16_t)at;
			break;
		case STEP_SPLIT:
			r->waiting[waiting++] = (uint16_t)((int32_t)at + s->to);
			r->waiting[waiting++] = (uint16_t)(at + 1);
			break;
		case STEP_JUMP:
			r->waiting[waiting++] = (uint16_t)((int32_t)at + s->to);
			break;
		case STEP_BEGIN:
		case STEP_END:
		case STEP_WORD_EDGE:
		case STEP_NO_WORD_EDGE:
		case STEP_WORD_BEGIN:
		case STEP_WORD_END:
			if (holds(s->kind, p))
				r->waiting[waiting++] = (uint16_t)(at + 1);
			break;
		case STEP_MATCH:
			return true;
		}
	}
	return false;
}

static bool in_spans(const struct expression *e, const struct step *s, uint32_t character)
{
	for (uint32_t i = 0; i < s->count; i++) {
		const struct span *span = &e->span[s->a + i];

		if (character >= span->first && character <= span->last)
			return true;
	}
	return false;
}

static bool takes(const struct expression *e, const struct step *s, uint32_t character)
{
	if (s->kind == STEP_CHARACTER)
		return s->a == character;
	return s->kind == STEP_ANY || in_spans(e, s, character) == (s->kind == STEP_SET);
}

/* ---- matching ---- */

static struct place place_at(const char *text, const char *at, bool word_before)
{
	const char *next;

	return (struct place){.begin = at == text,
			      .end = !*at,
			      .word_before = word_before,
			      .word_after =
				  *at && expression_is_word(expression_character(at, &next))};
}

/* The steps take a character; r->now is what they reach. True: the end. */
static bool advance(struct run *r, uint32_t character, const struct place *after)
{
	struct reached *before = r->now;

	r->now = r->next;
	r->next = before;
	r->now->count = 0;
	r->number++;
	for (uint32_t i = 0; i < before->count; i++) {
		uint32_t at = before->item[i];

		if (takes(r->e, &r->e->step[at], character) && reach(r, r->now, at + 1, after))
			return true;
	}
	return false;
}

/* The next place at which a match can begin; NULL: there is none. An expression that asks for the
 * edges of words, whose places need the character before, begins anywhere. */
static const char *skip(const struct expression *e, const char *at)
{
	if (e->anywhere)
		return at;
	while (*at && !e->first[(unsigned char)*at])
		at++;
	return *at ? at : NULL;
}

static bool run(struct run *r, const struct expression *e, const char *text)
{
	bool word = false;

	for (const char *at = text, *next;; at = next) {
		struct place p;
		uint32_t character;

		if (!r->now->count) {
			at = skip(e, at);
			if (!at)
				return false;
			r->number++;
		}
		p = place_at(text, at, word);
		if (reach(r, r->now, 0, &p))
			return true;
		if (!*at)
			return false;
		character = expression_character(at, &next);
		word = expression_is_word(character);
		p = place_at(text, next, word);
		if (advance(r, character, &p))
			return true;
	}
}

bool expression_matches(const struct expression *e, const char *text)
{
	struct run r;
	bool found;

	if (!begin(&r, e))
		return false;
	found = run(&r, e, text);
	free(r.owned);
	return found;
}

/* ---- making ---- */

static void begin_with(struct expression *e, uint32_t from, uint32_t to)
{
	if (to >= 0x80) /* their first bytes, and bytes that are no UTF-8 */
		memset(&e->first[0x80], 1, 0x80);
	for (uint32_t c = from; c <= to && c < 0x80; c++)
		e->first[c] = true;
}

/* Which bytes a match can begin with, wherever in the text that is. */
static void find_first(struct expression *e)
{
	struct run r;
	const struct place place = {.begin = true};

	e->anywhere = true;
	if (!begin(&r, e))
		return;
	for (uint32_t i = 0; i < e->steps; i++)
		if (e->step[i].kind >= STEP_END && e->step[i].kind < STEP_MATCH)
			goto end; /* rare: every place is looked at */
	if (reach(&r, r.now, 0, &place))
		goto end;
	e->anywhere = false;
	for (uint32_t i = 0; i < r.now->count; i++) {
		const struct step *s = &e->step[r.now->item[i]];

		if (s->kind == STEP_CHARACTER)
			begin_with(e, s->a, s->a);
		else if (s->kind == STEP_SET)
			for (uint32_t k = 0; k < s->count; k++)
				begin_with(e, e->span[s->a + k].first, e->span[s->a + k].last);
		else
			begin_with(e, 0, MOST_CHARACTER);
	}
end:
	free(r.owned);
}

void expression_free(struct expression *e)
{
	if (!e)
		return;
	free(e->step);
	free(e->span);
	free(e);
}

struct expression *expression_new(const char *text, const char **why)
{
	struct expression *e = calloc(1, sizeof(*e));

	if (!e) {
		*why = "out of memory";
		return NULL;
	}
	if (!expression_parse(e, text, why)) {
		expression_free(e);
		return NULL;
	}
	find_first(e);
	return e;
}
