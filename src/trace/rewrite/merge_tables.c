/* SPDX-License-Identifier: Apache-2.0 */
/* merge_tables.c: the tables of several traces as one. */
#include "trace/rewrite/merge_tables.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "trace/read/reader.h"

bool merge_tables_begin(struct merge_tables *t)
{
	*t = (struct merge_tables){.r = recording_new()};
	return t->r != NULL;
}

void merge_tables_end(struct merge_tables *t)
{
	recording_free(t->r);
	interner_free(&t->modules);
	interner_free(&t->rows);
	free(t->row);
	interner_free(&t->places);
	interner_free(&t->frames);
	free(t->frame);
	*t = (struct merge_tables){0};
}

void merge_map_free(struct merge_map *map)
{
	free(map->node);
	free(map->thread);
	free(map->module);
	free(map->frame);
	interner_free(&map->texts);
	free(map->string);
	*map = (struct merge_map){0};
}

/* The number of a key; t->r->failed: there is none. */
static uint32_t number_of(struct merge_tables *t, struct interner *n, struct key key, bool *fresh)
{
	uint32_t number = interner_add(n, key, fresh);

	t->r->failed |= number == INTERNER_NONE;
	return number;
}

/* ---- strings ---- */

/* Each text is in a trace only once, so most are recognised by their address. */
static uint32_t merge_string(struct merge_tables *t, struct merge_map *map, const char *text)
{
	bool fresh;
	uint32_t number;

	if (!*text)
		return 0;
	number = number_of(t, &map->texts, (struct key){{(uintptr_t)text, 0, 0, 0}}, &fresh);
	if (!fresh)
		return t->r->failed ? 0 : map->string[number];
	if (!array_reserve(&map->string, &map->string_room, number, sizeof(*map->string))) {
		t->r->failed = true;
		return 0;
	}
	return map->string[number] = recording_name(t->r, text);
}

/* ---- modules ---- */

static struct key module_key(uint32_t path, const struct mayfly_module *m)
{
	struct key key = {{path, m->build_id_length, 0, 0}};

	/* Build-ids are hashes: 16 of their bytes tell them apart. */
	memcpy(&key.word[2], m->build_id, m->build_id_length < 16 ? m->build_id_length : 16);
	return key;
}

static uint32_t merge_module(struct merge_tables *t, const struct mayfly_module *m)
{
	struct recording_module copy = recording_copy_module(t->r, m);
	bool fresh;
	uint32_t number = number_of(t, &t->modules, module_key(copy.path, m), &fresh);

	if (t->r->failed || fresh)
		return recording_module(t->r, &copy);
	if (t->r->module[number].from_ns > m->from_ns)
		t->r->module[number].from_ns = m->from_ns;
	if (t->r->module[number].to_ns < m->to_ns)
		t->r->module[number].to_ns = m->to_ns;
	return number;
}

/* An array with an item for each row of a table; t->r->failed: there is none. */
static uint32_t *new_map(struct merge_tables *t, size_t rows)
{
	uint32_t *map = calloc(rows + 1, sizeof(*map));

	t->r->failed |= !map;
	return map;
}

static void add_modules(struct merge_tables *t, struct merge_map *map,
			const struct mayfly_trace *trace)
{
	map->module = new_map(t, trace->info.modules);
	for (size_t i = 0; !t->r->failed && i < trace->info.modules; i++)
		map->module[i] = merge_module(t, &trace->module[i]);
}

/* ---- threads ---- */

/* The ordinal of a thread among those of its name; without a name, its number in the process. */
static uint32_t ordinal(struct merge_tables *t, struct interner *seen, uint32_t *count,
			uint32_t name, uint32_t tid)
{
	bool fresh;
	uint32_t number;

	if (!name)
		return tid;
	number = number_of(t, seen, (struct key){{name, 0, 0, 0}}, &fresh);
	return t->r->failed ? 0 : count[number]++;
}

/* A thread of the trace, in the row of the first thread of its name and ordinal. */
static uint32_t merge_thread(struct merge_tables *t, uint32_t name, uint32_t nth, uint32_t tid)
{
	uint32_t thread = recording_thread(t->r, tid, name);
	bool fresh;
	uint32_t number = number_of(t, &t->rows, (struct key){{name, nth, 0, 0}}, &fresh);

	if (t->r->failed || !array_reserve(&t->row, &t->row_room, number, sizeof(*t->row))) {
		t->r->failed = true;
		return 0;
	}
	if (fresh)
		t->row[number] = thread;
	t->r->thread[thread].row = t->row[number];
	return thread;
}

/* In a trace that was merged before, threads of one row stay so. */
static uint32_t same_row(struct merge_tables *t, const struct merge_map *map,
			 const struct mayfly_thread *thread, uint32_t name)
{
	uint32_t number = recording_thread(t->r, thread->tid, name);

	t->r->thread[number].row = t->r->thread[map->thread[thread->row]].row;
	return number;
}

static void add_threads(struct merge_tables *t, struct merge_map *map,
			const struct mayfly_trace *trace)
{
	size_t threads = trace->info.threads;
	uint32_t *count = new_map(t, threads);
	struct interner seen = {0};

	map->thread = new_map(t, threads);
	for (size_t i = 0; !t->r->failed && i < threads; i++) {
		const struct mayfly_thread *thread = &trace->thread[i];
		uint32_t name = merge_string(t, map, thread->name);

		map->thread[i] =
		    thread->row == i
			? merge_thread(t, name, ordinal(t, &seen, count, name, thread->tid),
				       thread->tid)
			: same_row(t, map, thread, name);
	}
	interner_free(&seen);
	free(count);
}

/* ---- frames ---- */

/* The number that stands for all locations of a frame; 0: it has none. */
static uint32_t say_places(struct merge_tables *t, struct merge_map *map,
			   const struct mayfly_frame *f)
{
	uint32_t number = 0;

	for (size_t i = 0; i < f->locations; i++) {
		const struct mayfly_location *l = &f->location[i];
		uint32_t function = merge_string(t, map, l->function);
		uint32_t file = merge_string(t, map, l->file);
		struct key key = {{(uint64_t)number << 1 | l->inlined,
				   (uint64_t)function << 32 | file,
				   (uint64_t)l->line << 32 | l->first_char, l->last_char}};
		bool fresh;

		if (!*l->function)
			return 0;
		number = number_of(t, &t->places, key, &fresh) + 1;
	}
	return number;
}

/*
 * A new frame of the recording. The address may be taken by a frame with other names, as when a
 * module without a build-id was built again. Then that one keeps it, and the new frame gets an
 * address far from all others.
 */
static uint32_t new_frame(struct merge_tables *t, const struct mayfly_frame *f, uint32_t module)
{
	uint64_t address = f->address;
	size_t before = t->r->frames;
	uint32_t frame = recording_frame(t->r, f->kind, module, address);

	while (!t->r->failed && t->r->frames == before) {
		address += (uint64_t)1 << 48;
		if (address == f->address)
			return frame; /* 65,536 builds */
		frame = recording_frame(t->r, f->kind, module, address);
	}
	recording_copy_locations(t->r, frame, f->location, f->locations);
	return frame;
}

static uint32_t add_frame(struct merge_tables *t, struct merge_map *map,
			  const struct mayfly_frame *f)
{
	bool known = f->module != RECORDING_NONE, fresh;
	uint32_t module = known ? map->module[f->module] : RECORDING_NONE;
	uint32_t path = known ? t->r->module[module].path : 0;
	uint32_t places = f->kind == MAYFLY_FRAME_CODE ? say_places(t, map, f) : 0, number;
	struct key key = {{(uint64_t)f->kind << 32 | places, path, 0, 0}};

	if (!places) {
		key.word[2] = f->address;
		key.word[3] = module;
	}
	number = number_of(t, &t->frames, key, &fresh);
	if (t->r->failed || !array_reserve(&t->frame, &t->frame_room, number, sizeof(*t->frame))) {
		t->r->failed = true;
		return 0;
	}
	if (fresh)
		t->frame[number] = new_frame(t, f, module);
	return t->frame[number];
}

static void add_frames(struct merge_tables *t, struct merge_map *map,
		       const struct mayfly_trace *trace)
{
	map->frame = new_map(t, trace->info.frames);
	for (size_t i = 0; !t->r->failed && i < trace->info.frames; i++)
		map->frame[i] = add_frame(t, map, &trace->frame[i]);
}

/* ---- nodes ---- */

static void add_nodes(struct merge_tables *t, struct merge_map *map,
		      const struct mayfly_trace *trace)
{
	map->node = new_map(t, trace->info.nodes);
	for (size_t i = 1; !t->r->failed && i < trace->info.nodes; i++) {
		const struct mayfly_node *n = &trace->node[i];

		map->node[i] = recording_node(t->r, map->node[n->parent], map->frame[n->frame]);
	}
}

int merge_tables_add(struct merge_tables *t, const struct mayfly_trace *trace,
		     struct merge_map *map)
{
	*map = (struct merge_map){0};
	add_modules(t, map, trace);
	add_threads(t, map, trace);
	add_frames(t, map, trace);
	add_nodes(t, map, trace);
	free(map->module);
	free(map->frame);
	interner_free(&map->texts);
	free(map->string);
	map->module = map->frame = map->string = NULL;
	map->texts = (struct interner){0};
	map->string_room = 0;
	if (!t->r->failed)
		return 0;
	merge_map_free(map);
	return MAYFLY_E_MEMORY;
}
