/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Thinning a trace. One bit for each allocation says whether its block stays. The new number of a
 * block is the number of set bits before its own.
 *
 *	bits	1 0 0 1 1 ... | 0 1 ...		one word for 64 blocks
 *	before	0             | 37		set bits before each word
 */
#include "trace/rewrite/thin.h"

#include <stdlib.h>
#include <string.h>

#include "trace/read/cursor.h"
#include "trace/write/fragments.h"
#include "trace/write/residency.h"
#include "trace/write/recording.h"
#include "trace/write/thin_rule.h"
#include "trace/rewrite/track_copy.h"

/* ---- new numbers ---- */

struct thin_map {
	uint64_t *bits, *before;
	uint64_t blocks;
};

static struct thin_map *new_map(uint64_t blocks)
{
	struct thin_map *map = calloc(1, sizeof(*map));

	if (!map)
		return NULL;
	map->blocks = blocks;
	map->bits = calloc(blocks / 64 + 1, sizeof(*map->bits));
	map->before = calloc(blocks / 64 + 1, sizeof(*map->before));
	if (!map->bits || !map->before) {
		thin_map_free(map);
		return NULL;
	}
	return map;
}

void thin_map_free(struct thin_map *map)
{
	if (!map)
		return;
	free(map->bits);
	free(map->before);
	free(map);
}

uint64_t thin_map_serial(const struct thin_map *map, uint64_t serial)
{
	uint64_t word = serial / 64, bit = 1ull << serial % 64;

	if (serial >= map->blocks || !(map->bits[word] & bit))
		return TRACE_THINNED;
	return map->before[word] + (uint64_t)__builtin_popcountll(map->bits[word] & (bit - 1));
}

/* To be called for all blocks in the order of their numbers. `number` is the new one. */
static void note_block(struct thin_map *map, uint64_t serial, bool kept, uint64_t number)
{
	if (serial % 64 == 0)
		map->before[serial / 64] = number;
	if (kept)
		map->bits[serial / 64] |= 1ull << serial % 64;
}

/* ---- copying ---- */

struct thinning {
	const struct mayfly_trace *trace;
	uint32_t interval_log2;
	uint64_t seed;
	struct trace_writer *to;
	struct thin_map *map;
	uint32_t *node; /* of the trace -> of the tables */
	struct track_copy tracks;
	uint64_t kept;
};

/* Finds the numbers of the trace's nodes in the tables, which have all of them. */
static int find_nodes(struct thinning *t)
{
	const struct mayfly_trace *trace = t->trace;
	struct recording *tables = trace_writer_tables(t->to);

	t->node = malloc(trace->info.nodes * sizeof(*t->node));
	if (!t->node)
		return MAYFLY_E_MEMORY;
	t->node[0] = 0;
	for (size_t i = 1; i < trace->info.nodes; i++) {
		const struct mayfly_node *n = &trace->node[i];
		const struct mayfly_frame *f = &trace->frame[n->frame];
		uint32_t frame = recording_frame(tables, f->kind, f->module, f->address);

		t->node[i] = recording_node(tables, t->node[n->parent], frame);
	}
	return tables->failed ? MAYFLY_E_MEMORY : 0;
}

static int copy_alloc(struct thinning *t, const struct cursor_batch *b, size_t i)
{
	uint64_t serial = b->e.first_sample + i, number;
	struct trace_block block = {
	    .size = b->e.size[i],
	    .node = t->node[b->e.node[i]],
	    .thread = b->e.thread[i],
	    .hits = b->e.hits[i],
	    .interval_log2 = b->e.interval_log2[i],
	    .flags = b->e.alloc_flags[i],
	    .labels = b->e.labels ? t->tracks.labels[b->e.labels[i]] : 0,
	};
	bool keep = thin_block(t->trace->info.sampler, t->interval_log2, thin_coin(t->seed, serial),
			       &block);

	note_block(t->map, serial, keep, t->kept);
	if (!keep)
		return 0;
	t->kept++;
	return trace_writer_alloc(t->to, b->alloc_time_ns[i], &block, &number);
}

static int copy_free(struct thinning *t, const struct cursor_batch *b, size_t i, int64_t time_ns)
{
	uint64_t number = thin_map_serial(t->map, b->e.freed[i]);
	struct trace_block block = {.size = b->freed[i].size,
				    .node = t->node[b->freed[i].node],
				    .flags = b->freed[i].flags};

	return trace_writer_free(t->to, time_ns, number, &block, b->e.free_thread[i],
				 b->e.free_flags[i]);
}

/* Copies the track events that come before event number `events` of a block. */
static int copy_tracks(struct thinning *t, uint64_t events)
{
	int error = 0;

	while (t->tracks.more && t->tracks.events_before <= events && !error)
		error = track_copy_next(&t->tracks, t->to, 0);
	return error;
}

static int copy_batch(struct thinning *t, const struct cursor_batch *b)
{
	size_t alloc = 0, freed = 0, promoted = 0;
	int error = 0;

	for (size_t i = 0; i <= b->e.events && !error; i++) {
		for (; promoted < b->promotions && b->promotion[promoted].event <= i && !error;
		     promoted++)
			error = trace_writer_promote(
			    t->to, b->promotion[promoted].time_ns,
			    thin_map_serial(t->map, b->promotion[promoted].number));
		if (!error)
			error = copy_tracks(t, b->chunk->first_event + i);
		if (i < b->e.events && !error)
			error = b->e.is_free[i] ? copy_free(t, b, freed++, b->e.time_ns[i])
						: copy_alloc(t, b, alloc++);
	}
	return error;
}

static int copy_events(struct thinning *t)
{
	struct mayfly_cursor *cursor;
	struct cursor_batch batch;
	int error = mayfly_cursor_open(t->trace, &cursor), result;

	if (!error)
		mayfly_cursor_promotions(cursor);
	while (!error) {
		result = cursor_next_batch(cursor, &batch);
		if (result <= 0) {
			error = result;
			break;
		}
		error = copy_batch(t, &batch);
	}
	mayfly_cursor_close(cursor);
	return error ? error : copy_tracks(t, UINT64_MAX);
}

/* In order of time, so that the writer notes each moment once for all counters. */
static int copy_counters(struct thinning *t)
{
	const struct mayfly_trace *trace = t->trace;
	struct recording *tables = trace_writer_tables(t->to);
	size_t counters = trace->info.counters, left = 0;
	size_t *next = calloc(counters + 1, sizeof(*next));
	int error = next ? 0 : MAYFLY_E_MEMORY;

	for (size_t i = 0; i < counters; i++)
		left += mayfly_trace_counter(trace, i)->points;
	while (left && !error) {
		int64_t now = INT64_MAX;

		for (size_t i = 0; i < counters; i++) {
			const struct mayfly_counter *c = mayfly_trace_counter(trace, i);

			if (next[i] < c->points && c->time_ns[next[i]] < now)
				now = c->time_ns[next[i]];
		}
		for (size_t i = 0; i < counters && !error; i++) {
			const struct mayfly_counter *c = mayfly_trace_counter(trace, i);

			if (next[i] == c->points || c->time_ns[next[i]] != now)
				continue;
			error = trace_writer_counter(t->to, now, recording_name(tables, c->name),
						     recording_name(tables, c->unit),
						     c->value[next[i]++]);
			left--;
		}
	}
	free(next);
	return error;
}

static int copy_fragments(struct thinning *t)
{
	for (uint32_t kind = 0; kind < FRAGMENTS_KINDS; kind++) {
		const struct mayfly_fragmentation *from = &t->trace->fragments[kind];
		struct fragments f = {.time_ns = from->time_ns,
				      .blocks = from->blocks,
				      .bytes = from->bytes,
				      .pages = from->pages,
				      .runs = from->runs,
				      .entries = from->count};
		int error;

		if (!from->fragment)
			continue;
		f.entry = malloc((from->count + 1) * sizeof(*f.entry));
		if (!f.entry)
			return MAYFLY_E_MEMORY;
		memcpy(f.entry, from->fragment, from->count * sizeof(*f.entry));
		for (size_t i = 0; i < f.entries; i++)
			f.entry[i].node = t->node[f.entry[i].node];
		error = trace_writer_fragments(t->to, kind, &f);
		if (error)
			return error;
	}
	return 0;
}

static int copy_residency(struct thinning *t)
{
	for (uint32_t i = 0; i < RESIDENCY_MOMENTS; i++) {
		const struct mayfly_residency *from = &t->trace->residency[i];
		struct residency to = {.time_ns = from->time_ns, .resident = from->resident};

		for (size_t k = 0; k < from->count; k++) {
			const struct mayfly_mapping *m = &from->mapping[k];
			struct residency_row row = {.start = m->start,
						    .size = m->size,
						    .resident = m->resident,
						    .kind = m->kind};

			if (!residency_add(&to, &row, m->name)) {
				residency_free(&to);
				return MAYFLY_E_MEMORY;
			}
		}
		if (from->mapping)
			trace_writer_residency(t->to, i, &to);
	}
	return 0;
}

/* Without the blocks that are dropped. */
static int copy_picture(struct thinning *t)
{
	const struct mayfly_picture *from = mayfly_trace_picture(t->trace);
	struct mayfly_picture to = from ? *from : (struct mayfly_picture){0};
	struct mayfly_held *held;
	int error;

	if (!from)
		return 0;
	held = malloc((from->count + 1) * sizeof(*held));
	if (!held)
		return MAYFLY_E_MEMORY;
	to.held = held;
	to.count = 0;
	for (size_t i = 0; i < from->count; i++) {
		held[to.count] = from->held[i];
		held[to.count].number = thin_map_serial(t->map, from->held[i].number);
		to.count += held[to.count].number != TRACE_THINNED;
	}
	error = trace_writer_picture(t->to, &to);
	free(held);
	return error;
}

int trace_thin(const struct mayfly_trace *trace, uint32_t interval_log2, uint64_t seed,
	       struct trace_writer *to, struct thin_map **map)
{
	struct thinning t = {
	    .trace = trace, .interval_log2 = interval_log2, .seed = seed, .to = to};
	int error;

	*map = NULL;
	if (trace_writer_allocs(to))
		return MAYFLY_E_RANGE;
	t.map = new_map(trace->info.samples);
	error = t.map ? find_nodes(&t) : MAYFLY_E_MEMORY;
	if (!error)
		error = track_copy_begin(&t.tracks, trace, trace_writer_tables(to), NULL, t.node);
	if (!error)
		error = copy_events(&t);
	if (!error)
		error = copy_counters(&t);
	if (!error)
		error = copy_fragments(&t);
	if (!error)
		error = copy_residency(&t);
	if (!error)
		error = copy_picture(&t);
	free(t.node);
	track_copy_end(&t.tracks);
	if (error)
		thin_map_free(t.map);
	else
		*map = t.map;
	return error;
}
