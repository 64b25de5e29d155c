/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that was mapped, but not by malloc: see mapped.h. */
#include "answer/mapped.h"

#include <stdlib.h>
#include <string.h>

#include "answer/trace_names.h"
#include "base/array.h"
#include "base/search.h"

#define PAGE_BYTES  4096u
#define MOST_RANGES 16384u
#define MOST_ACCESS 64u
#define MOST_FRAMES 64u

struct range {
	uint64_t start, end;
	uint32_t node, access; /* in ranges.access */
};

struct ranges {
	struct range *range; /* by address, none overlap */
	size_t count, room;
	char access[MOST_ACCESS][MAPPED_ACCESS]; /* access[0] is "" */
	uint32_t accesses;
	bool incomplete;
};

/* ---- ranges ---- */

/* The first range that ends after this address. */
static size_t find(const struct ranges *r, uint64_t address)
{
	return FIRST_THAT(i, 0, r->count, r->range[i].end > address);
}

static bool put(struct ranges *r, size_t at, const struct range *range)
{
	if (r->count == MOST_RANGES) {
		r->incomplete = true;
		return true;
	}
	if (!array_reserve(&r->range, &r->room, r->count, sizeof(*r->range)))
		return false;
	memmove(r->range + at + 1, r->range + at, (r->count - at) * sizeof(*r->range));
	r->range[at] = *range;
	r->count++;
	return true;
}

static bool cut(struct ranges *r, uint64_t start, uint64_t end)
{
	size_t at = find(r, start), last;

	if (at < r->count && r->range[at].start < start) {
		struct range behind = r->range[at];

		r->range[at++].end = start;
		if (behind.end > end) {
			behind.start = end;
			return put(r, at, &behind);
		}
	}
	for (last = at; last < r->count && r->range[last].end <= end; last++)
		;
	if (last > at)
		memmove(r->range + at, r->range + last, (r->count - last) * sizeof(*r->range));
	r->count -= last - at;
	if (at < r->count && r->range[at].start < end)
		r->range[at].start = end;
	return true;
}

/* Whole pages. False: there are none. */
static bool make_range(struct range *range, uint64_t address, uint64_t bytes)
{
	range->start = address - address % PAGE_BYTES;
	return bytes && !__builtin_add_overflow(address, bytes, &range->end) &&
	       !__builtin_add_overflow(range->end, PAGE_BYTES - 1, &range->end) &&
	       (range->end -= range->end % PAGE_BYTES) > range->start;
}

static uint32_t find_access(struct ranges *r, const char *access)
{
	uint32_t at = 1;

	while (at <= r->accesses && strncmp(r->access[at], access, MAPPED_ACCESS - 1) != 0)
		at++;
	if (at == MOST_ACCESS)
		return 0;
	if (at > r->accesses) {
		strncpy(r->access[at], access, MAPPED_ACCESS - 1);
		r->accesses = at;
	}
	return at;
}

static bool map(struct ranges *r, uint64_t address, uint64_t bytes, uint32_t node, uint32_t access)
{
	struct range range = {.node = node, .access = access};

	if (!make_range(&range, address, bytes))
		return true;
	return cut(r, range.start, range.end) && put(r, find(r, range.start), &range);
}

static bool unmap(struct ranges *r, uint64_t address, uint64_t bytes)
{
	struct range range;

	return !make_range(&range, address, bytes) || cut(r, range.start, range.end);
}

/* ---- events ---- */

enum what { MMAP, MUNMAP, MREMAP, BRK, NONE };

/* Which of them an event of this type is, by its name and fields. */
static enum what what_is(const struct mayfly_track_type *type)
{
	static const struct {
		const char *name;
		size_t fields;
		uint32_t field[MAYFLY_TRACK_VALUES];
	} known[] = {
	    [MMAP] = {"mmap", 3, {MAYFLY_FIELD_UINT, MAYFLY_FIELD_UINT, MAYFLY_FIELD_TEXT}},
	    [MUNMAP] = {"munmap", 2, {MAYFLY_FIELD_UINT, MAYFLY_FIELD_UINT}},
	    [MREMAP] = {"mremap",
			4,
			{MAYFLY_FIELD_UINT, MAYFLY_FIELD_UINT, MAYFLY_FIELD_UINT,
			 MAYFLY_FIELD_UINT}},
	    [BRK] = {"brk", 3, {MAYFLY_FIELD_UINT, MAYFLY_FIELD_INT, MAYFLY_FIELD_INT}},
	};

	if (type->kind != MAYFLY_TYPE_INSTANT || strcmp(type->category, "memory") != 0)
		return NONE;
	for (unsigned int i = 0; i < NONE; i++) {
		bool same = !strcmp(type->name, known[i].name) && type->fields == known[i].fields;

		for (size_t k = 0; same && k < type->fields; k++)
			same = type->field[k].type == known[i].field[k];
		if (same)
			return (enum what)i;
	}
	return NONE;
}

/* The moved range keeps its access. */
static bool remap(struct ranges *r, const struct mayfly_track_event *e)
{
	size_t at = find(r, e->value[2].u);
	uint32_t access = 0;

	if (at < r->count && r->range[at].start <= e->value[2].u)
		access = r->range[at].access;
	return unmap(r, e->value[2].u, e->value[3].u) &&
	       map(r, e->value[0].u, e->value[1].u, e->node, access);
}

static bool move_break(struct ranges *r, const struct mayfly_track_event *e)
{
	uint64_t now = e->value[0].u, bytes = (uint64_t)e->value[1].i;

	if (e->value[2].i)
		return true;
	if (e->value[1].i > 0)
		return bytes > now || map(r, now - bytes, bytes, e->node, find_access(r, "brk"));
	return unmap(r, now, -bytes);
}

static bool apply(struct ranges *r, enum what what, const struct mayfly_track_event *e)
{
	switch (what) {
	case MMAP:
		return map(r, e->value[0].u, e->value[1].u, e->node,
			   find_access(r, e->value[2].text));
	case MUNMAP:
		return unmap(r, e->value[0].u, e->value[1].u);
	case MREMAP:
		return remap(r, e);
	case BRK:
		return move_break(r, e);
	case NONE:
		break;
	}
	return true;
}

/* ---- rows ---- */

static bool same_place(const struct mayfly_location *a, const struct mayfly_location *b)
{
	return a && b && *a->function && !strcmp(a->function, b->function) &&
	       !strcmp(a->file, b->file);
}

static bool is_row(const struct mapped_row *row, const struct mapped_row *key)
{
	if (row->allocator || key->allocator)
		return row->allocator == key->allocator && !strcmp(row->access, key->access);
	return (row->frame == key->frame || same_place(row->location, key->location)) &&
	       !strcmp(row->access, key->access);
}

static struct mapped_row *row_of(struct mapped *m, const struct mapped_row *key)
{
	for (size_t i = 0; i < m->rows; i++)
		if (is_row(&m->row[i], key))
			return &m->row[i];
	if (!array_reserve(&m->row, &m->row_room, m->rows, sizeof(*m->row)))
		return NULL;
	m->row[m->rows] = *key;
	m->row[m->rows].number = m->rows;
	return &m->row[m->rows++];
}

/* Allocators that take memory from mmap through the C library. */
static const char *known_allocator(const struct mayfly_trace *trace,
				   const struct mayfly_frame *frame)
{
	static const char *const known[] = {"jemalloc", "tcmalloc", "mimalloc"};
	const struct mayfly_module *module =
	    frame ? mayfly_trace_module(trace, frame->module) : NULL;

	for (size_t i = 0; module && i < sizeof(known) / sizeof(*known); i++)
		if (!strncmp(path_base(module->path), "lib", 3) &&
		    !strncmp(path_base(module->path) + 3, known[i], strlen(known[i])))
			return known[i];
	return NULL;
}

/* The function that called; where its name is unknown, the next one that has a name. */
static void find_caller(const struct mayfly_trace *trace, uint32_t node, struct mapped_row *row)
{
	for (unsigned int i = 0; node && i < MOST_FRAMES; i++) {
		struct mayfly_node n = mayfly_trace_node(trace, node);
		const struct mayfly_frame *frame = mayfly_trace_frame(trace, n.frame);
		const struct mayfly_location *at =
		    frame && frame->locations ? &frame->location[0] : NULL;

		if (!i)
			row->allocator = known_allocator(trace, frame);
		if (!i || (at && *at->function)) {
			row->frame = frame;
			row->location = at;
		}
		if (at && *at->function)
			return;
		node = n.parent;
	}
}

static bool count(const struct mayfly_trace *trace, const struct ranges *r, size_t moment,
		  struct mapped *m)
{
	m->range[moment] = calloc(r->count + 1, sizeof(*m->range[moment]));
	if (!m->range[moment])
		return false;
	m->ranges[moment] = r->count;
	for (size_t i = 0; i < r->count; i++) {
		const struct range *range = &r->range[i];
		struct mapped_row key = {.frame = NULL}, *row;

		find_caller(trace, range->node, &key);
		memcpy(key.access, r->access[range->access], sizeof(key.access));
		row = row_of(m, &key);
		if (!row)
			return false;
		row->bytes[moment] += range->end - range->start;
		m->range[moment][i] = (struct mapped_range){range->start, range->end, row->number};
	}
	return true;
}

static int by_size(const void *a, const void *b)
{
	const struct mapped_row *x = a, *y = b;

	for (size_t i = MAPPED_MOMENTS; i--;)
		if (x->bytes[i] != y->bytes[i])
			return x->bytes[i] > y->bytes[i] ? -1 : 1;
	return (x->number > y->number) - (x->number < y->number);
}

/* Sorts the rows, and numbers them anew in the ranges. */
static bool sort_rows(struct mapped *m)
{
	size_t *now = calloc(m->rows + 1, sizeof(*now));

	if (!now)
		return false;
	if (m->rows)
		qsort(m->row, m->rows, sizeof(*m->row), by_size);
	for (size_t i = 0; i < m->rows; i++)
		now[m->row[i].number] = i;
	for (size_t k = 0; k < MAPPED_MOMENTS; k++)
		for (size_t i = 0; i < m->ranges[k]; i++)
			m->range[k][i].row = now[m->range[k][i].row];
	free(now);
	return true;
}

/* ---- all of it ---- */

static int walk(const struct mayfly_trace *trace, struct mayfly_track_cursor *cursor,
		const int64_t *moment, size_t moments, struct ranges *r, struct mapped *m)
{
	struct mayfly_track_event event;
	size_t next = 0;
	int more;

	while ((more = mayfly_track_cursor_next(cursor, &event)) > 0) {
		enum what what = what_is(mayfly_trace_track_type(trace, event.type));

		if (what == NONE || event.kind != MAYFLY_TRACK_INSTANT)
			continue;
		for (; next < moments && event.time_ns > moment[next]; next++)
			if (!count(trace, r, next, m))
				return MAYFLY_E_MEMORY;
		if (!apply(r, what, &event))
			return MAYFLY_E_MEMORY;
	}
	for (; next < moments && !more; next++)
		if (!count(trace, r, next, m))
			return MAYFLY_E_MEMORY;
	return more;
}

int mapped_at(const struct mayfly_trace *trace, const int64_t *moment, size_t moments,
	      struct mapped *mapped)
{
	struct mayfly_track_cursor *cursor;
	struct ranges ranges = {0};
	int error;

	*mapped = (struct mapped){0};
	error = mayfly_track_cursor_open(trace, &cursor);
	if (error)
		return error;
	error = walk(trace, cursor, moment, moments, &ranges, mapped);
	mayfly_track_cursor_close(cursor);
	mapped->incomplete = ranges.incomplete || mayfly_trace_info(trace)->dropped_events;
	free(ranges.range);
	if (!error && !sort_rows(mapped))
		error = MAYFLY_E_MEMORY;
	if (error)
		mapped_free(mapped);
	return error;
}

size_t mapped_find(const struct mapped *mapped, size_t moment, uint64_t address)
{
	const struct mapped_range *range = mapped->range[moment];
	return FIRST_THAT(i, 0, mapped->ranges[moment], range[i].end > address);
}

void mapped_free(struct mapped *mapped)
{
	for (size_t i = 0; i < MAPPED_MOMENTS; i++)
		free(mapped->range[i]);
	free(mapped->row);
	*mapped = (struct mapped){0};
}
