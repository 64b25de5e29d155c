/* SPDX-License-Identifier: Apache-2.0 */
/* Writes JSON: see json_writer.h. */
#include "answer/json_writer.h"

#include <math.h>
#include <string.h>

#include "answer/text_format.h"
#include "base/utf8.h"

#define INDENT 2

static void put(struct json *j, const char *text)
{
	bytes_put(&j->bytes, text, strlen(text));
}

static void put_line(struct json *j)
{
	if (j->one_line)
		return;
	put(j, "\n");
	for (unsigned int i = 0; i < INDENT * j->depth; i++)
		put(j, " ");
}

static void put_escaped(struct json *j, const char *text)
{
	static const char letters[] = "\"\"\\\\\bb\ff\nn\rr\tt"; /* each with its letter */
	const char *letter = strchr(letters, *text);
	char code[8];

	if (letter)
		put(j, text_format(code, sizeof(code), "\\%c", letter[1]));
	else if ((unsigned char)*text < 0x20)
		put(j, text_format(code, sizeof(code), "\\u%04X", (unsigned int)*text));
	else
		put(j, UTF8_REPLACEMENT);
}

static void put_text(struct json *j, const char *text)
{
	const char *plain = text;

	put(j, "\"");
	while (*text) {
		size_t length = utf8_length(text);

		if (length && (unsigned char)*text >= 0x20 && *text != '"' && *text != '\\') {
			text += length;
			continue;
		}
		bytes_put(&j->bytes, plain, (size_t)(text - plain));
		put_escaped(j, text);
		plain = ++text;
	}
	bytes_put(&j->bytes, plain, (size_t)(text - plain));
	put(j, "\"");
}

/* What stands before a value. False: the value is not to be written. */
static bool begin_value(struct json *j, const char *key)
{
	if (j->hidden)
		return false;
	if (j->depth) {
		if (j->filled)
			put(j, ",");
		put_line(j);
	}
	j->filled = true;
	if (!key)
		return true;
	put_text(j, key);
	put(j, j->one_line ? ":" : ": ");
	if (!j->is_null || !j->is_null(key, j->null_context))
		return true;
	put(j, "null");
	return false;
}

static void open_level(struct json *j, const char *key, bool array)
{
	if (!begin_value(j, key)) {
		j->hidden++;
		return;
	}
	if (j->depth == JSON_LEVELS) {
		put(j, "null");
		j->hidden++;
		return;
	}
	put(j, array ? "[" : "{");
	if (array)
		j->arrays[j->depth / 64] |= (uint64_t)1 << j->depth % 64;
	else
		j->arrays[j->depth / 64] &= ~((uint64_t)1 << j->depth % 64);
	j->depth++;
	j->filled = false;
}

void json_object(struct json *j, const char *key)
{
	open_level(j, key, false);
}

void json_array(struct json *j, const char *key)
{
	open_level(j, key, true);
}

void json_end(struct json *j)
{
	if (j->hidden) {
		j->hidden--;
		return;
	}
	j->depth--;
	if (j->filled)
		put_line(j);
	put(j, j->arrays[j->depth / 64] >> j->depth % 64 & 1 ? "]" : "}");
	j->filled = true;
}

/* ---- values ---- */

static void put_value(struct json *j, const char *key, const char *text)
{
	if (begin_value(j, key))
		put(j, text);
}

void json_text(struct json *j, const char *key, const char *text)
{
	if (begin_value(j, key))
		put_text(j, text);
}

void json_text_or_null(struct json *j, const char *key, const char *text)
{
	if (text && *text)
		json_text(j, key, text);
	else
		json_null(j, key);
}

void json_integer(struct json *j, const char *key, int64_t value)
{
	uint64_t rest = value < 0 ? -(uint64_t)value : (uint64_t)value;
	char digits[24], *at = digits + sizeof(digits);

	*--at = 0;
	do
		*--at = (char)('0' + rest % 10);
	while ((rest /= 10) > 0);
	if (value < 0)
		*--at = '-';
	put_value(j, key, at);
}

void json_unsigned(struct json *j, const char *key, uint64_t value)
{
	json_integer(j, key, value > INT64_MAX ? INT64_MAX : (int64_t)value);
}

void json_unsigned_or_null(struct json *j, const char *key, bool known, uint64_t value)
{
	if (known)
		json_unsigned(j, key, value);
	else
		json_null(j, key);
}

/* With 17 digits it is read back as the same number. */
void json_real(struct json *j, const char *key, double value)
{
	char text[40];

	text_format(text, sizeof(text), "%.17g", value);
	if (!strpbrk(text, ".e"))
		text_append(text, sizeof(text), ".0"); /* tells it from a whole number */
	put_value(j, key, isfinite(value) ? text : "null");
}

void json_bool(struct json *j, const char *key, bool value)
{
	put_value(j, key, value ? "true" : "false");
}

void json_null(struct json *j, const char *key)
{
	put_value(j, key, "null");
}
