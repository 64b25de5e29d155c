/* SPDX-License-Identifier: Apache-2.0 */
/* Counting up for SUMS, and the writing side of the chunk. See sums_build.h, doc/FORMAT.md. */
#include "trace/sums_build.h"

#include <stdlib.h>
#include <string.h>

#include "format/format.h"

/* ---- counting ---- */

static bool more_places(struct sums_build *b, size_t nodes)
{
	size_t size = b->places + b->places / 2 + 256;
	uint32_t *bigger;

	if (nodes <= b->places)
		return true;
	if (size < nodes)
		size = nodes;
	bigger = realloc(b->place, size * sizeof(*bigger));
	if (!bigger)
		return false;
	memset(bigger + b->places, 0, (size - b->places) * sizeof(*bigger));
	b->place = bigger;
	b->places = size;
	return true;
}

static struct sums_entry *new_entry(struct sums_build *b, uint32_t node)
{
	struct sums_entry *bigger;
	size_t room = b->room * 2 + 64;

	if (b->entries == b->room) {
		bigger = realloc(b->entry, room * sizeof(*bigger));
		if (!bigger)
			return NULL;
		b->entry = bigger;
		b->room = room;
	}
	b->entry[b->entries] = (struct sums_entry){.node = node};
	b->place[node] = (uint32_t)++b->entries;
	return &b->entry[b->entries - 1];
}

static inline void count_alloc(struct sums_entry *e, uint64_t size)
{
	e->allocs++;
	e->alloc_bytes += size;
}

static inline void count_free(struct sums_entry *e, uint64_t size, bool temporary)
{
	e->frees++;
	e->free_bytes += size;
	e->temps += temporary;
	e->temp_bytes += temporary ? size : 0;
}

static inline struct sums_entry *entry_of(struct sums_build *b, uint32_t node)
{
	return b->place[node] ? &b->entry[b->place[node] - 1] : new_entry(b, node);
}

bool sums_add(struct sums_build *b, uint32_t node, uint64_t size, bool is_free, bool temporary,
	      size_t nodes)
{
	struct sums_entry *e = more_places(b, nodes) ? entry_of(b, node) : NULL;

	if (!e)
		return false;
	b->events++;
	if (is_free)
		count_free(e, size, temporary);
	else
		count_alloc(e, size);
	return true;
}

bool sums_add_counts(struct sums_build *b, const struct sums_entry *counts, size_t nodes)
{
	struct sums_entry *e = more_places(b, nodes) ? entry_of(b, counts->node) : NULL;

	if (!e)
		return false;
	b->events += counts->allocs + counts->frees;
	e->allocs += counts->allocs;
	e->alloc_bytes += counts->alloc_bytes;
	e->frees += counts->frees;
	e->free_bytes += counts->free_bytes;
	e->temps += counts->temps;
	e->temp_bytes += counts->temp_bytes;
	return true;
}

void sums_clear(struct sums_build *b)
{
	for (size_t i = 0; i < b->entries; i++)
		b->place[b->entry[i].node] = 0;
	b->entries = 0;
	b->events = b->largest_bytes = 0;
	b->from_ns = b->to_ns = 0;
}

void sums_free(struct sums_span *s)
{
	free(s->before.place);
	free(s->before.entry);
	free(s->after.place);
	free(s->after.entry);
	memset(s, 0, sizeof(*s));
}

/* Moves all of `from`, which follows `to` in time, to it. */
static bool join(struct sums_build *to, struct sums_build *from)
{
	if (!from->events)
		return true;
	if (!more_places(to, from->places))
		return false;
	for (size_t i = 0; i < from->entries; i++) {
		const struct sums_entry *f = &from->entry[i];
		struct sums_entry *e = entry_of(to, f->node);

		if (!e)
			return false;
		e->allocs += f->allocs;
		e->alloc_bytes += f->alloc_bytes;
		e->frees += f->frees;
		e->free_bytes += f->free_bytes;
		e->temps += f->temps;
		e->temp_bytes += f->temp_bytes;
	}
	if (!to->events)
		to->from_ns = from->from_ns;
	to->to_ns = from->to_ns;
	to->events += from->events;
	if (to->largest_bytes < from->largest_bytes)
		to->largest_bytes = from->largest_bytes;
	sums_clear(from);
	return true;
}

/* The largest live bytes of a chunk, after how many events they come first, and the largest behind
 * that. */
struct summit {
	uint64_t largest, behind;
	size_t events;
};

static struct summit find_summit(struct sums_events *e, const uint64_t *size, uint64_t live)
{
	const struct event_batch *b = e->batch;
	const uint64_t *freed = e->free_size;
	struct summit s = {0};

	for (size_t i = 0; i < b->events; i++) {
		/* Without jumps, as kinds are hard to foretell. The arrays have room for one number
		 * more. */
		const bool is_free = b->is_free[i];

		live += is_free ? -*freed : *size;
		freed += is_free;
		size += !is_free;
		if (live > s.largest || !i) {
			s.largest = live;
			s.behind = 0;
			s.events = i + 1;
		} else {
			s.behind = live > s.behind ? live : s.behind;
		}
	}
	e->largest_bytes = s.largest;
	e->live_bytes = live;
	return s;
}

/* The sizes of allocations, 0 of those that do not count. NULL: out of memory. */
static uint64_t *sizes_that_count(const struct event_batch *b)
{
	uint64_t *size = malloc((b->allocs + 1) * sizeof(*size));

	for (size_t i = 0; size && i < b->allocs; i++)
		size[i] = sums_leave_out(b->alloc_flags[i]) ? 0 : b->size[i];
	if (size)
		size[b->allocs] = 0;
	return size;
}

static bool all_count(const struct event_batch *b)
{
	for (size_t i = 0; i < b->allocs; i++)
		if (sums_leave_out(b->alloc_flags[i]))
			return false;
	return true;
}

struct position {
	size_t event, alloc, freed;
};

/* Counts the events from p to `end`, allocations first and then frees. */
static bool add_events(struct sums_build *to, const struct sums_events *e, struct position *p,
		       size_t end, size_t nodes)
{
	const struct event_batch *b = e->batch;
	size_t frees = 0, last_alloc, last_freed;

	if (p->event == end)
		return true;
	if (!more_places(to, nodes))
		return false;
	if (!to->events)
		to->from_ns = b->time_ns[p->event];
	to->to_ns = b->time_ns[end - 1];
	for (size_t i = p->event; i < end; i++)
		frees += b->is_free[i] != 0;
	last_freed = p->freed + frees;
	last_alloc = p->alloc + (end - p->event - frees);
	to->events += end - p->event;
	for (; p->alloc < last_alloc; p->alloc++) {
		struct sums_entry *entry;

		if (sums_leave_out(b->alloc_flags[p->alloc]))
			continue;
		entry = entry_of(to, b->node[p->alloc]);
		if (!entry)
			return false;
		count_alloc(entry, b->size[p->alloc]);
	}
	for (; p->freed < last_freed; p->freed++) {
		struct sums_entry *entry;

		if (e->free_node[p->freed] == SUMS_LEFT_OUT)
			continue;
		entry = entry_of(to, e->free_node[p->freed]);
		if (!entry)
			return false;
		count_free(entry, e->free_size[p->freed],
			   b->free_flags[p->freed] & MAYFLY_FLAG_TEMPORARY);
	}
	p->event = end;
	return true;
}

static void raise_largest(struct sums_build *b, uint64_t bytes)
{
	if (b->largest_bytes < bytes)
		b->largest_bytes = bytes;
}

/* Its sizes are those that count. */
static bool add_chunk(struct sums_span *s, struct sums_events *e, const uint64_t *size,
		      size_t nodes)
{
	struct summit summit = find_summit(e, size, s->live_bytes);
	struct position p = {0};

	s->end_event += e->batch->events;
	s->live_bytes = e->live_bytes;
	if (summit.largest > s->most_bytes) {
		s->most_bytes = summit.largest;
		if (!join(&s->before, &s->after) ||
		    !add_events(&s->before, e, &p, summit.events, nodes))
			return false;
		raise_largest(&s->before, summit.largest);
		raise_largest(&s->after, summit.behind);
	} else {
		raise_largest(&s->after, summit.largest);
	}
	return add_events(&s->after, e, &p, e->batch->events, nodes);
}

bool sums_add_chunk(struct sums_span *s, struct sums_events *e, size_t nodes)
{
	uint64_t *size;
	bool done;

	if (all_count(e->batch))
		return add_chunk(s, e, e->batch->size, nodes);
	size = sizes_that_count(e->batch);
	done = size && add_chunk(s, e, size, nodes);
	free(size);
	return done;
}

static int compare_entry(const void *a, const void *b)
{
	const struct sums_entry *x = a, *y = b;

	return x->node < y->node ? -1 : x->node > y->node;
}

void sums_sort(struct sums_build *b)
{
	if (b->entries)
		qsort(b->entry, b->entries, sizeof(*b->entry), compare_entry);
	for (size_t i = 0; i < b->entries; i++)
		b->place[b->entry[i].node] = (uint32_t)i + 1;
}

/* ---- writing ---- */

struct recent_sizes {
	uint64_t last, before;
};

/* The columns of a chunk, in the order of their numbers. */
enum { CHAIN, NODE, ALLOCS, SIZE, NEW_SIZE, REST, FREES, FREED, TEMPS, TEMP_BYTES, COLUMNS };

struct sums_columns {
	const struct sums_tables *tables;
	uint64_t *value[COLUMNS];
	size_t count[COLUMNS];
	struct recent_sizes *recent;	     /* of node 0, of frame 0, ... */
	size_t chain, last_chain, last_node; /* of the part at hand */
};

static void put(struct sums_columns *c, unsigned column, uint64_t value)
{
	c->value[column][c->count[column]++] = value;
}

/* Which node: the end of a chain mostly. */
static void put_node(struct sums_columns *c, uint32_t node)
{
	const struct sums_tables *t = c->tables;
	size_t low = c->chain, high = t->chains;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (t->chain_end[middle] < node)
			low = middle + 1;
		else
			high = middle;
	}
	c->chain = low;
	if (low < t->chains && t->chain_end[low] == node) {
		put(c, CHAIN, low - c->last_chain);
		c->last_chain = low + 1;
	} else {
		put(c, NODE, node - c->last_node);
		c->last_node = (size_t)node + 1;
	}
}

/* The usual size of a block of the node, and its code. */
static uint64_t put_size(struct sums_columns *c, struct recent_sizes *r, const struct sums_entry *e)
{
	uint64_t size = e->alloc_bytes / e->allocs;

	put(c, REST, e->alloc_bytes % e->allocs);
	if (size == r->last) {
		put(c, SIZE, 0);
		return size;
	}
	put(c, SIZE, size == r->before ? 1 : 2);
	if (size != r->before)
		put(c, NEW_SIZE, size);
	r->before = r->last;
	r->last = size;
	return size;
}

static void put_entry(struct sums_columns *c, const struct sums_entry *e)
{
	const struct mayfly_node *node = &c->tables->node[e->node];
	struct recent_sizes *r = &c->recent[e->node ? (size_t)node->frame + 1 : 0];
	uint64_t size, expected;

	put_node(c, e->node);
	put(c, ALLOCS, e->allocs);
	size = e->allocs ? put_size(c, r, e) : r->last;
	put(c, FREES, varint_zigzag((int64_t)(e->allocs - e->frees)));
	if (!e->frees)
		return;
	expected = e->frees == e->allocs ? e->alloc_bytes : e->frees * size;
	put(c, FREED, varint_zigzag((int64_t)(e->free_bytes - expected)));
	if (!e->allocs && e->free_bytes != expected) {
		r->before = r->last;
		r->last = size = e->free_bytes / e->frees;
	}
	put(c, TEMPS, e->temps);
	if (!e->temps)
		return;
	expected = e->temps == e->frees ? e->free_bytes : e->temps * size;
	put(c, TEMP_BYTES, varint_zigzag((int64_t)(e->temp_bytes - expected)));
}

static void put_part(struct sums_columns *c, struct bytes *head, struct sums_build *b,
		     int64_t *last_ns)
{
	size_t chains = c->count[CHAIN], nodes = c->count[NODE];

	sums_sort(b);
	c->chain = c->last_chain = c->last_node = 0;
	for (size_t i = 0; i < b->entries; i++)
		put_entry(c, &b->entry[i]);
	bytes_put_u(head, c->count[CHAIN] - chains);
	bytes_put_u(head, c->count[NODE] - nodes);
	bytes_put_u(head, b->events);
	bytes_put_s(head, b->from_ns - *last_ns);
	bytes_put_u(head, (uint64_t)(b->to_ns - b->from_ns));
	bytes_put_u(head, b->largest_bytes);
	*last_ns = b->to_ns;
}

static bool write_parts(struct sums_columns *c, struct sums_build *const part[2],
			struct column_writer *columns, struct bytes *out)
{
	struct column column[COLUMNS];
	struct bytes head = {0};
	int64_t last_ns = 0;

	bytes_put_u(&head, (part[0]->events != 0) + (part[1]->events != 0));
	for (unsigned i = 0; i < 2; i++)
		if (part[i]->events)
			put_part(c, &head, part[i], &last_ns);
	for (unsigned i = 0; i < COLUMNS; i++)
		column[i] =
		    (struct column){.id = 2 * i + 1, .value = c->value[i], .count = c->count[i]};
	chunk_write(columns, out, TRACE_SUMS, &head, column, COLUMNS);
	out->failed |= head.failed;
	bytes_free(&head);
	return !out->failed;
}

bool sums_write(struct sums_build *const part[2], const struct sums_tables *tables,
		struct column_writer *columns, struct bytes *out)
{
	size_t entries = part[0]->entries + part[1]->entries;
	struct sums_columns c = {.tables = tables};
	bool done = true;

	if (!part[0]->events && !part[1]->events)
		return true;
	c.recent = calloc(tables->frames + 1, sizeof(*c.recent));
	for (unsigned i = 0; i < COLUMNS; i++) {
		c.value[i] = malloc((entries + 1) * sizeof(*c.value[i]));
		done &= c.value[i] != NULL;
	}
	done = done && c.recent && write_parts(&c, part, columns, out);
	for (unsigned i = 0; i < COLUMNS; i++)
		free(c.value[i]);
	free(c.recent);
	sums_clear(part[0]);
	sums_clear(part[1]);
	return done;
}
