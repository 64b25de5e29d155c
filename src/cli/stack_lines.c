/* SPDX-License-Identifier: Apache-2.0 */
/* Prints stacks. */
#include "cli/stack_lines.h"

#include <inttypes.h>
#include <string.h>

#include "answer/trace_names.h"

static void write_place(FILE *to, const struct output *o, const struct mayfly_place *place)
{
	char name[NAME_BYTES], fitted[NAME_BYTES], location[NAME_BYTES], shown[NAME_BYTES];
	size_t room = (size_t)o->width - STACK_INDENT, used = 0;
	const char *mark = place->recursive ? " (recursive)" : place->inlined ? " (inlined)" : "";

	place_name(name, sizeof(name), place);
	location[0] = 0;
	if (place->kind == MAYFLY_FRAME_CODE && *place->function)
		location_text(location, sizeof(location), place->file, place->line, place->module,
			      o->wide);
	if (place->last_char && place->line) {
		size_t end = strlen(location);

		snprintf(location + end, sizeof(location) - end, ":%" PRIu32 "-%" PRIu32,
			 place->first_char, place->last_char);
	}
	place_fit(shown, sizeof(shown), o, location, room / 2);
	if (*shown)
		used += 2 + text_columns(shown);
	used += strlen(mark);
	fprintf(to, "%*s", STACK_INDENT, "");
	write_styled(to, o, place->kind == MAYFLY_FRAME_CODE ? STYLE_PLAIN : STYLE_NOTE,
		     name_fit(fitted, sizeof(fitted), o, name, room > used ? room - used : 1));
	if (*shown) {
		fputs("  ", to);
		write_styled(to, o, STYLE_DIM, shown);
	}
	write_styled(to, o, STYLE_DIM, mark);
	fputc('\n', to);
}

void write_stack(FILE *to, const struct output *o, const struct mayfly_place *stack, size_t length,
		 size_t depth)
{
	size_t shown = length;

	/* A line that says "1 more" takes the place of what it leaves out. */
	if (depth && shown > depth + 1)
		shown = depth;
	for (size_t i = 0; i < shown; i++)
		write_place(to, o, &stack[i]);
	if (length == 0)
		fprintf(to, "%*s[no frames]\n", STACK_INDENT, "");
	if (shown < length) {
		char text[64];

		snprintf(text, sizeof(text), "[%zu more frames]", length - shown);
		fprintf(to, "%*s", STACK_INDENT, "");
		write_styled(to, o, STYLE_DIM, text);
		fputc('\n', to);
	}
}

void print_stack(const struct output *o, const struct mayfly_place *stack, size_t length,
		 size_t depth)
{
	write_stack(stdout, o, stack, length, depth);
}
