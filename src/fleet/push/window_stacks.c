/* SPDX-License-Identifier: Apache-2.0 */
/* The stacks of a trace as rows: see window_stacks.h, and doc/FLEET.md for the tables. */
#include "fleet/push/window_stacks.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "fleet/database/row_binary.h"

/* A line of a stack, as a report shows it. */
struct place {
	const char *function, *file, *module;
	uint32_t line, kind;
	uint64_t address; /* it means something only where there is no name */
};

bool window_stacks_begin(struct window_stacks *s, const struct mayfly_trace *trace)
{
	const struct mayfly_info *info = mayfly_trace_info(trace);

	*s = (struct window_stacks){.trace = trace, .nodes = info->nodes, .frames = info->frames};
	s->of_node = calloc(s->nodes + 1, sizeof(*s->of_node));
	s->of_frame = calloc(s->frames + 1, sizeof(*s->of_frame));
	return s->of_node && s->of_frame;
}

void window_stacks_end(struct window_stacks *s)
{
	interner_free(&s->ids);
	free(s->node);
	free(s->of_node);
	free(s->of_frame);
	free(s->place);
	free(s->path);
	*s = (struct window_stacks){0};
}

/* ---- places ---- */

static struct place place_at(const struct window_stacks *s, const struct mayfly_frame *frame,
			     size_t i)
{
	const struct mayfly_module *module = mayfly_trace_module(s->trace, frame->module);
	struct place p = {"", "", "", .kind = frame->kind, .address = frame->address};

	if (frame->kind != MAYFLY_FRAME_CODE)
		return p;
	p.module = module ? module->path : "";
	if (i < frame->locations) {
		p.function = frame->location[i].function;
		p.file = frame->location[i].file;
		p.line = frame->location[i].line;
	}
	if (*p.function)
		p.address = 0;
	return p;
}

static const struct place no_stack = {"[no stack]", "", "", .kind = MAYFLY_FRAME_CODE};

/* The same place of two hosts is the same number. */
static uint64_t hash_of(const struct place *p)
{
	uint64_t hash = window_hash(p->kind, hash_string(p->function));

	hash = window_hash(hash, hash_string(p->file));
	hash = window_hash(hash, hash_string(p->module));
	return window_hash(window_hash(hash, p->line), p->address);
}

static bool add(struct window_stacks *s, uint64_t value)
{
	return ARRAY_ADD(s->place, s->place_room, s->places, value);
}

static const uint64_t *look_at(struct window_stacks *s, uint32_t frame)
{
	static const uint64_t none = 0;
	const struct mayfly_frame *f = mayfly_trace_frame(s->trace, frame);
	size_t count = f && f->locations ? f->locations : 1;

	if (!f)
		return &none;
	if (s->places >= UINT32_MAX || !add(s, count))
		return NULL;
	s->of_frame[frame] = (uint32_t)s->places;
	for (size_t i = 0; i < count; i++) {
		struct place p = place_at(s, f, i);

		if (!add(s, hash_of(&p)))
			return NULL;
	}
	return s->place + s->of_frame[frame] - 1;
}

/* A frame's number of places, then their hashes. NULL: out of memory. */
static inline const uint64_t *places_of(struct window_stacks *s, uint32_t frame)
{
	if (frame < s->frames && s->of_frame[frame])
		return s->place + s->of_frame[frame] - 1;
	return look_at(s, frame);
}

static void put_place(struct bytes *b, uint64_t id, const struct place *p)
{
	bytes_put_fixed(b, id, 8);
	row_binary_put_text(b, p->kind == MAYFLY_FRAME_TRUNCATED ? "[further callers are unknown]"
			       : p->kind == MAYFLY_FRAME_ELIDED	 ? "[frames left out]"
								 : p->function);
	row_binary_put_text(b, p->file);
	bytes_put_fixed(b, p->line, 4);
	row_binary_put_text(b, p->module);
	bytes_put_fixed(b, p->address, 8);
}

/* ---- stacks ---- */

/* The places of a node's stack, leaf first, in s->path. SIZE_MAX: out of memory. */
static size_t path_of(struct window_stacks *s, uint32_t node)
{
	size_t depth = 0;

	for (struct mayfly_node n; node; node = n.parent) {
		const uint64_t *places;

		n = mayfly_trace_node(s->trace, node);
		places = places_of(s, n.frame);
		if (!places ||
		    !array_reserve(&s->path, &s->path_room, depth + *places, sizeof(*s->path)))
			return SIZE_MAX;
		for (uint64_t i = 1; i <= *places; i++)
			s->path[depth++] = places[i];
	}
	if (depth)
		return depth;
	if (!array_reserve(&s->path, &s->path_room, 0, sizeof(*s->path)))
		return SIZE_MAX;
	s->path[0] = hash_of(&no_stack);
	return 1;
}

uint32_t window_stacks_number(struct window_stacks *s, uint32_t node)
{
	uint32_t number;
	size_t depth;
	uint64_t id;
	bool new;

	if (s->of_node[node])
		return s->of_node[node] - 1;
	depth = path_of(s, node);
	if (depth == SIZE_MAX)
		return INTERNER_NONE;
	id = depth;
	for (size_t i = 0; i < depth; i++)
		id = window_hash(id, s->path[i]);
	number = interner_add(&s->ids, (struct key){{id}}, &new);
	if (number == INTERNER_NONE ||
	    !array_reserve(&s->node, &s->node_room, number, sizeof(*s->node)))
		return INTERNER_NONE;
	if (new)
		s->node[number] = node;
	s->of_node[node] = number + 1;
	return number;
}

/* The row of a place that has none. */
static bool name_place(const struct place *p, uint64_t id, struct interner *named,
		       struct bytes *frames)
{
	bool new;

	if (interner_add(named, (struct key){{id}}, &new) == INTERNER_NONE)
		return false;
	if (new)
		put_place(frames, id, p);
	return true;
}

static bool name_frame(const struct window_stacks *s, uint32_t frame, const uint64_t *places,
		       struct interner *named, struct bytes *frames)
{
	const struct mayfly_frame *f = mayfly_trace_frame(s->trace, frame);

	for (uint64_t i = 0; i < *places; i++) {
		struct place p = place_at(s, f, i);

		if (!name_place(&p, places[i + 1], named, frames))
			return false;
	}
	return true;
}

bool window_stacks_put(struct window_stacks *s, uint32_t number, struct interner *named,
		       struct bytes *stacks, struct bytes *frames)
{
	size_t depth = path_of(s, s->node[number]);

	if (depth == SIZE_MAX)
		return false;
	bytes_put_fixed(stacks, window_stacks_id(s, number), 8);
	bytes_put_u(stacks, depth);
	for (size_t i = 0; i < depth; i++)
		bytes_put_fixed(stacks, s->path[i], 8);
	for (uint32_t node = s->node[number]; node;) {
		struct mayfly_node n = mayfly_trace_node(s->trace, node);

		if (!name_frame(s, n.frame, places_of(s, n.frame), named, frames))
			return false;
		node = n.parent;
	}
	return s->path[0] != hash_of(&no_stack) || name_place(&no_stack, s->path[0], named, frames);
}
