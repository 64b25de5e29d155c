/* SPDX-License-Identifier: Apache-2.0 */
/*
 * query_names.c: the names in a trace, each examined once: which filters match them, and which
 * groups (rows, or places of printed stacks) frames belong to.
 */
#include "query/query.h"
#include "base/array.h"
#include "query/thread_filter.h"

#include <stdlib.h>
#include <string.h>

static const char hidden_text[] = "[hidden]";
static const char not_shown_text[] = "[none of them]";
static const char no_stack_text[] = "[no stack]";

#define KNOWN_FOCUS  1u /* this matcher was asked ... */
#define KNOWN_IGNORE 2u
#define KNOWN_FROM   4u
#define KNOWN_HIDE   8u
#define KNOWN_SHOW   16u
#define IS_SHIFT     5 /* ... and its answer is the bit 5 positions higher */
#define IS_FOCUS     (KNOWN_FOCUS << IS_SHIFT)
#define IS_IGNORE    (KNOWN_IGNORE << IS_SHIFT)
#define IS_FROM	     (KNOWN_FROM << IS_SHIFT) /* these three fit into a byte */

/* ---- texts ---- */

/* The first text that reads like this one, which is that itself if there is none. Other texts with
 * its hash have other counters in their keys. NONE: out of memory. */
static uint32_t first_text(struct query_state *s, uint32_t number)
{
	const char *text = s->text[number].text;
	struct key key = {{hash_string(text)}};
	bool is_new;

	for (;; key.word[1]++) {
		uint32_t content = interner_add(&s->text_content, key, &is_new);

		if (content == NONE ||
		    !array_reserve(&s->text_first, &s->text_first_room, content, sizeof(number)))
			return NONE;
		if (is_new)
			s->text_first[content] = number;
		if (strcmp(s->text[s->text_first[content]].text, text) == 0)
			return s->text_first[content];
	}
}

uint32_t query_text(struct query_state *s, const char *text)
{
	struct key key = {{(uintptr_t)text}};
	uint32_t number = NONE, same;
	bool is_new;

	if (array_reserve(&s->text, &s->text_capacity, s->text_address.count, sizeof(*s->text)))
		number = interner_add(&s->text_address, key, &is_new);
	if (number == NONE) {
		query_fail(s, MAYFLY_E_MEMORY);
		return 0;
	}
	if (!is_new)
		return s->text[number].same;
	s->text[number] = (struct text){.text = text, .same = number};
	same = first_text(s, number);
	if (same != NONE)
		s->text[number].same = same;
	else
		query_fail(s, MAYFLY_E_MEMORY);
	return s->text[number].same;
}

/* Asks a matcher once for each text. An unknown name matches nothing. */
static bool text_matches(struct query_state *s, uint32_t text, const struct mayfly_match *match,
			 unsigned int known)
{
	struct text *t = &s->text[text];

	if (!match->matches || !*t->text)
		return false;
	if (!(t->verdict & known)) {
		t->verdict |= known;
		if (match->matches(match->context, t->text))
			t->verdict |= (uint16_t)(known << IS_SHIFT);
	}
	return t->verdict & known << IS_SHIFT;
}

static uint32_t module_text(struct query_state *s, uint32_t index)
{
	const struct mayfly_module *module = mayfly_trace_module(s->trace, index);

	return query_text(s, module ? module->path : "");
}

static bool location_matches(struct query_state *s, const struct mayfly_location *location,
			     uint32_t module, const struct mayfly_match *match, unsigned int known)
{
	return text_matches(s, query_text(s, location->function), match, known) ||
	       text_matches(s, query_text(s, location->file), match, known) ||
	       text_matches(s, module, match, known);
}

/* ---- groups: the rows, or the places of stacks ---- */

uint32_t query_group(struct query_state *s, struct key key, const struct group *fresh)
{
	bool is_new;
	uint32_t number;

	if (!query_sums_reserve(s, &s->group_sums, 2 * s->group_key.count + 2) ||
	    !array_reserve(&s->group, &s->group_capacity, s->group_key.count, sizeof(*s->group)) ||
	    (number = interner_add(&s->group_key, key, &is_new)) == NONE) {
		query_fail(s, MAYFLY_E_MEMORY);
		return NONE;
	}
	if (is_new) {
		s->group[number] = *fresh;
		query_sum_clear(s, &s->group_sums, 2 * (size_t)number);
		query_sum_clear(s, &s->group_sums, 2 * (size_t)number + 1);
	}
	return number;
}

static uint64_t pair(uint32_t low, uint32_t high)
{
	return low | (uint64_t)high << 32;
}

/* Places with equal keys are in the same row, or are the same line of a printed stack. */
static struct key place_key(const struct group *p, enum mayfly_by by)
{
	if (by == MAYFLY_BY_STACK)
		return (struct key){
		    {pair(p->kind, p->inlined), pair(p->function, p->file),
		     pair(p->module, p->line),
		     p->last_char ? pair(p->first_char, p->last_char) : p->address}};
	if (by == MAYFLY_BY_MODULE)
		return (struct key){{by, p->module}};
	if (p->kind != MAYFLY_FRAME_CODE)
		return (struct key){{UINT64_MAX, p->kind, p->address, 1}};
	if (p->by_address)
		return (struct key){{UINT64_MAX, p->module, p->address}};
	if (by == MAYFLY_BY_LINE)
		return (struct key){{by, pair(p->function, p->file), p->line}};
	return (struct key){{by, p->function}};
}

/* The group of a place. Fields outside the key are shown only if all places of the group agree. */
static uint32_t place_group(struct query_state *s, const struct group *place)
{
	enum mayfly_by by = s->query->by;
	struct group fresh = *place, *g;
	uint32_t number;

	if (by == MAYFLY_BY_MODULE)
		fresh = (struct group){.module = place->module};
	else if (by == MAYFLY_BY_FUNCTION)
		fresh.line = 0;
	number = query_group(s, place_key(place, by), &fresh);
	if (number == NONE || by == MAYFLY_BY_MODULE)
		return number;
	g = &s->group[number];
	if (g->file != place->file)
		g->file = NONE;
	if (g->module != place->module)
		g->module = NONE;
	return number;
}

/* ---- frames ---- */

static const struct mayfly_location unknown_location = {.function = "", .file = ""};

/* A frame without names has one location, too. */
static const struct mayfly_location *frame_location(const struct mayfly_frame *frame, size_t i)
{
	return frame->locations ? &frame->location[i] : &unknown_location;
}

static struct group location_place(struct query_state *s, const struct mayfly_frame *frame,
				   const struct mayfly_location *location)
{
	struct group place = {
	    .function = query_text(s, location->function),
	    .file = query_text(s, location->file),
	    .module = module_text(s, frame->module),
	    .line = location->line,
	    .inlined = location->inlined,
	};

	if (place.function == 0) {
		place.by_address = true;
		place.address = frame->address;
	} else if (s->query->by == MAYFLY_BY_STACK) {
		place.first_char = location->first_char;
		place.last_char = location->last_char;
	}
	return place;
}

uint32_t query_special_group(struct query_state *s, const struct kept_place *kept)
{
	uint32_t text = query_text(s, s->query->show.matches ? not_shown_text
				      : kept->hides	     ? hidden_text
							     : no_stack_text);
	struct group place = {.function = text};

	if (kept->folded) {
		const struct mayfly_frame *frame = mayfly_trace_frame(s->trace, kept->frame);

		place = location_place(s, frame, frame_location(frame, kept->location));
		place.inlined = false; /* what it was inlined into is not shown */
	} else if (s->query->by == MAYFLY_BY_MODULE) {
		place.module = text;
	}
	return place_group(s, &place);
}

/* Asks query.fold once for each place. */
static uint8_t fold_answer(struct query_state *s, const struct group *place)
{
	const struct mayfly_fold *fold = &s->query->fold;
	struct key key = {{pair(place->function, place->file), place->module}};
	uint32_t number;
	unsigned answer;
	bool is_new;

	if (!fold->folds || s->query->by == MAYFLY_BY_MODULE || s->query->show.matches)
		return 0;
	if (!array_reserve(&s->fold_answer, &s->fold_room, s->fold_key.count, 1) ||
	    (number = interner_add(&s->fold_key, key, &is_new)) == NONE) {
		query_fail(s, MAYFLY_E_MEMORY);
		return 0;
	}
	if (is_new) {
		answer = fold->folds(fold->context, s->trace, s->text[place->function].text,
				     s->text[place->file].text, s->text[place->module].text);
		s->fold_answer[number] = (uint8_t)(answer < UINT8_MAX ? answer : UINT8_MAX);
	}
	return s->fold_answer[number];
}

static bool add_spot(struct query_state *s, struct frame_spots *f, const struct group *place)
{
	uint32_t group = place_group(s, place);

	if (group == NONE)
		return false;
	if (!ARRAY_ADD(s->spot, s->spot_capacity, s->spots, group))
		return query_fail(s, MAYFLY_E_MEMORY);
	f->count++;
	return true;
}

static bool is_hidden(struct query_state *s, const struct mayfly_location *location,
		      uint32_t module)
{
	const struct mayfly_query *q = s->query;

	return location_matches(s, location, module, &q->hide, KNOWN_HIDE) ||
	       (q->show.matches && !location_matches(s, location, module, &q->show, KNOWN_SHOW));
}

static bool add_location(struct query_state *s, struct frame_spots *f,
			 const struct mayfly_frame *frame, uint32_t number)
{
	const struct mayfly_location *location = frame_location(frame, number);
	struct group place = location_place(s, frame, location);
	uint8_t folded;

	if (is_hidden(s, location, place.module)) {
		f->hides = true;
		return true;
	}
	folded = fold_answer(s, &place);
	if (!folded)
		return add_spot(s, f, &place);
	f->hides = true;
	if (fold_replaces(folded, f->folded, true)) {
		f->folded = folded;
		f->folded_place = number;
	}
	return true;
}

/* The first `count` locations of a frame, which are the innermost. */
static bool add_locations(struct query_state *s, struct frame_spots *f,
			  const struct mayfly_frame *frame, uint32_t count)
{
	*f = (struct frame_spots){.first = (uint32_t)s->spots};
	for (uint32_t i = 0; i < count; i++)
		if (!add_location(s, f, frame, i))
			return false;
	f->has_code = f->count > 0;
	return true;
}

bool query_frames_begin(struct query_state *s)
{
	s->frame = malloc((s->info->frames + 1) * sizeof(*s->frame));
	if (!s->frame)
		return query_fail(s, MAYFLY_E_MEMORY);
	for (size_t i = 0; i < s->info->frames; i++)
		s->frame[i].first = NONE;
	if (s->begins) {
		s->begin = malloc((s->info->frames + 1) * sizeof(*s->begin));
		for (size_t i = 0; s->begin && i < s->info->frames; i++)
			s->begin[i].first = NONE;
	}
	return !s->begins || s->begin || query_fail(s, MAYFLY_E_MEMORY);
}

static bool names_make_frame(struct query_state *s, struct frame_spots *f, uint32_t index)
{
	const struct mayfly_frame *frame = mayfly_trace_frame(s->trace, index);

	*f = (struct frame_spots){.first = (uint32_t)s->spots};
	if (!frame)
		return true;
	if (frame->kind != MAYFLY_FRAME_CODE) {
		struct group mark = {.kind = frame->kind, .address = frame->address};

		if (s->query->show.matches) {
			f->hides = true;
			return true;
		}
		/* A mark is a line of a printed stack; other groupings ignore it. */
		return (s->query->by != MAYFLY_BY_STACK && !s->marks) || add_spot(s, f, &mark);
	}
	return add_locations(s, f, frame, frame->locations ? (uint32_t)frame->locations : 1);
}

const struct frame_spots *query_make_frame(struct query_state *s, uint32_t index)
{
	static const struct frame_spots nothing = {0};

	if (index >= s->info->frames)
		return &nothing;
	if (s->frame[index].first == NONE && !names_make_frame(s, &s->frame[index], index))
		return NULL;
	return &s->frame[index];
}

/* A frame where a stack begins: the matching function and those inlined into it. */
static bool make_begin(struct query_state *s, struct frame_spots *b, uint32_t index)
{
	const struct mayfly_frame *frame = mayfly_trace_frame(s->trace, index);
	uint32_t module = module_text(s, frame->module), count = 1;

	for (uint32_t i = 0; i < frame->locations; i++)
		if (location_matches(s, &frame->location[i], module, &s->query->show_from,
				     KNOWN_FROM))
			count = i + 1;
	return add_locations(s, b, frame, count) && !s->error;
}

const struct frame_spots *query_cut_frame(struct query_state *s, uint32_t node)
{
	static const struct frame_spots nothing = {0};
	uint32_t frame = s->trace->node[node].frame;

	if (s->begins[node] == STACK_ABOVE || frame >= s->info->frames)
		return &nothing;
	if (s->begins[node] == STACK_BELOW)
		return query_frame(s, frame);
	if (s->begin[frame].first == NONE && !make_begin(s, &s->begin[frame], frame))
		return NULL;
	return &s->begin[frame];
}

/* ---- filters ---- */

static unsigned int frame_verdict(struct query_state *s, uint32_t index)
{
	const struct mayfly_frame *frame = mayfly_trace_frame(s->trace, index);
	unsigned int verdict = 0;
	uint32_t module;

	if (!frame || frame->kind != MAYFLY_FRAME_CODE)
		return 0;
	module = module_text(s, frame->module);
	if (text_matches(s, module, &s->query->focus, KNOWN_FOCUS))
		verdict |= IS_FOCUS;
	if (text_matches(s, module, &s->query->ignore, KNOWN_IGNORE))
		verdict |= IS_IGNORE;
	if (text_matches(s, module, &s->query->show_from, KNOWN_FROM))
		verdict |= IS_FROM;
	for (size_t i = 0; i < frame->locations; i++) {
		const struct mayfly_location *l = &frame->location[i];

		if (location_matches(s, l, module, &s->query->focus, KNOWN_FOCUS))
			verdict |= IS_FOCUS;
		if (location_matches(s, l, module, &s->query->ignore, KNOWN_IGNORE))
			verdict |= IS_IGNORE;
		if (location_matches(s, l, module, &s->query->show_from, KNOWN_FROM))
			verdict |= IS_FROM;
	}
	return verdict;
}

static enum stack_begins begins_of(unsigned int parent, unsigned int verdict)
{
	return !(verdict & IS_FROM) ? STACK_ABOVE : parent & IS_FROM ? STACK_BELOW : STACK_HERE;
}

/* What each node's stack matches. Parents come before their children, so one pass suffices. */
static void judge_nodes(struct query_state *s, const uint8_t *seen)
{
	size_t nodes = s->info->nodes, frames = s->info->frames;

	for (size_t i = 1; i < nodes; i++) {
		struct mayfly_node node = mayfly_trace_node(s->trace, i);
		unsigned int above = node.parent < i ? s->node_kept[node.parent] : 0;
		unsigned int verdict = above | (node.frame < frames ? seen[node.frame] : 0);

		s->node_kept[i] = (uint8_t)verdict;
		if (s->begins)
			s->begins[i] = (uint8_t)begins_of(above, verdict);
	}
}

bool query_filter_nodes(struct query_state *s)
{
	size_t nodes = s->info->nodes, frames = s->info->frames;
	unsigned int needed =
	    (s->query->focus.matches ? IS_FOCUS : 0) | (s->query->show_from.matches ? IS_FROM : 0);
	uint8_t *seen;

	if (!needed && !s->query->ignore.matches)
		return true;
	s->node_kept = query_zeroed(s, nodes, 1);
	if (needed & IS_FROM)
		s->begins = query_zeroed(s, nodes, 1);
	seen = query_zeroed(s, frames, 1);
	for (size_t i = 0; !s->error && i < frames; i++)
		seen[i] = (uint8_t)frame_verdict(s, (uint32_t)i);
	if (!s->error)
		judge_nodes(s, seen);
	free(seen);
	for (size_t i = 0; !s->error && i < nodes; i++) {
		unsigned int verdict = s->node_kept[i];

		s->node_kept[i] = (verdict & needed) == needed && !(verdict & IS_IGNORE);
	}
	return !s->error;
}

bool query_thread_matches(const struct mayfly_match *match, const struct mayfly_thread *thread)
{
	char number[16], *p = number + sizeof(number);
	uint32_t tid = thread->tid;

	if (match->matches(match->context, thread->name))
		return true;
	*--p = 0;
	do {
		*--p = (char)('0' + tid % 10);
		tid /= 10;
	} while (tid);
	return match->matches(match->context, p);
}

bool query_filter_threads(struct query_state *s)
{
	if (!s->query->thread.matches)
		return true;
	s->thread_kept = query_zeroed(s, s->info->threads, 1);
	if (!s->thread_kept)
		return false;
	for (size_t i = 0; i < s->info->threads; i++) {
		const struct mayfly_thread *thread = mayfly_trace_thread(s->trace, i);

		s->thread_kept[i] = thread && query_thread_matches(&s->query->thread, thread);
	}
	return true;
}
