/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks as other tools show them: see shown_stacks.h. */
#include "answer/shown_stacks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "answer/trace_names.h"
#include "base/array.h"

/* Bits of a verdict: which matcher was asked; its answer is the bit 3 positions higher. */
#define ASKED_HIDE 1u
#define ASKED_SHOW 2u
#define ASKED_FROM 4u
#define IS_SHIFT   3

/* ---- frames ---- */

static bool text_matches(struct shown_stacks *s, uint32_t text, const struct mayfly_match *match,
			 unsigned int asked)
{
	size_t before = s->verdict_capacity;

	if (text >= before) {
		if (!array_reserve(&s->verdict, &s->verdict_capacity, text, 1))
			return false;
		memset(s->verdict + before, 0, s->verdict_capacity - before);
	}
	if (!(s->verdict[text] & asked)) {
		const char *name = shown_text(s, text);

		s->verdict[text] |= (uint8_t)asked;
		if (*name && match->matches(match->context, name))
			s->verdict[text] |= (uint8_t)(asked << IS_SHIFT);
	}
	return s->verdict[text] & asked << IS_SHIFT;
}

/* The texts of a location: function, file, module. */
static bool any_matches(struct shown_stacks *s, const uint32_t text[3],
			const struct mayfly_match *match, unsigned int asked)
{
	return match->matches &&
	       (text_matches(s, text[0], match, asked) || text_matches(s, text[1], match, asked) ||
		text_matches(s, text[2], match, asked));
}

/* Marks such as "[stack cut]" are hidden only by what says which frames are shown. */
static bool is_hidden(struct shown_stacks *s, const struct mayfly_query *q, const uint32_t text[3],
		      bool code)
{
	if (!code)
		return q->show.matches;
	return any_matches(s, text, &q->hide, ASKED_HIDE) ||
	       (q->show.matches && !any_matches(s, text, &q->show, ASKED_SHOW));
}

/* Does an answer of query.fold take the place of one nearer to the leaf? */
static bool replaces(unsigned answer, unsigned before)
{
	return answer > before || (answer && answer == before && answer < MAYFLY_FOLD_INNERMOST);
}

static bool add_line(struct shown_stacks *s, struct shown_frame *f, const struct shown_line *line)
{
	if (!ARRAY_ADD(s->line, s->line_capacity, s->lines, *line))
		return false;
	f->count++;
	return true;
}

static const struct mayfly_location nowhere = {.function = "", .file = ""};

static const struct mayfly_location *location_of(const struct mayfly_frame *frame, size_t i)
{
	return frame->locations ? &frame->location[i] : &nowhere;
}

static const char *path_of(const struct shown_stacks *s, const struct mayfly_frame *frame)
{
	const struct mayfly_module *module = mayfly_trace_module(s->trace, frame->module);

	return module ? module->path : "";
}

static bool make_line(struct shown_stacks *s, const struct mayfly_frame *frame,
		      const struct mayfly_location *location, struct shown_line *line)
{
	char buffer[4096];
	const char *name = frame_shown_name(buffer, sizeof(buffer), frame->kind, location->function,
					    path_of(s, frame), frame->address);

	*line = (struct shown_line){.name = texts_number(&s->texts, name),
				    .file = texts_number(&s->texts, location->file),
				    .line = location->line,
				    .inlined = location->inlined};
	return line->name != TEXTS_FAILED && line->file != TEXTS_FAILED;
}

/* As in rows, nothing is folded if the user says which frames are shown. */
static bool is_folded(const struct shown_stacks *s, struct shown_frame *f,
		      const struct mayfly_frame *frame, size_t number,
		      const struct mayfly_query *query)
{
	const struct mayfly_location *l = location_of(frame, number);
	unsigned answer = 0;

	if (s->kept && frame->kind == MAYFLY_FRAME_CODE)
		answer = query->fold.folds(query->fold.context, s->trace, l->function, l->file,
					   path_of(s, frame));
	if (replaces(answer, f->folded)) {
		f->folded = (uint8_t)answer;
		f->folded_location = (uint32_t)number;
	}
	return answer;
}

static bool add_location(struct shown_stacks *s, struct shown_frame *f,
			 const struct mayfly_frame *frame, size_t number,
			 const struct mayfly_query *query)
{
	const struct mayfly_location *location = location_of(frame, number);
	uint32_t function = texts_number(&s->texts, location->function);
	uint32_t in = texts_number(&s->texts, path_of(s, frame));
	bool code = frame->kind == MAYFLY_FRAME_CODE;
	struct shown_line line;

	if (!make_line(s, frame, location, &line) || function == TEXTS_FAILED || in == TEXTS_FAILED)
		return false;
	if (is_hidden(s, query, (const uint32_t[]){function, line.file, in}, code) ||
	    is_folded(s, f, frame, number, query))
		f->hides = true;
	else if (!add_line(s, f, &line))
		return false;
	if (s->cut && code &&
	    any_matches(s, (const uint32_t[]){function, line.file, in}, &query->show_from,
			ASKED_FROM)) {
		struct shown_frame *begin = &s->frame[s->frames + (size_t)(f - s->frame)];

		f->begins = true;
		begin->count = f->count;
	}
	return true;
}

static bool make_frame(struct shown_stacks *s, size_t index, const struct mayfly_query *query)
{
	const struct mayfly_frame *frame = mayfly_trace_frame(s->trace, index);
	struct shown_frame *f = &s->frame[index];

	f->first = (uint32_t)s->lines;
	if (!frame)
		return true;
	for (size_t i = 0; i < (frame->locations ? frame->locations : 1); i++)
		if (!add_location(s, f, frame, i, query))
			return false;
	if (s->cut) {
		s->frame[s->frames + index].first = f->first;
		s->frame[s->frames + index].hides = f->hides;
	}
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

static bool make_kept(struct shown_stacks *s, size_t index)
{
	const struct mayfly_frame *frame = mayfly_trace_frame(s->trace, index);
	const struct shown_frame *f = &s->frame[index];
	struct shown_frame *kept = &s->frame[s->kept + index];
	struct shown_line line;

	kept->first = (uint32_t)s->lines;
	if (!f->folded)
		return true;
	if (!make_line(s, frame, location_of(frame, f->folded_location), &line))
		return false;
	line.inlined = false; /* what it was inlined into is not shown */
	return add_line(s, kept, &line);
}

/* Parents come before their children. */
static void cut_stacks(struct shown_stacks *s)
{
	for (size_t i = 1; i < s->info->nodes; i++) {
		struct mayfly_node n = mayfly_trace_node(s->trace, i);
		bool begins = n.frame < s->info->frames && s->frame[n.frame].begins;

		if (n.parent < i && s->cut[n.parent] != SHOWN_ABOVE)
			s->cut[i] = SHOWN_BELOW;
		else if (begins)
			s->cut[i] = SHOWN_HERE;
	}
}

uint32_t shown_node(const struct shown_stacks *s, uint32_t node)
{
	uint32_t frame = mayfly_trace_node(s->trace, node).frame;

	if (frame >= s->info->frames || (s->cut && s->cut[node] == SHOWN_ABOVE))
		return SHOWN_NOTHING;
	return s->cut && s->cut[node] == SHOWN_HERE ? (uint32_t)s->frames + frame : frame;
}

size_t shown_indices(const struct shown_stacks *s)
{
	return s->frames + ((size_t) !!s->cut + !!s->kept) * s->info->frames;
}

uint32_t shown_trace_frame(const struct shown_stacks *s, uint32_t index)
{
	if (index < s->frames)
		return index;
	return (uint32_t)((index - s->frames) % s->info->frames);
}

int shown_begin(struct shown_stacks *s, const struct mayfly_trace *trace,
		const struct mayfly_query *query)
{
	*s = (struct shown_stacks){.trace = trace, .info = mayfly_trace_info(trace)};
	s->frames = s->info->frames + SHOWN_SPECIALS;
	if (query->show_from.matches)
		s->cut = calloc(s->info->nodes + 1, 1);
	if (query->fold.folds && !query->show.matches)
		s->kept = s->frames + (s->cut ? s->info->frames : 0);
	s->frame = calloc(shown_indices(s), sizeof(*s->frame));
	if (!s->frame || (query->show_from.matches && !s->cut))
		return MAYFLY_E_MEMORY;
	for (size_t i = 0; i < s->info->frames; i++)
		if (!make_frame(s, i, query))
			return MAYFLY_E_MEMORY;
	for (size_t i = 0; s->kept && i < s->info->frames; i++)
		if (!make_kept(s, i))
			return MAYFLY_E_MEMORY;
	if (s->cut)
		cut_stacks(s);
	if (!make_special(s, SHOWN_HIDDEN, query->show.matches ? "[none of them]" : "[hidden]") ||
	    !make_special(s, SHOWN_NONE, query->show.matches ? "[none of them]" : "[no stack]"))
		return MAYFLY_E_MEMORY;
	return 0;
}

void shown_end(struct shown_stacks *s)
{
	texts_free(&s->texts);
	free(s->frame);
	free(s->cut);
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
	return mayfly_trace_frame(s->trace, shown_trace_frame(s, frame))->kind == MAYFLY_FRAME_CODE;
}

uint32_t shown_instead(const struct shown_stacks *s, uint32_t node)
{
	uint32_t found = (uint32_t)s->info->frames + SHOWN_NONE;
	unsigned folded = 0;

	for (struct mayfly_node n; node > 0; node = n.parent) {
		uint32_t frame = shown_node(s, node);

		n = mayfly_trace_node(s->trace, node);
		if (n.parent >= node || frame == SHOWN_NOTHING)
			break;
		if (!folded && s->frame[frame].hides)
			found = (uint32_t)s->info->frames + SHOWN_HIDDEN;
		if (!replaces(s->frame[n.frame].folded, folded))
			continue;
		folded = s->frame[n.frame].folded;
		found = (uint32_t)s->kept + n.frame;
	}
	return found;
}

bool shown_is_instead(const struct shown_stacks *s, uint32_t index)
{
	return (index >= s->info->frames && index < s->frames) || (s->kept && index >= s->kept);
}

size_t shown_path(struct shown_stacks *s, uint32_t node, const uint32_t **frames)
{
	uint32_t leaf = node;
	bool shows_code = false;
	size_t length = 1; /* 0 is for a special one */

	for (struct mayfly_node n; node > 0; node = n.parent) {
		uint32_t frame = shown_node(s, node);

		n = mayfly_trace_node(s->trace, node);
		if (n.parent >= node || frame == SHOWN_NOTHING)
			break; /* of a damaged trace; or what is above is cut */
		if (!s->frame[frame].count)
			continue;
		if (!array_reserve(&s->path, &s->path_capacity, length, sizeof(*s->path)))
			return 0;
		shows_code |= is_code(s, frame);
		s->path[length++] = frame;
	}
	if (!array_reserve(&s->path, &s->path_capacity, 0, sizeof(*s->path)))
		return 0;
	if (!shows_code)
		s->path[0] = shown_instead(s, leaf);
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
