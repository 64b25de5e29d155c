/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks as other tools show them: see shown_stacks.h. */
#include "answer/shown_stacks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "answer/trace_names.h"
#include "format/numbering.h"

#define ASKED  1u /* of verdict */
#define HIDDEN 2u

/* ---- frames ---- */

static bool is_hidden(struct shown_stacks *s, uint32_t text, const struct mayfly_match *hide)
{
	size_t before = s->verdict_capacity;

	if (text >= before) {
		if (!array_reserve(&s->verdict, &s->verdict_capacity, text, 1))
			return false;
		memset(s->verdict + before, 0, s->verdict_capacity - before);
	}
	if (!(s->verdict[text] & ASKED)) {
		const char *name = shown_text(s, text);

		s->verdict[text] = ASKED;
		if (*name && hide->matches(hide->context, name))
			s->verdict[text] |= HIDDEN;
	}
	return s->verdict[text] & HIDDEN;
}

static bool add_line(struct shown_stacks *s, struct shown_frame *f, const struct shown_line *line)
{
	if (!array_reserve(&s->line, &s->line_capacity, s->lines, sizeof(*s->line)))
		return false;
	s->line[s->lines++] = *line;
	f->count++;
	return true;
}

static const struct mayfly_location nowhere = {.function = "", .file = ""};

static bool add_location(struct shown_stacks *s, struct shown_frame *f,
			 const struct mayfly_frame *frame, const struct mayfly_location *location,
			 const struct mayfly_match *hide)
{
	const struct mayfly_module *module = mayfly_trace_module(s->trace, frame->module);
	const char *path = module ? module->path : "";
	uint32_t function = texts_number(&s->texts, location->function);
	uint32_t in = texts_number(&s->texts, path);
	struct shown_line line = {.line = location->line, .inlined = location->inlined};
	char buffer[4096];

	line.name =
	    texts_number(&s->texts, frame_shown_name(buffer, sizeof(buffer), frame->kind,
						     location->function, path, frame->address));
	line.file = texts_number(&s->texts, location->file);
	if (function == TEXTS_FAILED || in == TEXTS_FAILED || line.name == TEXTS_FAILED ||
	    line.file == TEXTS_FAILED)
		return false;
	/* Marks such as "[stack cut]" are never hidden. */
	if (hide->matches && frame->kind == MAYFLY_FRAME_CODE &&
	    (is_hidden(s, function, hide) || is_hidden(s, line.file, hide) ||
	     is_hidden(s, in, hide))) {
		f->hides = true;
		return true;
	}
	return add_line(s, f, &line);
}

static bool make_frame(struct shown_stacks *s, size_t index, const struct mayfly_match *hide)
{
	const struct mayfly_frame *frame = mayfly_trace_frame(s->trace, index);
	struct shown_frame *f = &s->frame[index];

	f->first = (uint32_t)s->lines;
	if (!frame)
		return true;
	if (frame->locations == 0 && !add_location(s, f, frame, &nowhere, hide))
		return false;
	for (size_t i = 0; i < frame->locations; i++)
		if (!add_location(s, f, frame, &frame->location[i], hide))
			return false;
	/* The function that the last line was inlined into is hidden. */
	if (f->count)
		s->line[s->lines - 1].inlined = false;
	return true;
}

static bool make_special(struct shown_stacks *s, size_t index, const char *name)
{
	struct shown_frame *f = &s->frame[s->info->frames + index];
	struct shown_line line = {.name = texts_number(&s->texts, name),
				  .file = texts_number(&s->texts, "")};

	f->first = (uint32_t)s->lines;
	return line.name != TEXTS_FAILED && line.file != TEXTS_FAILED && add_line(s, f, &line);
}

int shown_begin(struct shown_stacks *s, const struct mayfly_trace *trace,
		const struct mayfly_query *query)
{
	*s = (struct shown_stacks){.trace = trace, .info = mayfly_trace_info(trace)};
	s->frame = calloc(s->info->frames + SHOWN_SPECIALS, sizeof(*s->frame));
	if (!s->frame)
		return MAYFLY_E_MEMORY;
	for (size_t i = 0; i < s->info->frames; i++)
		if (!make_frame(s, i, &query->hide))
			return MAYFLY_E_MEMORY;
	if (!make_special(s, SHOWN_HIDDEN, "[hidden]") ||
	    !make_special(s, SHOWN_NONE, "[no stack]"))
		return MAYFLY_E_MEMORY;
	return 0;
}

void shown_end(struct shown_stacks *s)
{
	texts_free(&s->texts);
	free(s->frame);
	free(s->line);
	free(s->verdict);
	free(s->path);
	*s = (struct shown_stacks){0};
}

const char *shown_text(const struct shown_stacks *s, uint32_t number)
{
	return s->texts.text[number];
}

static bool is_code(const struct shown_stacks *s, uint32_t frame)
{
	return mayfly_trace_frame(s->trace, frame)->kind == MAYFLY_FRAME_CODE;
}

size_t shown_path(struct shown_stacks *s, uint32_t node, const uint32_t **frames)
{
	bool hides = false, shows_code = false;
	size_t length = 1; /* 0 is for a special one */

	for (struct mayfly_node n; node > 0; node = n.parent) {
		n = mayfly_trace_node(s->trace, node);
		if (n.parent >= node || n.frame >= s->info->frames)
			break; /* of a damaged trace */
		hides |= s->frame[n.frame].hides;
		if (!s->frame[n.frame].count)
			continue;
		if (!array_reserve(&s->path, &s->path_capacity, length, sizeof(*s->path)))
			return 0;
		shows_code |= is_code(s, n.frame);
		s->path[length++] = n.frame;
	}
	if (!array_reserve(&s->path, &s->path_capacity, 0, sizeof(*s->path)))
		return 0;
	s->path[0] = (uint32_t)s->info->frames + (hides ? SHOWN_HIDDEN : SHOWN_NONE);
	*frames = shows_code ? s->path + 1 : s->path;
	return shows_code ? length - 1 : length;
}

/* ---- sums ---- */

int stack_sums_begin(struct stack_sums *s, const struct mayfly_trace *trace,
		     const struct mayfly_query *first, const struct mayfly_query *second)
{
	int error;

	*s = (struct stack_sums){0};
	error = mayfly_node_sums_run(trace, first, &s->of[0]);
	if (!error && second)
		error = mayfly_node_sums_run(trace, second, &s->of[1]);
	if (error == MAYFLY_E_ABSENT && s->of[0])
		error = 0;
	if (error)
		stack_sums_end(s);
	return error;
}

bool stack_sums_next(struct stack_sums *s, struct stack_sum *sum)
{
	static const struct mayfly_estimate nothing = {0};
	uint32_t node = UINT32_MAX;

	for (int i = 0; i < STACK_COLUMNS; i++)
		if (s->of[i] && s->at[i] < s->of[i]->count && s->of[i]->sum[s->at[i]].node < node)
			node = s->of[i]->sum[s->at[i]].node;
	if (node == UINT32_MAX)
		return false;
	sum->node = node;
	for (int i = 0; i < STACK_COLUMNS; i++) {
		bool has =
		    s->of[i] && s->at[i] < s->of[i]->count && s->of[i]->sum[s->at[i]].node == node;

		sum->of[i] = has ? &s->of[i]->sum[s->at[i]++].self : &nothing;
	}
	return true;
}

void stack_sums_rewind(struct stack_sums *s)
{
	memset(s->at, 0, sizeof(s->at));
}

void stack_sums_end(struct stack_sums *s)
{
	for (int i = 0; i < STACK_COLUMNS; i++)
		mayfly_node_sums_free(s->of[i]);
	*s = (struct stack_sums){0};
}

uint64_t rounding_next(struct rounding *r, double value)
{
	uint64_t before = r->given;
	double sum;

	if (value > 0)
		r->sum += value;
	sum = round(r->sum);
	r->given = sum >= 0x1p63 ? INT64_MAX : (uint64_t)sum;
	return r->given - before;
}
