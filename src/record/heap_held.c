/* SPDX-License-Identifier: Apache-2.0 */
/* Who holds the recorded blocks: see heap_held.h. */
#include "record/heap_held.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "picture/holder_text.h"

#define READ_ENTRIES_BYTES (1u << 16)
#define ENTRY_BYTES_MOST   256u

/* ---- the agent's table ---- */

static int compare_samples(const void *a, const void *b)
{
	const struct spool_live_entry *x = a, *y = b;

	return (x->id > y->id) - (x->id < y->id);
}

/* Some whole entries of the table. */
static bool take_entries(struct heap_samples *s, size_t *room, const uint8_t *bytes, size_t entries,
			 size_t entry_bytes)
{
	for (size_t i = 0; i < entries; i++) {
		struct spool_live_entry entry;

		memcpy(&entry, bytes + i * entry_bytes, sizeof(entry));
		if (!entry.turned)
			continue;
		if (!array_reserve(&s->sample, room, s->count, sizeof(*s->sample)))
			return false;
		s->sample[s->count++] = (struct spool_live_entry){~entry.turned, entry.id};
	}
	return true;
}

bool heap_samples_read(struct heap_samples *s, const struct spool_header *h,
		       struct memory_source *source)
{
	uint8_t *bytes = malloc(READ_ENTRIES_BYTES);
	struct spool_live live;
	size_t room = 0, each;
	bool good;

	*s = (struct heap_samples){0};
	good = bytes && h->live_where &&
	       memory_source_read(source, h->live_where, &live, sizeof(live)) &&
	       live.entry_bytes >= sizeof(struct spool_live_entry) &&
	       live.entry_bytes <= ENTRY_BYTES_MOST;
	each = good ? READ_ENTRIES_BYTES / live.entry_bytes : 0;
	for (uint64_t at = 0; good && at < live.entries; at += each) {
		size_t now = live.entries - at < each ? (size_t)(live.entries - at) : each;

		good = memory_source_read(source, live.table + at * live.entry_bytes, bytes,
					  now * live.entry_bytes) &&
		       take_entries(s, &room, bytes, now, live.entry_bytes);
	}
	if (good && s->count)
		qsort(s->sample, s->count, sizeof(*s->sample), compare_samples);
	if (!good)
		heap_samples_free(s);
	free(bytes);
	return good;
}

void heap_samples_free(struct heap_samples *s)
{
	free(s->sample);
	*s = (struct heap_samples){0};
}

/* 0: the agent does not know it. */
static uint64_t sample_address(const struct heap_samples *s, uint64_t id)
{
	const struct spool_live_entry wanted = {.id = id}, *found = NULL;

	if (s->count)
		found = bsearch(&wanted, s->sample, s->count, sizeof(*s->sample), compare_samples);
	return found ? found->turned : 0;
}

/* ---- holders ---- */

enum { LOST_DIRECTLY, LOST_BY_OTHERS, LOST_HOLDERS };

struct joining {
	struct mayfly_picture *to;
	const struct picture *p;
	struct mayfly_holder *holder;
	const char **type;
	struct mayfly_held *held;
	uint32_t *of_holder, *of_group; /* of the picture -> of the trace */
	uint32_t *steps;		/* of each number of the graph */
};

static const char *keep_text(struct joining *j, const char *text)
{
	return demangle_intern(j->p->names, text, strlen(text));
}

static bool add_holder(struct joining *j, enum mayfly_holder_kind kind, const char *name,
		       const char *place, struct heap_total total, pid_t tid)
{
	struct mayfly_holder *h = &j->holder[j->to->holders++];

	*h = (struct mayfly_holder){.kind = kind,
				    .name = keep_text(j, name),
				    .place = keep_text(j, place),
				    .tid = (uint32_t)tid,
				    .bytes = total.bytes,
				    .blocks = total.blocks};
	return h->name && h->place;
}

static enum mayfly_holder_kind kind_of(enum holder_kind kind)
{
	switch (kind) {
	case HOLDER_VARIABLE:
		return MAYFLY_HOLDER_VARIABLE;
	case HOLDER_THREAD_LOCAL:
		return MAYFLY_HOLDER_THREAD_LOCAL;
	case HOLDER_UNNAMED:
		return MAYFLY_HOLDER_UNNAMED;
	case HOLDER_STACK:
		return MAYFLY_HOLDER_STACK;
	case HOLDER_REGISTERS:
		return MAYFLY_HOLDER_REGISTERS;
	case HOLDER_THREAD:
		return MAYFLY_HOLDER_THREAD;
	case HOLDER_MAPPING:
		break;
	}
	return MAYFLY_HOLDER_MAPPING;
}

static bool add_holders(struct joining *j)
{
	const struct picture *p = j->p;
	const struct heap_graph *g = &p->graph;
	char name[HOLDER_TEXT], place[HOLDER_TEXT];
	bool good = add_holder(j, MAYFLY_HOLDER_LOST, "nothing: lost", "", g->lost_directly, 0) &&
		    add_holder(j, MAYFLY_HOLDER_LOST_BY, "nothing: lost with others", "",
			       g->lost_indirectly, 0);

	for (uint32_t i = 0; i < p->holders.count && good; i++) {
		uint32_t number = heap_graph_holder(g, i);
		struct heap_total total = {g->retained[number], g->retained_blocks[number]};
		const struct holder *h = &p->holders.holder[i];

		j->of_holder[i] = HEAP_NONE;
		if (!number || !total.blocks)
			continue;
		j->of_holder[i] = (uint32_t)j->to->holders;
		good = add_holder(j, kind_of(h->kind), holder_text(name, sizeof(name), h),
				  holder_where(place, sizeof(place), h), total, h->tid);
	}
	for (size_t i = 0; i < p->shared.groups && good; i++) {
		const struct heap_group *group = &p->shared.group[i];

		j->of_group[i] = (uint32_t)j->to->holders;
		good = add_holder(j, MAYFLY_HOLDER_TOGETHER,
				  holders_text(name, sizeof(name), p, group->holders), "",
				  (struct heap_total){group->bytes, group->blocks}, 0);
	}
	return good;
}

/* A dominator has a smaller number than those that it dominates. */
static void count_steps(struct joining *j)
{
	const struct heap_graph *g = &j->p->graph;

	j->steps[0] = 0;
	for (size_t i = 1; i < g->reach.count; i++) {
		uint32_t node = g->reach.node[i];

		j->steps[i] = j->steps[g->owners.dominator[i]] +
			      (node != HEAP_NONE && node < g->edges.blocks);
	}
}

/* ---- blocks ---- */

static uint32_t holder_of(const struct joining *j, uint32_t number)
{
	const struct heap_graph *g = &j->p->graph;
	uint32_t holder = heap_graph_holder_of(g, g->top[number]), group;

	if (number > g->reach.lost)
		return g->reach.parent[number] == g->reach.lost ? LOST_DIRECTLY : LOST_BY_OTHERS;
	if (holder != HEAP_NONE)
		return j->of_holder[holder];
	group = heap_shared_group(&j->p->shared, g->top[number]);
	return group != HEAP_NONE ? j->of_group[group] : HEAP_NONE;
}

/* block: HEAP_NONE: the heap does not have it. */
static struct mayfly_held place_block(const struct joining *j, uint64_t serial, uint32_t block)
{
	const struct heap_graph *g = &j->p->graph;
	struct mayfly_held held = {.number = serial, .holder = UINT32_MAX, .type = UINT32_MAX};

	if (block == HEAP_NONE)
		return held;
	held.holder = holder_of(j, g->reach.number[block]);
	held.steps = j->steps[g->reach.number[block]];
	if (g->edges.type[block])
		held.type = g->edges.type[block] - 1u;
	return held;
}

/* The one that begins at this address; 0: it is not known. */
static uint32_t block_at(const struct joining *j, uint64_t address)
{
	uint64_t inside;
	uint32_t block =
	    address ? heap_blocks_find(&j->p->graph.blocks, address, &inside) : HEAP_NONE;

	return block == HEAP_NONE || inside ? HEAP_NONE : block;
}

static bool place_blocks(struct joining *j, const struct spool_stream *stream,
			 const struct heap_samples *samples)
{
	struct spool_name *name;
	size_t count;

	if (!spool_stream_names(stream, &name, &count))
		return false;
	j->held = malloc((count + 1) * sizeof(*j->held));
	for (size_t i = 0; i < count && j->held; i++)
		j->held[i] = place_block(
		    j, name[i].serial,
		    block_at(j, samples ? sample_address(samples, name[i].name) : name[i].name));
	j->to->count = count;
	j->to->held = j->held;
	free(name);
	return j->held;
}

static bool place_all_blocks(struct joining *j)
{
	size_t count = j->p->graph.blocks.count;

	j->held = malloc((count + 1) * sizeof(*j->held));
	for (size_t i = 0; i < count && j->held; i++)
		j->held[i] = place_block(j, i, (uint32_t)i);
	j->to->count = count;
	j->to->held = j->held;
	return j->held;
}

static void add_types(struct joining *j)
{
	const struct heap_edges *e = &j->p->graph.edges;

	for (size_t i = 0; i < e->types; i++)
		j->type[i] = j->p->type_name[e->used[i]];
	j->to->types = e->types;
}

static enum mayfly_picture_how how_of(enum frozen_how how)
{
	switch (how) {
	case FROZEN_COPY:
		return MAYFLY_PICTURE_COPY;
	case FROZEN_MEMORY:
	case FROZEN_HELD:
		return MAYFLY_PICTURE_STOPPED;
	case FROZEN_RUNNING:
		break;
	}
	return MAYFLY_PICTURE_RUNNING;
}

/* stream: NULL: of all blocks, by their place in the heap. */
static bool join(struct mayfly_picture *to, const struct picture *p,
		 const struct spool_stream *stream, const struct heap_samples *samples)
{
	size_t holders = p->holders.count + p->shared.groups + LOST_HOLDERS;
	struct joining j = {
	    .to = to,
	    .p = p,
	    .holder = calloc(holders, sizeof(*j.holder)),
	    .type = calloc(p->graph.edges.types + 1, sizeof(*j.type)),
	    .of_holder = malloc((p->holders.count + 1) * sizeof(*j.of_holder)),
	    .of_group = malloc((p->shared.groups + 1) * sizeof(*j.of_group)),
	    .steps = malloc(p->graph.reach.count * sizeof(*j.steps)),
	};
	bool good = j.holder && j.type && j.of_holder && j.of_group && j.steps;

	*to = (struct mayfly_picture){.how = how_of(p->how),
				      .stopped_ns = p->stopped_ns,
				      .bytes = p->graph.all.bytes,
				      .blocks = p->graph.all.blocks,
				      .holder = j.holder,
				      .type = j.type};
	if (good) {
		count_steps(&j);
		add_types(&j);
	}
	good = good && add_holders(&j) &&
	       (stream ? place_blocks(&j, stream, samples) : place_all_blocks(&j));
	free(j.of_holder);
	free(j.of_group);
	free(j.steps);
	if (!good)
		heap_held_free(to);
	return good;
}

bool heap_held_find(struct mayfly_picture *to, const struct picture *p,
		    const struct spool_stream *stream, const struct heap_samples *samples)
{
	return join(to, p, stream, samples);
}

bool heap_held_all(struct mayfly_picture *to, const struct picture *p)
{
	return join(to, p, NULL, NULL);
}

void heap_held_free(struct mayfly_picture *p)
{
	free((void *)(uintptr_t)p->holder);
	free((void *)(uintptr_t)p->type);
	free((void *)(uintptr_t)p->held);
	*p = (struct mayfly_picture){0};
}
