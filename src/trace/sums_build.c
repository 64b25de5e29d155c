/* SPDX-License-Identifier: Apache-2.0 */
/* Adds up the history for SUMS: see sums_build.h. */
#include "trace/sums_build.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

static bool more_places(struct sums_build *b, size_t nodes)
{
	return array_reserve_filled(&b->place, &b->places, nodes, sizeof(*b->place), 0);
}

static struct sums_entry *new_sums_entry(struct sums_build *b, uint32_t node)
{
	if (!array_reserve(&b->entry, &b->room, b->entries, sizeof(*b->entry)))
		return NULL;
	b->entry[b->entries] = (struct sums_entry){.node = node};
	b->place[node] = (uint32_t)++b->entries;
	return &b->entry[b->entries - 1];
}

static inline void count_alloc(struct sums_entry *e, uint64_t size, uint32_t flags)
{
	bool inherited = flags & MAYFLY_FLAG_INHERITED;

	e->allocs++;
	e->alloc_bytes += size;
	e->inherited += inherited;
	e->inherited_bytes += inherited ? size : 0;
}

static inline void count_free(struct sums_entry *e, uint64_t size, bool temporary)
{
	e->frees++;
	e->free_bytes += size;
	e->temps += temporary;
	e->temp_bytes += temporary ? size : 0;
}

static void add_entry(struct sums_entry *to, const struct sums_entry *e)
{
	to->allocs += e->allocs;
	to->alloc_bytes += e->alloc_bytes;
	to->frees += e->frees;
	to->free_bytes += e->free_bytes;
	to->temps += e->temps;
	to->temp_bytes += e->temp_bytes;
	to->inherited += e->inherited;
	to->inherited_bytes += e->inherited_bytes;
}

static inline struct sums_entry *entry_of(struct sums_build *b, uint32_t node)
{
	return b->place[node] ? &b->entry[b->place[node] - 1] : new_sums_entry(b, node);
}

bool sums_add(struct sums_build *b, uint32_t node, uint64_t size, bool is_free, uint32_t flags,
	      size_t nodes)
{
	struct sums_entry *e = more_places(b, nodes) ? entry_of(b, node) : NULL;

	if (!e)
		return false;
	b->events++;
	if (is_free)
		count_free(e, size, flags & MAYFLY_FLAG_TEMPORARY);
	else
		count_alloc(e, size, flags);
	return true;
}

bool sums_add_counts(struct sums_build *b, const struct sums_entry *counts, size_t nodes)
{
	struct sums_entry *e = more_places(b, nodes) ? entry_of(b, counts->node) : NULL;

	if (!e)
		return false;
	b->events += counts->allocs + counts->frees;
	add_entry(e, counts);
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
static bool join_builds(struct sums_build *to, struct sums_build *from)
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
		add_entry(e, f);
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

/* The largest live bytes of a chunk, the number of events after which they come first, and the
 * largest after that. */
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
		/* Branch-free, because event kinds are unpredictable; reads one number past the
		 * end, which the arrays have. */
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
static bool add_events_until(struct sums_build *to, const struct sums_events *e, struct position *p,
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
		count_alloc(entry, b->size[p->alloc], b->alloc_flags[p->alloc]);
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

/* size: those of the allocations, 0 where a block does not count. */
static bool add_counting_chunk(struct sums_span *s, struct sums_events *e, const uint64_t *size,
			       size_t nodes)
{
	struct summit summit = find_summit(e, size, s->live_bytes);
	struct position p = {0};

	s->end_event += e->batch->events;
	s->live_bytes = e->live_bytes;
	if (summit.largest > s->most_bytes) {
		s->most_bytes = summit.largest;
		if (!join_builds(&s->before, &s->after) ||
		    !add_events_until(&s->before, e, &p, summit.events, nodes))
			return false;
		raise_largest(&s->before, summit.largest);
		raise_largest(&s->after, summit.behind);
	} else {
		raise_largest(&s->after, summit.largest);
	}
	return add_events_until(&s->after, e, &p, e->batch->events, nodes);
}

bool sums_add_chunk(struct sums_span *s, struct sums_events *e, size_t nodes)
{
	uint64_t *size;
	bool done;

	if (all_count(e->batch))
		return add_counting_chunk(s, e, e->batch->size, nodes);
	size = sizes_that_count(e->batch);
	done = size && add_counting_chunk(s, e, size, nodes);
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
