/* SPDX-License-Identifier: Apache-2.0 */
/* Text on its way to a sink: see out.h. */
#include "convert/out.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void out_begin(struct out *o, trace_sink *sink, void *context)
{
	o->sink = sink;
	o->context = context;
	o->error = 0;
	o->used = 0;
}

static void out_flush(struct out *o)
{
	if (!o->error && o->used > 0)
		o->error = o->sink(o->context, o->buffer, o->used);
	o->used = 0;
}

void out_fail(struct out *o, int error)
{
	if (!o->error)
		o->error = error;
}

int out_end(struct out *o)
{
	out_flush(o);
	return o->error;
}

void out_bytes(struct out *o, const void *bytes, size_t size)
{
	if (size > sizeof(o->buffer) - o->used)
		out_flush(o);
	if (size <= sizeof(o->buffer)) {
		memcpy(o->buffer + o->used, bytes, size);
		o->used += size;
	} else if (!o->error) {
		o->error = o->sink(o->context, bytes, size);
	}
}

void out_text(struct out *o, const char *text)
{
	out_bytes(o, text, strlen(text));
}

void out_char(struct out *o, char c)
{
	out_bytes(o, &c, 1);
}

void out_unsigned(struct out *o, uint64_t value)
{
	char digits[20], *at = digits + sizeof(digits);

	do
		*--at = (char)('0' + value % 10);
	while ((value /= 10) > 0);
	out_bytes(o, at, (size_t)(digits + sizeof(digits) - at));
}

void out_format(struct out *o, const char *format, ...)
{
	char line[1024];
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(line, sizeof(line), format, arguments);
	va_end(arguments);
	if (length > 0)
		out_bytes(o, line,
			  (size_t)length < sizeof(line) ? (size_t)length : sizeof(line) - 1);
}

/* ---- characters ---- */

/* What a byte may mean, a bit for each. */
enum byte_kind {
	IN_JSON = 1,
	IN_XML = 2,
	IN_CSV = 4,
	IN_FOLDED = 8,
	CONTROL = 16,
	LONG = 32, /* perhaps part of a character of several bytes */
	END = 64,
};

static const uint8_t kinds[256] = {
    [0] = END,
    [1 ... 31] = CONTROL,
    [127] = CONTROL,
    [128 ... 255] = LONG,
    ['"'] = IN_JSON | IN_XML | IN_CSV,
    ['\\'] = IN_JSON,
    ['<'] = IN_XML,
    ['>'] = IN_XML,
    ['&'] = IN_XML,
    ['\''] = IN_XML,
    [';'] = IN_FOLDED,
};

static uint8_t kind_of(const char *text)
{
	return kinds[(unsigned char)*text];
}

/* Writes characters up to the first one with a special meaning, and returns its place. */
static const char *plain(struct out *o, const char *text, enum byte_kind special)
{
	const char *end = text;

	for (;; end++) {
		uint8_t kind = kind_of(end);
		size_t length;

		if (kind == 0)
			continue;
		if (kind & ((unsigned int)special | CONTROL | END))
			break;
		if (kind & LONG) {
			length = utf8_length(end);
			if (length == 0)
				break;
			end += length - 1;
		}
	}
	out_bytes(o, text, (size_t)(end - text));
	return end;
}

void out_json(struct out *o, const char *text)
{
	out_char(o, '"');
	for (text = plain(o, text, IN_JSON); *text; text = plain(o, text, IN_JSON)) {
		if (*text == '"' || *text == '\\')
			out_format(o, "\\%c", *text);
		else if (kind_of(text) & CONTROL)
			out_format(o, "\\u%04x", (unsigned int)*text);
		else
			out_text(o, UTF8_REPLACEMENT);
		text++;
	}
	out_char(o, '"');
}

void out_xml(struct out *o, const char *text)
{
	for (text = plain(o, text, IN_XML); *text; text = plain(o, text, IN_XML)) {
		if (*text == '\t' || *text == '\n' || *text == '\r')
			out_char(o, ' ');
		else if (!(kind_of(text) & IN_XML))
			out_text(o, UTF8_REPLACEMENT); /* XML cannot express other controls */
		else
			out_format(o, "&#%d;", *text);
		text++;
	}
}

void out_csv(struct out *o, const char *text)
{
	bool quoted = text[strcspn(text, ",\"\r\n")] != 0;

	if (quoted)
		out_char(o, '"');
	if (*text && strchr("=+-@\t\r", *text))
		out_char(o, '\'');
	for (text = plain(o, text, IN_CSV); *text; text = plain(o, text, IN_CSV)) {
		if (*text == '"')
			out_text(o, "\"\"");
		else if (kind_of(text) & CONTROL)
			out_char(o, *text);
		else
			out_text(o, UTF8_REPLACEMENT);
		text++;
	}
	if (quoted)
		out_char(o, '"');
}

void out_folded(struct out *o, const char *text)
{
	for (text = plain(o, text, IN_FOLDED); *text; text = plain(o, text, IN_FOLDED)) {
		if (*text == ';')
			out_char(o, ':');
		else if (kind_of(text) & CONTROL)
			out_char(o, ' ');
		else
			out_text(o, UTF8_REPLACEMENT);
		text++;
	}
}
