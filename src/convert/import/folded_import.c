/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folded stacks, the input of flame graphs. A line is a stack, its root first, and what it has:
 *
 *	main;grow;leaf 104950
 *
 * Nothing tells what the numbers count, nor when. They are taken for bytes that are live.
 */
#include "convert/import/imports.h"

#include <string.h>

#include "convert/import/heap_profile.h"
#include "convert/import/packed.h"

#define LOOKED_AT ((size_t)64 << 10) /* bytes in which a format is recognised: stacks can be long */

struct folded_input {
	struct import *in;
	struct heap_profile profile;
};

/* The space before the number that ends the line, NULL when there is none. Files of Windows have \r. */
static char *find_number(char *line, size_t *length)
{
	size_t at;

	while (*length && strchr(" \t\r", line[*length - 1]))
		--*length;
	at = *length;
	while (at && line[at - 1] >= '0' && line[at - 1] <= '9')
		at--;
	return at > 1 && at < *length && *length - at < 19 && line[at - 1] == ' ' ? line + at - 1
										  : NULL;
}

static void folded_frame(struct folded_input *c, const char *name, size_t length)
{
	struct recording_location place = {0};

	import_spend(c->in, length / 16 + 1);
	place.function = recording_string(c->in->tables, name, length);
	if (length)
		heap_profile_frame(&c->profile,
				   heap_profile_named(&c->profile, RECORDING_NONE, &place));
}

/* False: it is impossible. */
static bool folded_line(void *context, char *line, size_t length)
{
	struct folded_input *c = context;
	struct heap_figures f = {0};
	char *number, *end;

	while (length && line[length - 1] == '\r')
		length--;
	if (!length || *line == '#')
		return true;
	number = find_number(line, &length);
	if (!number)
		return false;
	for (const char *digit = number + 1; digit < line + length; digit++)
		f.live_bytes = f.live_bytes * 10 + (uint64_t)(*digit - '0');
	for (end = number; end > line;) {
		char *before = memrchr(line, ';', (size_t)(end - line));
		char *name = before ? before + 1 : line;

		folded_frame(c, name, (size_t)(end - name));
		end = before ? before : line;
	}
	if (f.live_bytes)
		heap_profile_row(&c->profile, &f);
	else
		c->profile.frames = c->profile.row_first;
	return true;
}

void folded_import(struct import *in)
{
	struct folded_input c = {.in = in};

	heap_profile_begin(&c.profile, in);
	import_lines(in, folded_line, &c);
	c.profile.frames = c.profile.row_first; /* of a line without an end */
	if (!import_failed(in)) {
		import_describe(
		    in, "converted from folded stacks, whose numbers are taken for live bytes");
		c.profile.absent = MAYFLY_ABSENT_START | MAYFLY_ABSENT_MODULES |
				   MAYFLY_ABSENT_COMMAND | MAYFLY_ABSENT_BLOCKS |
				   MAYFLY_ABSENT_ALLOCATED | MAYFLY_ABSENT_ERRORS;
		heap_profile_write(&c.profile);
	}
	heap_profile_end(&c.profile);
}

static bool is_text(const char *line, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if ((unsigned char)line[i] < ' ' && line[i] != '\t' && line[i] != '\r')
			return false;
	return true;
}

/* All lines at the beginning have a number, and one has several functions. */
bool folded_recognise(const void *data, size_t size)
{
	char text[LOOKED_AT], *at = text, *end;
	size_t used = packed_peek(data, size, text, sizeof(text)), length;
	bool found = false;

	for (; at < text + used; at = end + 1) {
		end = memchr(at, '\n', (size_t)(text + used - at));
		if (!end && used == sizeof(text))
			break; /* the rest of the line is not here */
		if (!end)
			end = text + used;
		length = (size_t)(end - at);
		if (!is_text(at, length) || (length && *at != '#' && !find_number(at, &length)))
			return false;
		found |= memchr(at, ';', length) != NULL;
	}
	return found;
}
