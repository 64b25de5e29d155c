/* SPDX-License-Identifier: Apache-2.0 */
/* Text that fits its columns: see fit_text.h. */
#include "terminal/fit_text.h"

#include "answer/plain_name.h"
#include "answer/trace_names.h"
#include "terminal/output.h"
#include "base/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

/* ---- characters ---- */

/* The marks that change the direction of text, and U+2028 and U+2029, which end lines. */
static bool is_bidirectional(const unsigned char *s)
{
	if (s[0] == 0xd8)
		return s[1] == 0x9c; /* U+061C */
	if (s[0] != 0xe2)
		return false;
	return (s[1] == 0x80 && (s[2] == 0x8e || s[2] == 0x8f || (s[2] >= 0xa8 && s[2] <= 0xae))) ||
	       (s[1] == 0x81 && s[2] >= 0xa6 && s[2] <= 0xa9);
}

/* Not the C1 controls either, which terminals obey. */
size_t text_shown(const char *text, size_t size)
{
	const unsigned char *s = (const unsigned char *)text;
	char character[8] = {0}; /* utf8_length() looks beyond a character that is cut */
	size_t length;

	if (*s < 0x80)
		return *s >= 0x20 && *s != 0x7f;
	memcpy(character, text, size < 4 ? size : 4);
	length = utf8_length(character);
	if (length > size || (s[0] == 0xc2 && length && s[1] < 0xa0))
		return 0;
	return length && is_bidirectional(s) ? 0 : length;
}

char *text_clean(char *buffer, size_t size, const char *text)
{
	size_t used = 0;

	while (*text) {
		size_t shown = text_shown(text, strnlen(text, 4)), length = utf8_length(text);

		if (used + (shown ? shown : 1) >= size)
			break;
		if (!shown)
			buffer[used++] = '?';
		memmove(buffer + used, text, shown); /* a text may be cleaned in its place */
		used += shown;
		text += length ? length : 1;
	}
	buffer[used] = 0;
	return buffer;
}

/* The character at s, which is not the end; moves s after it. Returns its columns. */
static size_t step(const char **s)
{
	static const unsigned char lead[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
	size_t length = utf8_length(*s);
	wchar_t character;
	int columns;

	if (length <= 1) {
		++*s;
		return 1;
	}
	character = (unsigned char)**s & lead[length];
	for (size_t i = 1; i < length; i++)
		character = character << 6 | ((*s)[i] & 0x3f);
	*s += length;
	columns = wcwidth(character); /* -1: not known, as in the C locale */
	return columns < 0 ? 1 : (size_t)columns;
}

size_t text_columns(const char *text)
{
	size_t columns = 0;

	while (*text)
		columns += step(&text);
	return columns;
}

/* Bytes of the longest beginning of at most that many columns. */
static size_t head_bytes(const char *text, size_t columns)
{
	const char *s = text, *end = text;
	size_t used = 0;

	while (*s && (used += step(&s)) <= columns)
		end = s;
	return (size_t)(end - text);
}

/* The longest end of at most that many columns. */
static const char *tail_of(const char *text, size_t columns)
{
	size_t all = text_columns(text);

	while (all > columns)
		all -= step(&text);
	return text;
}

static const char *mark_of(const struct output *o)
{
	return o->utf8 ? "…" : "...";
}

static size_t less(size_t columns, size_t by)
{
	return columns > by ? columns - by : 0;
}

/* ---- cuts ---- */

/* Keeps both ends, the end more: it says which function it is, or which line. */
static void cut_middle(char *buffer, size_t size, const struct output *o, const char *text,
		       size_t columns)
{
	const char *mark = mark_of(o);
	size_t keep = less(columns, text_columns(mark)), all = text_columns(text);
	size_t bytes = head_bytes(text, keep * 2 / 5), head = all - text_columns(text + bytes);

	if (all <= columns)
		snprintf(buffer, size, "%s", text);
	else
		snprintf(buffer, size, "%.*s%s%s", (int)bytes, text, mark,
			 tail_of(text, keep - head));
}

static void cut_end(char *buffer, size_t size, const struct output *o, const char *text,
		    size_t columns)
{
	const char *mark = mark_of(o);

	if (text_columns(text) <= columns)
		snprintf(buffer, size, "%s", text);
	else
		snprintf(buffer, size, "%.*s%s",
			 (int)head_bytes(text, less(columns, text_columns(mark))), text, mark);
}

/* Leaves out as many namespaces and classes in front as needed; false when that is not enough. */
static bool cut_qualifiers(char *buffer, size_t size, const struct output *o, const char *text,
			   size_t columns)
{
	size_t left = text_columns(text), mark = text_columns(mark_of(o));

	for (const char *s = text; *s; left -= step(&s)) {
		if (s == text || s[0] != ':' || s[1] != ':' || left + mark > columns)
			continue;
		snprintf(buffer, size, "%s%s", mark_of(o), s);
		return true;
	}
	return false;
}

#define MOST_LEVELS 16u /* that are tried one after the other; hostile names have thousands */

char *name_fit(char *buffer, size_t size, const struct output *o, const char *name, size_t columns)
{
	char clean[NAME_BYTES], shorter[NAME_BYTES];
	unsigned level;

	text_clean(clean, sizeof(clean), name);
	snprintf(buffer, size, "%s", clean);
	if (o->wide || text_columns(buffer) <= columns)
		return buffer;
	level = name_collapse(buffer, size, clean, NAME_NO_LEVEL, "...");
	if (level > MOST_LEVELS)
		level = MOST_LEVELS;
	while (text_columns(buffer) > columns && level > 0)
		name_collapse(buffer, size, clean, level--, "...");
	if (text_columns(buffer) <= columns)
		return buffer;
	snprintf(shorter, sizeof(shorter), "%s", buffer);
	if (!cut_qualifiers(buffer, size, o, shorter, columns))
		cut_middle(buffer, size, o, shorter, columns);
	return buffer;
}

char *line_fit(char *buffer, size_t size, const struct output *o, const char *text, size_t columns)
{
	char clean[NAME_BYTES];

	text_clean(clean, sizeof(clean), text);
	cut_end(buffer, size, o, clean, o->wide ? SIZE_MAX : columns);
	return buffer;
}

char *place_fit(char *buffer, size_t size, const struct output *o, const char *place,
		size_t columns)
{
	char clean[NAME_BYTES];

	text_clean(clean, sizeof(clean), place);
	cut_middle(buffer, size, o, clean, o->wide ? SIZE_MAX : columns);
	return buffer;
}

/* ---- names that stay apart ---- */

/* A row of the table. */
struct fitting {
	size_t row;
	char *clean, *fitted;
};

static int by_fitted(const void *a, const void *b)
{
	const struct fitting *x = a, *y = b;
	int order = strcmp(x->fitted, y->fitted);

	if (!order)
		order = strcmp(x->clean, y->clean);
	return order ? order : x->row < y->row ? -1 : 1;
}

/* Where the names of these rows begin to differ, at the beginning of a word. */
static size_t first_difference(const struct fitting *f, size_t count)
{
	const char *first = f[0].clean,
		   *last = f[count - 1].clean; /* sorted: the rest is between */
	size_t at = 0;

	while (first[at] && first[at] == last[at])
		at++;
	while (at > 0 && !strchr("<>(),:* ", first[at - 1]))
		at--;
	return at;
}

/* What differs, and the end of the name without its parameters. */
static void cut_to_difference(char *buffer, size_t size, const struct output *o, const char *name,
			      size_t at, size_t columns)
{
	const char *mark = mark_of(o);
	size_t room = less(columns, 2 * text_columns(mark)), tail = room / 2;
	char plain[NAME_BYTES];
	const char *end;

	name_collapse(plain, sizeof(plain), name, NAME_NO_LEVEL, "...");
	end = tail_of(plain, tail);
	if (at >= strlen(plain)) /* in the parameters */
		snprintf(buffer, size, "%s%.*s%s%s", mark, (int)head_bytes(end, room - tail), end,
			 mark, tail_of(name + at, tail));
	else if (text_columns(plain + at) <= room)
		snprintf(buffer, size, "%s%s", mark, plain + at);
	else
		snprintf(buffer, size, "%s%.*s%s%s", mark, (int)head_bytes(name + at, room - tail),
			 name + at, mark, end);
}

static void add_number(char *buffer, size_t size, const struct output *o, const char *fitted,
		       size_t number, size_t columns)
{
	char text[32];

	snprintf(text, sizeof(text), " #%zu", number);
	cut_end(buffer, size - sizeof(text), o, fitted, less(columns, strlen(text)));
	strcat(buffer, text);
}

enum way { WAY_MIDDLE, WAY_DIFFERENCE, WAY_NUMBER, WAYS };

/* Shortens the names of rows that look the same in another way. */
static bool fit_apart(struct fitting *f, size_t count, const struct output *o, enum way way,
		      size_t columns)
{
	size_t at = first_difference(f, count), number = 0;
	char text[NAME_BYTES + 32];

	for (size_t i = 0; i < count; i++) {
		number += i == 0 || strcmp(f[i].clean, f[i - 1].clean) != 0;
		switch (way) {
		case WAY_MIDDLE:
			cut_middle(text, sizeof(text), o, f[i].clean, columns);
			break;
		case WAY_DIFFERENCE:
			cut_to_difference(text, sizeof(text), o, f[i].clean, at, columns);
			break;
		case WAY_NUMBER:
		case WAYS:
			add_number(text, sizeof(text), o, f[i].fitted, number, columns);
			break;
		}
		free(f[i].fitted);
		f[i].fitted = strdup(text);
		if (!f[i].fitted)
			return false;
	}
	return true;
}

/* Whether all names that differ looked different already. */
static bool all_apart(struct fitting *f, size_t count, const struct output *o, enum way way,
		      size_t columns, bool *failed)
{
	bool apart = true;
	size_t end;

	qsort(f, count, sizeof(*f), by_fitted);
	for (size_t i = 0; i < count && !*failed; i = end) {
		for (end = i + 1; end < count && !strcmp(f[end].fitted, f[i].fitted); end++)
			;
		if (!strcmp(f[i].clean, f[end - 1].clean))
			continue;
		apart = false;
		*failed = !fit_apart(f + i, end - i, o, way, columns);
	}
	return apart;
}

bool names_fit(char **fitted, const struct output *o, char *const *name, size_t count,
	       size_t columns)
{
	struct fitting *f = calloc(count + 1, sizeof(*f));
	char text[NAME_BYTES];
	bool failed = !f;

	for (size_t i = 0; i < count && !failed; i++) {
		f[i].row = i;
		f[i].clean = strdup(text_clean(text, sizeof(text), name[i]));
		f[i].fitted = strdup(name_fit(text, sizeof(text), o, name[i], columns));
		failed = !f[i].clean || !f[i].fitted;
	}
	for (enum way way = 0; way < WAYS && !failed; way++)
		if (all_apart(f, count, o, way, columns, &failed))
			break;
	for (size_t i = 0; i < count && f; i++) {
		free(f[i].clean);
		if (failed)
			free(f[i].fitted);
		else
			fitted[f[i].row] = f[i].fitted;
	}
	free(f);
	return !failed;
}
