/* SPDX-License-Identifier: Apache-2.0 */
/* Options and their values: see option_row.h. */
#include "question/option_row.h"

#include <string.h>

#include "answer/figures.h"
#include "answer/text_format.h"

/* ---- values ---- */

bool option_take_flag(const struct given *given, void *to)
{
	(void)given;
	*(bool *)to = true;
	return true;
}

bool option_take_text(const struct given *given, void *to)
{
	*(const char **)to = given->value;
	return true;
}

bool option_take_file(const struct given *given, void *to)
{
	if (!*given->value)
		return error_say(given->error_line, "%s: the name is empty", given->option);
	return option_take_text(given, to);
}

typedef char *limit_text(char *buffer, size_t size, double limit);

static char *count_text(char *buffer, size_t size, double count)
{
	return text_format(buffer, size, "%.0f", count);
}

static bool check_range(const struct given *given, uint64_t number, limit_text *text)
{
	const struct option_row *row = given->row;
	char least[FIGURE_TEXT], most[FIGURE_TEXT];

	if (number >= row->least && (!row->most || number <= row->most))
		return true;
	text(least, sizeof(least), (double)row->least);
	if (!row->most)
		return error_say(given->error_line, "%s: '%s' is too small; the minimum is %s",
				 given->option, given->value, least);
	return error_say(given->error_line, "%s: '%s' is out of range: %s to %s", given->option,
			 given->value, least, text(most, sizeof(most), (double)row->most));
}

bool option_take_bytes(const struct given *given, void *to)
{
	uint64_t *bytes = to;

	if (!option_bytes(given->option, given->value, bytes, given->error_line))
		return false;
	return check_range(given, *bytes, text_bytes);
}

bool option_take_time(const struct given *given, void *to)
{
	int64_t *ns = to;

	if (!option_time(given->option, given->value, ns, given->error_line))
		return false;
	return check_range(given, (uint64_t)*ns, text_duration);
}

bool option_take_count(const struct given *given, void *to)
{
	size_t *count = to;

	if (!option_count(given->option, given->value, count, given->error_line))
		return false;
	return check_range(given, *count, count_text);
}

bool option_take_pattern(const struct given *given, void *to)
{
	return pattern_add(to, given->option, given->value, given->error_line);
}

bool option_take_choice(const struct given *given, void *to)
{
	return option_choice(given->option, given->value, given->row->choices, to,
			     given->error_line);
}

/* ---- the rows, one after the other ---- */

static bool is_end(const struct option_row *row)
{
	return !row->name && !row->help && !row->group;
}

size_t option_rows_flatten(const struct option_row *rows, size_t base, struct flat_row *flat,
			   size_t used)
{
	for (const struct option_row *row = rows; !is_end(row) && used < MOST_OPTIONS; row++) {
		if (row->group)
			used = option_rows_flatten(row->group, base + row->at, flat, used);
		else
			flat[used++] = (struct flat_row){row, base};
	}
	return used;
}

bool option_row_take(const struct flat_row *f, const char *said, const char *value, void *into,
		     struct error_line *c)
{
	const struct given given = {f->row, said, value, c};
	char *base = (char *)into + f->base;

	if (f->row->given)
		*(bool *)(base + f->row->given - 1) = true;
	return f->row->take(&given, base + f->row->at);
}

bool option_rows_take(const struct option_row *rows, const char *name, const char *said,
		      const char *value, void *into, struct error_line *c)
{
	struct flat_row flat[MOST_OPTIONS];
	size_t count = option_rows_flatten(rows, 0, flat, 0);

	for (size_t i = 0; i < count; i++) {
		const struct option_row *row = flat[i].row;

		if (row->name && !strcmp(row->name, name))
			return row->take(&(struct given){row, said, value, c},
					 (char *)into + flat[i].base + row->at);
	}
	return false;
}
