/* SPDX-License-Identifier: Apache-2.0 */
/* Reading JSON: see json_read.h. */
#include "convert/import/json_read.h"

#include <string.h>

#include "base/units.h"

struct json_in json_begin(const void *data, size_t size)
{
	return (struct json_in){.at = data, .end = (const char *)data + size};
}

/* The next byte that is no space; 0 at the end, and after damage. */
static char next_of(struct json_in *j)
{
	while (j->at < j->end && memchr(" \t\r\n", *j->at, 4))
		j->at++;
	return j->at < j->end && !j->bad ? *j->at : 0;
}

static void json_want(struct json_in *j, char wanted)
{
	if (next_of(j) == wanted && wanted)
		j->at++;
	else
		j->bad = true;
}

void json_open(struct json_in *j, char bracket)
{
	json_want(j, bracket);
	j->first = true;
}

/* Whether a value follows, in front of which there is a comma unless it is the first. */
static bool json_more(struct json_in *j, char close)
{
	bool first = j->first;

	j->first = false;
	if (next_of(j) == close && !j->bad) {
		j->at++;
		return false;
	}
	if (!first)
		json_want(j, ',');
	return !j->bad;
}

bool json_item(struct json_in *j)
{
	return json_more(j, ']');
}

bool json_member(struct json_in *j, struct json_text *key)
{
	*key = (struct json_text){"", 0};
	if (!json_more(j, '}'))
		return false;
	json_take_text(j, key);
	json_want(j, ':');
	return !j->bad;
}

void json_take_text(struct json_in *j, struct json_text *text)
{
	const char *at;

	json_want(j, '"');
	*text = (struct json_text){"", 0};
	for (at = j->at; at < j->end && *at != '"'; at++)
		at += *at == '\\';
	j->bad |= at >= j->end;
	if (j->bad)
		return;
	*text = (struct json_text){j->at, (size_t)(at - j->at)};
	j->at = at + 1;
}

static bool json_word(struct json_in *j, const char *word)
{
	size_t length = strlen(word);

	if ((size_t)(j->end - j->at) < length || memcmp(j->at, word, length) != 0)
		return false;
	j->at += length;
	return true;
}

void json_take_number(struct json_in *j, uint64_t *value)
{
	char next = next_of(j);
	bool negative = next == '-';
	struct decimal d;
	double whole;
	size_t used;

	*value = 0;
	if (next == 't' || next == 'f') {
		*value = json_word(j, "true");
		j->bad |= !*value && !json_word(j, "false");
		return;
	}
	j->at += negative;
	used = decimal_read(j->at, (size_t)(j->end - j->at), &d);
	whole = decimal_value(&d);
	j->at += used;
	j->bad |= !used || !(whole < 0x1p64);
	if (!j->bad && !negative)
		*value = d.exponent ? (uint64_t)whole : d.digits;
}

/* A value that has no parts; false: there is none. */
static bool skip_plain(struct json_in *j)
{
	struct json_text text;
	uint64_t number;

	if (next_of(j) == '"')
		json_take_text(j, &text);
	else if (next_of(j) != 'n')
		json_take_number(j, &number);
	else
		j->bad |= !json_word(j, "null");
	return !j->bad;
}

/* Values may lie in each other to any depth. */
void json_skip(struct json_in *j)
{
	uint64_t open = 0;

	do {
		char next = next_of(j);

		if (next == '{' || next == '[')
			open++, j->at++;
		else if (open && (next == '}' || next == ']'))
			open--, j->at++;
		else if (open && (next == ',' || next == ':'))
			j->at++;
		else if (!skip_plain(j))
			return;
	} while (open);
	j->first = false;
}

bool json_is(const struct json_text *text, const char *word)
{
	return text->length == strlen(word) && memcmp(text->at, word, text->length) == 0;
}

/* ---- escapes ---- */

/* The four digits of \u; UINT32_MAX: there are none. */
static uint32_t four_digits(const char *at, const char *end)
{
	uint32_t value = 0;

	for (int i = 0; i < 4; i++, at++) {
		static const char digits[] = "0123456789abcdef";
		const char *digit = at < end && *at
					? strchr(digits, *at >= 'A' && *at <= 'F' ? *at + 32 : *at)
					: NULL;

		if (!digit)
			return UINT32_MAX;
		value = value << 4 | (uint32_t)(digit - digits);
	}
	return value;
}

static size_t json_put_utf8(char *to, uint32_t c)
{
	size_t more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
	static const uint8_t first[] = {0, 0xc0, 0xe0, 0xf0};

	for (size_t i = more; i; i--, c >>= 6)
		to[i] = (char)(0x80 | (c & 0x3f));
	*to = (char)(first[more] | c);
	return more + 1;
}

/* \uXXXX, or two of them for a character beyond U+FFFF. Half of such a pair is U+FFFD. What is no number
 * is a 'u', as after any backslash. */
static const char *take_character(const char *at, const char *end, uint32_t *character)
{
	uint32_t low, c = four_digits(at, end);

	*character = c == UINT32_MAX ? 'u' : 0xfffd;
	if (c == UINT32_MAX)
		return at;
	at += 4;
	if (c < 0xd800 || c > 0xdfff) {
		*character = c ? c : 0xfffd;
		return at;
	}
	low = end - at >= 6 && at[0] == '\\' && at[1] == 'u' ? four_digits(at + 2, end) : 0;
	if (c > 0xdbff || low < 0xdc00 || low > 0xdfff)
		return at;
	*character = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
	return at + 6;
}

size_t json_unescape(const struct json_text *text, char *to)
{
	static const char named[] = "b\bf\fn\nr\rt\t";
	const char *at = text->at, *end = at + text->length, *known;
	uint32_t character;
	size_t used = 0;

	while (at < end) {
		if (*at != '\\' || at + 1 == end) {
			to[used++] = *at++;
		} else if (at[1] == 'u' && end - at >= 6) {
			at = take_character(at + 2, end, &character);
			used += json_put_utf8(to + used, character);
		} else {
			known = memchr(named, at[1], sizeof(named) - 1);
			to[used++] = known && (known - named) % 2 == 0 ? known[1] : at[1];
			at += 2;
		}
	}
	return used;
}
