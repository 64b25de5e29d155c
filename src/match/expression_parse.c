/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the text of an expression to its steps. Distances in steps are relative, so a part can be
 * moved, to put a split before it, and copied, for repetitions:
 *
 *	x|y	split 2: x, jump to the end, y		x*	split to the end: x, jump back
 *	x?	split to the end: x			x+	x, split back
 *	x{2,3}	x, x, x?
 */
#include "match/expression_parts.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define MOST_NESTED 200u
#define MOST_COUNT  32767u /* of a repetition, as in POSIX */
#define NO_LIMIT    UINT32_MAX

struct parser {
	struct expression *e;
	const char *at;
	unsigned nested;
	const char *why; /* NULL: nothing is wrong */
};

static bool wrong(struct parser *p, const char *why)
{
	if (!p->why)
		p->why = why;
	return false;
}

/* ---- steps ---- */

static bool room(struct parser *p, uint64_t steps)
{
	if (p->e->steps + steps > MOST_STEPS)
		return wrong(p, "it is too large: its repetitions, written out, are too long");
	return true;
}

static bool put(struct parser *p, struct step step)
{
	if (!room(p, 1))
		return false;
	p->e->step[p->e->steps++] = step;
	return true;
}

/* Puts a step before those from `from` on. */
static bool put_before(struct parser *p, uint32_t from, struct step step)
{
	struct step *at = p->e->step + from;

	if (!room(p, 1))
		return false;
	memmove(at + 1, at, (p->e->steps++ - from) * sizeof(*at));
	*at = step;
	return true;
}

static bool copy(struct parser *p, uint32_t from, uint32_t count)
{
	if (!room(p, count))
		return false;
	memcpy(p->e->step + p->e->steps, p->e->step + from, count * sizeof(*p->e->step));
	p->e->steps += count;
	return true;
}

static bool put_span(struct parser *p, uint32_t first, uint32_t last)
{
	if (p->e->spans == MOST_SPANS)
		return wrong(p, "it is too large: too many characters in []");
	p->e->span[p->e->spans++] = (struct span){first, last};
	return true;
}

/* ---- repetitions ---- */

/* What was made from `from` on, any number of times. */
static bool put_star(struct parser *p, uint32_t from)
{
	int32_t length = (int32_t)(p->e->steps - from);

	return put_before(p, from, (struct step){.kind = STEP_SPLIT, .to = length + 2}) &&
	       put(p, (struct step){.kind = STEP_JUMP, .to = -(length + 1)});
}

/* The last steps, once more or oftener. */
static bool put_again(struct parser *p, uint32_t length)
{
	return put(p, (struct step){.kind = STEP_SPLIT, .to = -(int32_t)length});
}

static bool put_maybe(struct parser *p, uint32_t from)
{
	int32_t length = (int32_t)(p->e->steps - from);

	return put_before(p, from, (struct step){.kind = STEP_SPLIT, .to = length + 1});
}

static bool repeat(struct parser *p, uint32_t from, uint32_t least, uint32_t most)
{
	uint32_t length = p->e->steps - from;

	if (!length) /* nothing, however often */
		return true;
	if (!most) {
		p->e->steps = from;
		return true;
	}
	for (uint32_t i = 1; i < least; i++)
		if (!copy(p, from, length))
			return false;
	if (most == NO_LIMIT)
		return least ? put_again(p, length) : put_star(p, from);
	if (!least && !put_maybe(p, from))
		return false;
	for (uint32_t i = least ? least : 1; i < most; i++) {
		uint32_t begin = p->e->steps;

		/* The first of them may have a split before it. */
		if (!copy(p, least ? from : from + 1, length) || !put_maybe(p, begin))
			return false;
	}
	return true;
}

static bool read_count(struct parser *p, uint32_t *count)
{
	*count = 0;
	if (!isdigit((unsigned char)*p->at))
		return wrong(p, "after { there must be a number; write \\{ for the character");
	for (; isdigit((unsigned char)*p->at); p->at++) {
		*count = *count * 10 + (uint32_t)(*p->at - '0');
		if (*count > MOST_COUNT)
			return wrong(p, "a repetition is at most 32767 times");
	}
	return true;
}

/* After the {. */
static bool read_counts(struct parser *p, uint32_t *least, uint32_t *most)
{
	*least = 0;
	if (*p->at != ',' && !read_count(p, least))
		return false;
	*most = *least;
	if (*p->at == ',') {
		p->at++;
		*most = NO_LIMIT;
		if (*p->at != '}' && !read_count(p, most))
			return false;
	}
	if (*p->at != '}')
		return wrong(p, "a { has no }");
	p->at++;
	return *most >= *least || wrong(p, "the numbers of a {} are in the wrong order");
}

/* Whatever repetitions follow. */
static bool parse_repetitions(struct parser *p, uint32_t from)
{
	while (*p->at && strchr("*+?{", *p->at)) {
		uint32_t least = *p->at == '+', most = *p->at == '?' ? 1 : NO_LIMIT;

		if (*p->at++ == '{' && !read_counts(p, &least, &most))
			return false;
		if (!repeat(p, from, least, most))
			return false;
	}
	return true;
}

/* ---- brackets ---- */

static bool put_class(struct parser *p, const char *name, size_t length)
{
	static const struct {
		const char *name;
		int (*has)(int);
	} classes[] = {{"alpha", isalpha}, {"digit", isdigit}, {"alnum", isalnum},
		       {"upper", isupper}, {"lower", islower}, {"space", isspace},
		       {"blank", isblank}, {"punct", ispunct}, {"print", isprint},
		       {"graph", isgraph}, {"cntrl", iscntrl}, {"xdigit", isxdigit}};

	for (size_t i = 0; i < sizeof(classes) / sizeof(*classes); i++) {
		if (strlen(classes[i].name) != length || strncmp(classes[i].name, name, length))
			continue;
		/* Others than ASCII's count as letters. */
		if (strchr("agp", *name) && classes[i].has != ispunct &&
		    !put_span(p, 0x80, BROKEN_BYTE - 1))
			return false;
		for (uint32_t c = 0, from = 0; c <= 0x80; c++) {
			bool in = c < 0x80 && classes[i].has((int)c);

			if (!in && c > from && !put_span(p, from, c - 1))
				return false;
			if (!in)
				from = c + 1;
		}
		return true;
	}
	return wrong(p, "there is no such class of characters in [: :]");
}

/* A character of a bracket expression, also as [.x.] or [=x=]. */
static bool bracket_character(struct parser *p, uint32_t *character)
{
	const char kind = p->at[0] == '[' && p->at[1] && strchr(".=", p->at[1]) ? p->at[1] : 0;

	if (kind)
		p->at += 2;
	if (!*p->at)
		return wrong(p, "a [ has no ]");
	*character = expression_character(p->at, &p->at);
	if (!kind)
		return true;
	if (p->at[0] != kind || p->at[1] != ']')
		return wrong(p, "[. .] and [= =] hold one character");
	p->at += 2;
	return true;
}

static bool bracket_item(struct parser *p)
{
	uint32_t first, last;

	if (p->at[0] == '[' && p->at[1] == ':') {
		const char *name = p->at + 2, *end = strstr(name, ":]");

		if (!end)
			return wrong(p, "a [: has no :]");
		p->at = end + 2;
		return put_class(p, name, (size_t)(end - name));
	}
	if (!bracket_character(p, &first))
		return false;
	last = first;
	if (p->at[0] == '-' && p->at[1] && p->at[1] != ']') {
		p->at++;
		if (!bracket_character(p, &last))
			return false;
	}
	return last >= first ? put_span(p, first, last)
			     : wrong(p, "the ends of a span in [] are in the wrong order");
}

/* After the [. */
static bool parse_bracket(struct parser *p)
{
	struct step s = {.kind = STEP_SET, .a = p->e->spans};

	if (*p->at == '^') {
		s.kind = STEP_OTHER;
		p->at++;
	}
	do {
		if (!*p->at)
			return wrong(p, "a [ has no ]");
		if (!bracket_item(p))
			return false;
	} while (*p->at != ']');
	p->at++;
	s.count = p->e->spans - s.a;
	return put(p, s);
}

/* ---- pieces ---- */

static bool put_short_class(struct parser *p, const char *name, bool word, enum step_kind kind)
{
	struct step s = {.kind = kind, .a = p->e->spans};

	if (!put_class(p, name, strlen(name)) || (word && !put_span(p, '_', '_')))
		return false;
	s.count = p->e->spans - s.a;
	return put(p, s);
}

/* After the \. *edge: it is a place, which cannot be repeated. */
static bool parse_escape(struct parser *p, bool *edge)
{
	static const char places[] = "`'bB<>";
	static const enum step_kind kinds[] = {STEP_BEGIN,	  STEP_END,	   STEP_WORD_EDGE,
					       STEP_NO_WORD_EDGE, STEP_WORD_BEGIN, STEP_WORD_END};
	const char *place;

	if (!*p->at)
		return wrong(p, "nothing follows the last \\");
	if (*p->at >= '1' && *p->at <= '9')
		return wrong(p, "mayfly has no back-references such as \\1");
	place = strchr(places, *p->at);
	*edge = place != NULL;
	if (place) {
		p->at++;
		return put(p, (struct step){.kind = kinds[place - places]});
	}
	switch (*p->at) {
	case 'w':
	case 'W':
		return put_short_class(p, "alnum", true, *p->at++ == 'w' ? STEP_SET : STEP_OTHER);
	case 's':
	case 'S':
		return put_short_class(p, "space", false, *p->at++ == 's' ? STEP_SET : STEP_OTHER);
	}
	return put(p,
		   (struct step){.kind = STEP_CHARACTER, .a = expression_character(p->at, &p->at)});
}

static bool parse_choices(struct parser *p);

/* After the (. */
static bool parse_group(struct parser *p)
{
	if (++p->nested > MOST_NESTED)
		return wrong(p, "its groups are nested too deeply");
	if (!parse_choices(p))
		return false;
	p->nested--;
	if (*p->at != ')')
		return wrong(p, "a ( has no )");
	p->at++;
	return true;
}

/* One piece, with its repetitions. */
static bool parse_piece(struct parser *p)
{
	uint32_t from = p->e->steps;
	bool edge = false, good;

	switch (*p->at) {
	case '*':
	case '+':
	case '?':
	case '{':
		return wrong(p, "nothing stands before a *, +, ? or {");
	case '^':
	case '$':
		edge = true;
		good = put(p, (struct step){.kind = *p->at++ == '^' ? STEP_BEGIN : STEP_END});
		break;
	case '.':
		p->at++;
		good = put(p, (struct step){.kind = STEP_ANY});
		break;
	case '[':
		p->at++;
		good = parse_bracket(p);
		break;
	case '(':
		p->at++;
		good = parse_group(p);
		break;
	case '\\':
		p->at++;
		good = parse_escape(p, &edge);
		break;
	default:
		good = put(p, (struct step){.kind = STEP_CHARACTER,
					    .a = expression_character(p->at, &p->at)});
	}
	return good && (edge || parse_repetitions(p, from));
}

/* A ) outside of all groups is a character. */
static bool parse_branch(struct parser *p)
{
	while (*p->at && *p->at != '|' && (*p->at != ')' || !p->nested))
		if (!parse_piece(p))
			return false;
	return true;
}

static bool parse_choices(struct parser *p)
{
	uint32_t from = p->e->steps;

	if (!parse_branch(p))
		return false;
	while (*p->at == '|') {
		int32_t length = (int32_t)(p->e->steps - from);
		uint32_t jump;

		p->at++;
		if (!put_before(p, from, (struct step){.kind = STEP_SPLIT, .to = length + 2}))
			return false;
		jump = p->e->steps;
		if (!put(p, (struct step){.kind = STEP_JUMP}) || !parse_branch(p))
			return false;
		p->e->step[jump].to = (int32_t)(p->e->steps - jump);
	}
	return true;
}

bool expression_parse(struct expression *e, const char *text, const char **why)
{
	struct parser p = {.e = e, .at = text};
	struct step *fit;
	struct span *spans;

	e->step = malloc(MOST_STEPS * sizeof(*e->step));
	e->span = malloc(MOST_SPANS * sizeof(*e->span));
	if (!e->step || !e->span)
		wrong(&p, "out of memory");
	else if (parse_choices(&p))
		put(&p, (struct step){.kind = STEP_MATCH});
	*why = p.why;
	if (p.why)
		return false;
	fit = realloc(e->step, e->steps * sizeof(*e->step));
	e->step = fit ? fit : e->step;
	spans = realloc(e->span, (e->spans + 1) * sizeof(*e->span));
	e->span = spans ? spans : e->span;
	return true;
}
