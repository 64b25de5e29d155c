/* SPDX-License-Identifier: Apache-2.0 */
/* query_slots.c: the slot that a block is summed in, and the row of a slot that is not a node. */
#include "query/query.h"

#define SIZE_CLASSES	 65 /* by bits of (size - 1) */
#define LIFETIME_CLASSES 21 /* decades from 10 ns; the last two: from 10^18 ns; never freed */

/* Allocating threads: their rows and "unknown". Freeing threads: these and "never freed". */
#define THREADS(s)	   ((s)->thread_rows + 1)
#define FREEING_THREADS(s) ((s)->thread_rows + 2)

/* A merged trace has threads of many processes in a row. */
bool query_prepare_threads(struct query_state *s)
{
	s->thread_row = query_zeroed(s, s->info->threads, sizeof(*s->thread_row));
	s->row_thread = query_zeroed(s, s->info->threads, sizeof(*s->row_thread));
	for (uint32_t i = 0; !s->error && i < s->info->threads; i++) {
		uint32_t first = mayfly_trace_thread(s->trace, i)->row;

		if (first == i)
			s->row_thread[s->thread_rows++] = i;
		s->thread_row[i] = first == i ? (uint32_t)s->thread_rows - 1 : s->thread_row[first];
	}
	return !s->error;
}

size_t query_classes(enum mayfly_by by)
{
	return by == MAYFLY_BY_SIZE ? SIZE_CLASSES : LIFETIME_CLASSES;
}

static size_t own_slots(const struct query_state *s)
{
	switch (s->query->by) {
	case MAYFLY_BY_THREAD:
		return THREADS(s);
	case MAYFLY_BY_FREEING_THREAD:
		return FREEING_THREADS(s);
	case MAYFLY_BY_THREADS:
		return THREADS(s) * FREEING_THREADS(s);
	case MAYFLY_BY_SIZE:
	case MAYFLY_BY_LIFETIME:
		return query_classes(s->query->by);
	case MAYFLY_BY_HEAP:
		return MAYFLY_HEAPS;
	case MAYFLY_BY_LABEL:
		return s->label_slots;
	case MAYFLY_BY_HOLDER:
		return query_holder_slots(s);
	case MAYFLY_BY_TYPE:
		return query_type_slots(s) + SIZE_CLASSES;
	case MAYFLY_BY_FUNCTION:
	case MAYFLY_BY_LINE:
	case MAYFLY_BY_STACK:
	case MAYFLY_BY_MODULE:
		break;
	}
	return s->info->nodes ? s->info->nodes : 1;
}

size_t query_slots(const struct query_state *s)
{
	return s->site_of ? own_slots(s) * s->sites : own_slots(s);
}

static uint32_t size_class(uint64_t size)
{
	return size > 1 ? 64 - (uint32_t)__builtin_clzll(size - 1) : 0;
}

static uint32_t lifetime_class(int64_t lifetime)
{
	uint32_t class = 0;

	if (lifetime == FOREVER)
		return LIFETIME_CLASSES - 1;
	for (int64_t high = 10; lifetime >= high; high *= 10) {
		class ++;
		if (high > INT64_MAX / 10)
			break;
	}
	return class;
}

static uint32_t known_thread(const struct query_state *s, uint32_t thread)
{
	return thread < s->info->threads ? s->thread_row[thread] : (uint32_t)s->thread_rows;
}

static uint32_t freeing_slot(const struct query_state *s, struct fate fate)
{
	return fate.lifetime == FOREVER ? (uint32_t)s->thread_rows + 1
					: known_thread(s, fate.thread);
}

static uint32_t type_slot(const struct query_state *s, const struct cursor_block *b)
{
	uint32_t type = query_type_slot(s);

	return type != NONE ? type : (uint32_t)query_type_slots(s) + size_class(b->size);
}

static inline uint32_t slot_by(const struct query_state *s, enum mayfly_by by,
			       const struct cursor_block *b, struct fate fate)
{
	switch (by) {
	case MAYFLY_BY_THREAD:
		return known_thread(s, b->thread);
	case MAYFLY_BY_FREEING_THREAD:
		return freeing_slot(s, fate);
	case MAYFLY_BY_THREADS:
		return known_thread(s, b->thread) * (uint32_t)FREEING_THREADS(s) +
		       freeing_slot(s, fate);
	case MAYFLY_BY_SIZE:
		return size_class(b->size);
	case MAYFLY_BY_LIFETIME:
		return lifetime_class(fate.lifetime);
	case MAYFLY_BY_HEAP:
		return MAYFLY_FLAG_HEAP(b->flags);
	case MAYFLY_BY_LABEL:
		return query_label_slot(s, b->labels);
	case MAYFLY_BY_HOLDER:
		return query_holder_slot(s);
	case MAYFLY_BY_TYPE:
		return type_slot(s, b);
	case MAYFLY_BY_FUNCTION:
	case MAYFLY_BY_LINE:
	case MAYFLY_BY_STACK:
	case MAYFLY_BY_MODULE:
		break;
	}
	return b->node < s->info->nodes ? b->node : 0;
}

uint32_t query_slot(const struct query_state *s, const struct cursor_block *b, struct fate fate)
{
	uint32_t slot = slot_by(s, s->query->by, b, fate);

	if (s->site_of)
		slot += s->site_of[slot_by(s, s->site_by, b, fate)] * (uint32_t)own_slots(s);
	return slot;
}

static struct group size_group(uint32_t bits)
{
	struct group g = {.low = bits > 0 ? (int64_t)(1ull << (bits - 1)) : 0};

	g.high = bits < 63 ? (int64_t)(1ull << bits) : INT64_MAX;
	if (bits == 64)
		g.low = INT64_MAX;
	return g;
}

static struct group lifetime_group(uint32_t class)
{
	struct group g = {.low = INT64_MAX, .high = INT64_MAX};

	if (class == LIFETIME_CLASSES - 1)
		return g;
	g.low = 0;
	g.high = 10;
	for (uint32_t i = 0; i < class; i++) {
		g.low = g.high;
		g.high = g.high > INT64_MAX / 10 ? INT64_MAX - 1 : g.high * 10;
	}
	return g;
}

struct group query_class_group(enum mayfly_by by, uint32_t class)
{
	return by == MAYFLY_BY_SIZE ? size_group(class) : lifetime_group(class);
}

/* An unknown one has the number after the last. */
static uint32_t thread_of_row(const struct query_state *s, uint32_t row)
{
	return row < s->thread_rows ? s->row_thread[row] : (uint32_t)s->info->threads;
}

/* The last slot is "never freed". */
static uint32_t freeing_thread(const struct query_state *s, uint32_t slot)
{
	return slot == s->thread_rows + 1 ? NONE : thread_of_row(s, slot);
}

static struct group slot_group(struct query_state *s, uint32_t slot)
{
	uint32_t freeing = (uint32_t)FREEING_THREADS(s);

	switch (s->query->by) {
	case MAYFLY_BY_SIZE:
	case MAYFLY_BY_LIFETIME:
		return query_class_group(s->query->by, slot);
	case MAYFLY_BY_HEAP:
		return (struct group){.low = slot, .high = slot};
	case MAYFLY_BY_LABEL:
		return (struct group){.function = s->label_text[slot]};
	case MAYFLY_BY_TYPE:
		if (slot >= query_type_slots(s))
			return size_group(slot - (uint32_t)query_type_slots(s));
		/* fall through */
	case MAYFLY_BY_HOLDER:
		return query_picture_group(s, slot);
	case MAYFLY_BY_FREEING_THREAD:
		return (struct group){.free_thread = freeing_thread(s, slot)};
	case MAYFLY_BY_THREADS:
		return (struct group){.thread = thread_of_row(s, slot / freeing),
				      .free_thread = freeing_thread(s, slot % freeing)};
	case MAYFLY_BY_THREAD:
		return (struct group){.thread = thread_of_row(s, slot)};
	case MAYFLY_BY_FUNCTION:
	case MAYFLY_BY_LINE:
	case MAYFLY_BY_STACK:
	case MAYFLY_BY_MODULE:
		break; /* query_tree.c makes these */
	}
	return (struct group){0};
}

uint32_t query_slot_group(struct query_state *s, uint32_t slot)
{
	struct key key = {{s->query->by, slot}};
	struct group g = slot_group(s, slot);

	return query_group(s, key, &g);
}
