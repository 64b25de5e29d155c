/* SPDX-License-Identifier: Apache-2.0 */
/* What an expression is made of: steps, which expression_parse.c makes and expression.c follows. */
#ifndef MAYFLY_EXPRESSION_PARTS_H
#define MAYFLY_EXPRESSION_PARTS_H

#include "match/expression.h"

#include <stdint.h>

#define MOST_STEPS 4000u /* after repetitions were written out */
#define MOST_SPANS 4000u /* of all bracket expressions */

/* A byte that is no UTF-8 is a character above all others. */
#define BROKEN_BYTE    0x110000u
#define MOST_CHARACTER (BROKEN_BYTE + 255)

enum step_kind {
	STEP_CHARACTER, /* a */
	STEP_ANY,
	STEP_SET, /* a: the first of its spans, count: how many; the character is in one of them */
	STEP_OTHER, /* likewise; it is in none */
	STEP_SPLIT, /* to the next step and to the one at distance `to` */
	STEP_JUMP,  /* to the one at distance `to` */
	STEP_BEGIN, /* these take no character: the begin and end of the text, and of words */
	STEP_END,
	STEP_WORD_EDGE,
	STEP_NO_WORD_EDGE,
	STEP_WORD_BEGIN,
	STEP_WORD_END,
	STEP_MATCH,
};

struct step {
	enum step_kind kind;
	uint32_t a, count;
	int32_t to;
};

struct span {
	uint32_t first, last;
};

struct expression {
	struct step *step; /* the last is STEP_MATCH */
	uint32_t steps;
	struct span *span;
	uint32_t spans;
	/* A match begins at one of these bytes. */
	bool anywhere; /* or at any, or between two */
	bool first[256];
};

/* The character at a place that is not the end; *next is the place after it. */
uint32_t expression_character(const char *at, const char **next);

bool expression_is_word(uint32_t character);

/* Makes steps and spans. False: *why says what is wrong. */
bool expression_parse(struct expression *e, const char *text, const char **why);

#endif
