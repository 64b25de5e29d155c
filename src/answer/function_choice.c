/* SPDX-License-Identifier: Apache-2.0 */
/* A function as users name it: see function_choice.h. */
#include "answer/function_choice.h"

#include <string.h>

#include "answer/trace_names.h"

static const char *shown_name(char *buffer, size_t size, const struct mayfly_place *p)
{
	return frame_shown_name(buffer, size, p->kind, p->function, p->module, p->address);
}

bool trace_has_function(const struct mayfly_trace *trace, const char *name)
{
	size_t frames = mayfly_trace_info(trace)->frames;
	char buffer[512];

	for (size_t i = 0; i < frames; i++) {
		const struct mayfly_frame *f = mayfly_trace_frame(trace, i);
		const struct mayfly_module *m = mayfly_trace_module(trace, f->module);
		struct mayfly_place place = {.kind = f->kind,
					     .function = "",
					     .module = m ? m->path : "",
					     .address = f->address};

		for (size_t k = 0; k < f->locations; k++)
			if (strcmp(f->location[k].function, name) == 0)
				return true;
		if (!f->locations && strcmp(shown_name(buffer, sizeof(buffer), &place), name) == 0)
			return true;
	}
	return false;
}

static bool is_chosen(void *context, const struct mayfly_place *place)
{
	const struct function_choice *c = context;
	char buffer[512];
	const char *name = shown_name(buffer, sizeof(buffer), place);

	return c->pattern.matches ? c->pattern.matches(c->pattern.context, name)
				  : strcmp(name, c->name) == 0;
}

struct calls_match function_choice_match(struct function_choice *choice)
{
	return (struct calls_match){is_chosen, choice};
}
