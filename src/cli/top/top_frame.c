/* SPDX-License-Identifier: Apache-2.0 */
/* top_frame.c: lines of text with styles. */
#include "cli/top/top_frame.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

static void add_text(struct top_frame *f, enum style style, const char *text)
{
	int written = snprintf(f->text + f->used, sizeof(f->text) - f->used, "%c%s%c",
			       FRAME_STYLE + (int)style, text, FRAME_STYLE + (int)STYLE_PLAIN);

	if (written < 0 || (size_t)written >= sizeof(f->text) - f->used)
		f->text[f->used] = 0; /* no room: a line of this length cannot be seen anyway */
	else
		f->used += (size_t)written;
	f->columns += text_columns(text);
}

void frame_put(struct top_frame *f, enum style style, const char *format, ...)
{
	char text[2048];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	add_text(f, style, text);
}

void frame_put_fitted(struct top_frame *f, enum style style, const char *text, size_t columns)
{
	static char fitted[NAME_BYTES];

	add_text(f, style, line_fit(fitted, sizeof(fitted), f->o, text, columns));
}

void frame_pad(struct top_frame *f, size_t column)
{
	if (column > f->columns)
		frame_put(f, STYLE_PLAIN, "%*s", (int)(column - f->columns), "");
}

void frame_end_line(struct top_frame *f)
{
	char *copy = strdup(f->used ? f->text : "");

	f->used = f->columns = 0;
	if (!copy || !array_reserve(&f->line, &f->room, f->lines, sizeof(*f->line))) {
		free(copy);
		f->failed = true;
		return;
	}
	f->line[f->lines++] = copy;
}

void frame_free(struct top_frame *f)
{
	for (size_t i = 0; i < f->lines; i++)
		free(f->line[i]);
	free(f->line);
	free(f);
}

void frame_print(const struct top_frame *f)
{
	for (size_t i = 0; i < f->lines; i++) {
		enum style style = STYLE_PLAIN;

		for (char *at = f->line[i], *end; *at; at = end) {
			char kept;

			if ((unsigned char)*at <= FRAME_STYLE + STYLE_LESS)
				style = (enum style)(*at++ - FRAME_STYLE);
			for (end = at; (unsigned char)*end > FRAME_STYLE + STYLE_LESS;)
				end++;
			kept = *end;
			*end = 0;
			print_styled(f->o, style, at);
			*end = kept;
		}
		putchar('\n');
	}
}
