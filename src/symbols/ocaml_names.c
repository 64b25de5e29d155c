/* SPDX-License-Identifier: Apache-2.0 */
/* Readable forms of OCaml's symbols: see ocaml_names.h. */
#include "symbols/ocaml_names.h"

#include <string.h>

#define MOST_PARTS 32u

static bool upper(char c)
{
	return c >= 'A' && c <= 'Z';
}

static bool digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool letter(char c)
{
	return upper(c) || (c >= 'a' && c <= 'z') || c == '_';
}

struct part {
	const char *text;
	size_t length;
};

/* Splits at "__" and returns the number of parts; the last part takes everything that is left. */
static size_t split(const char *text, size_t length, struct part *part)
{
	const char *end = text + length, *from = text;
	size_t parts = 0;

	for (const char *at = text + 1; at + 2 < end && parts + 1 < MOST_PARTS; at++) {
		if (at[0] != '_' || at[1] != '_')
			continue;
		part[parts++] = (struct part){from, (size_t)(at - from)};
		from = at + 2;
		at++;
	}
	part[parts++] = (struct part){from, (size_t)(end - from)};
	return parts;
}

/* The length without the trailing number that makes symbols distinct. */
static size_t without_stamp(const char *text, size_t length)
{
	size_t n = length;

	while (n && digit(text[n - 1]))
		n--;
	return n && n < length && text[n - 1] == '_' ? n - 1 : length;
}

struct text {
	char *out;
	size_t used, size;
};

static void ocaml_names_put(struct text *t, char c)
{
	if (t->used + 1 < t->size)
		t->out[t->used] = c;
	t->used++;
}

static void ocaml_names_put_part(struct text *t, const struct part *p)
{
	for (size_t i = 0; i < p->length; i++)
		ocaml_names_put(t, p->text[i]);
}

static int ocaml_names_hex(char c)
{
	return digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* A character not allowed in symbols is coded as $ and its code. */
static void put_decoded(struct text *t, const char *text, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		if (text[i] == '$' && i + 2 < length && ocaml_names_hex(text[i + 1]) >= 0 &&
		    ocaml_names_hex(text[i + 2]) >= 0) {
			ocaml_names_put(t, (char)(ocaml_names_hex(text[i + 1]) * 16 +
						  ocaml_names_hex(text[i + 2])));
			i += 2;
		} else {
			ocaml_names_put(t, text[i]);
		}
	}
}

static void put_function(struct text *t, const char *text, size_t length)
{
	bool wrapped = length && (!letter(text[0]) || (length == 3 && !memcmp(text, "fun", 3)));

	if (length == 5 && !memcmp(text, "entry", 5))
		return; /* a module's own code */
	ocaml_names_put(t, '.');
	if (wrapped)
		ocaml_names_put(t, '(');
	put_decoded(t, text, length);
	if (wrapped)
		ocaml_names_put(t, ')');
}

/* Units of the standard library are Stdlib__list, those of other libraries Library__Unit. */
static bool is_module(const struct part *part, size_t i, size_t parts)
{
	return part[i].length &&
	       (upper(part[i].text[0]) ||
		(i == 1 && parts > 2 && part[0].length == 6 && !memcmp(part[0].text, "Stdlib", 6)));
}

/* Units that are joined by "__" become Library.Unit. */
static void put_modules(struct text *t, const struct part *part, size_t modules, size_t parts)
{
	for (size_t i = 0; i < modules; i++) {
		if (i && is_module(part, i, parts))
			ocaml_names_put(t, '.');
		else if (i)
			ocaml_names_put(t, '_'), ocaml_names_put(t, '_');
		ocaml_names_put_part(t, &part[i]);
		/* Stdlib.list -> Stdlib.List */
		if (i == 1 && is_module(part, i, parts) && t->used < t->size) {
			char *first = &t->out[t->used - part[i].length];

			if (*first >= 'a' && *first <= 'z')
				*first = (char)(*first - 'a' + 'A');
		}
	}
}

/* camlStdlib__List.map_123, of OCaml 5, or camlStdlib__list__map_123, of OCaml 4. */
bool ocaml_demangle(const char *symbol, size_t length, char *out, size_t size)
{
	struct text t = {out, 0, size};
	struct part part[MOST_PARTS];
	size_t parts, modules = 0;
	const char *rest, *dot;

	if (length < 6 || memcmp(symbol, "caml", 4) != 0 || !upper(symbol[4]))
		return false;
	dot = memchr(symbol, '.', length);
	if (dot && dot + 1 < symbol + length) {
		parts = modules = split(symbol + 4, (size_t)(dot - symbol) - 4, part);
		rest = dot + 1;
	} else {
		parts = split(symbol + 4, length - 4, part);
		for (size_t i = 0; i + 1 < parts; i++)
			if (is_module(part, i, parts))
				modules = i + 1;
		if (!modules)
			return false;
		rest = part[modules].text;
	}
	put_modules(&t, part, modules, parts);
	put_function(&t, rest, without_stamp(rest, (size_t)(symbol + length - rest)));
	if (t.used >= size)
		return false;
	out[t.used] = 0;
	return true;
}
