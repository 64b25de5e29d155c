/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading per-stack counters: doc/FORMAT.md, "SUMS". If the trace was cut off, no SUMS chunk covers
 * its last events; their parts are counted here (sums_build.c).
 *
 *	SUMS 0, SUMS 1, ...			decoded, one chunk at a time
 *	EVNT chunks after the last SUMS		a cursor reads all; those after it are counted
 */
#include "trace/read/sums.h"

#include <stdlib.h>
#include <string.h>

#include "base/search.h"
#include "trace/read/cursor.h"
#include "format/format.h"
#include "trace/read/reader.h"
#include "trace/sums_build.h"
#include "base/varint.h"

#define MOST_PARTS 2
#define VALUES	   8 /* of a node in a part */

#define KNOWN_COLUMNS (0xaaaaau | 1u << COLUMN_SUM_INHERITED | 1u << COLUMN_SUM_INHERITED_BYTES)

struct recent_sizes {
	uint64_t last, before;
};

/* A part as its chunk's head has it. */
struct part_head {
	size_t chains, nodes; /* entries of either kind */
	uint64_t events, largest_bytes;
	int64_t from_ns, to_ns;
};

/* The counters of both parts of a span, or of a chunk, one array for each. */
struct counters {
	uint32_t *node;
	/* allocs, their bytes; frees, their bytes; temporary ones, bytes; inherited ones, bytes */
	uint64_t *value[VALUES];
};

struct sums_cursor {
	const struct mayfly_trace *t;
	uint64_t budget;
	int error;
	struct chunk_reader chunk;
	size_t next_chunk; /* of t->sums */
	uint64_t end_event, live_bytes, most_bytes;
	int64_t last_ns;

	struct part_head head[MOST_PARTS];
	size_t parts, part; /* in the current chunk; the next one */
	struct counters all;
	size_t first; /* of the next part, in all */

	/* After the last SUMS. */
	struct mayfly_cursor *events;
	struct sums_span span;
	uint64_t span_events;
	bool events_over;
	struct counters spare; /* of room for spare_room */
	size_t spare_room;
};

size_t trace_sums_parts(const struct mayfly_trace *trace)
{
	return trace->parts;
}

static int sums_fail(struct sums_cursor *c, int error)
{
	if (!c->error)
		c->error = error;
	return c->error;
}

static int sums_wrong(struct sums_cursor *c)
{
	return sums_fail(c, MAYFLY_E_DAMAGED);
}

int sums_cursor_open(const struct mayfly_trace *trace, struct sums_cursor **cursor)
{
	struct sums_cursor *c;

	*cursor = NULL;
	if (trace->info.mode != MAYFLY_EXACT && !trace->info.snapshot_ns)
		return MAYFLY_E_ABSENT;
	c = calloc(1, sizeof(*c));
	if (!c)
		return MAYFLY_E_MEMORY;
	c->t = trace;
	c->last_ns = INT64_MIN;
	c->budget = trace_budget(trace);
	c->chunk.budget = &c->budget;
	c->chunk.compress = compress_new(0);
	if (!c->chunk.compress) {
		sums_cursor_close(c);
		return MAYFLY_E_MEMORY;
	}
	*cursor = c;
	return 0;
}

void sums_cursor_close(struct sums_cursor *c)
{
	if (!c)
		return;
	chunk_end(&c->chunk);
	compress_free(c->chunk.compress);
	mayfly_cursor_close(c->events);
	sums_free(&c->span);
	free(c->spare.node);
	for (size_t i = 0; i < VALUES; i++)
		free(c->spare.value[i]);
	free(c);
}

/* ---- a SUMS chunk ---- */

static bool read_sums_head(struct sums_cursor *c)
{
	struct varint_in *in = &c->chunk.head;
	uint64_t parts = varint_u(in);
	int64_t last_ns = 0;

	if (parts > MOST_PARTS)
		return false;
	c->parts = (size_t)parts;
	c->part = 0;
	for (size_t i = 0; i < c->parts; i++) {
		struct part_head *h = &c->head[i];
		uint64_t chains = varint_u(in), nodes = varint_u(in), lasts;

		h->events = varint_u(in);
		if (__builtin_add_overflow(last_ns, varint_s(in), &h->from_ns))
			return false;
		lasts = varint_u(in);
		h->largest_bytes = varint_u(in);
		if (in->bad || chains > UINT32_MAX || nodes > UINT32_MAX || lasts > INT64_MAX ||
		    __builtin_add_overflow(h->from_ns, (int64_t)lasts, &h->to_ns) ||
		    h->from_ns < -TRACE_LATEST_NS || h->to_ns > TRACE_LATEST_NS)
			return false;
		h->chains = (size_t)chains;
		h->nodes = (size_t)nodes;
		last_ns = h->to_ns;
	}
	return true;
}

/* Nodes of one part from both kinds of entries, which ascend. */
static bool merge_nodes(const struct sums_cursor *c, const struct trace_sums *s,
			const struct part_head *h, const uint32_t *chain, const uint32_t *node,
			uint32_t *to)
{
	uint64_t next_chain = 0, next_node = 0, at_chain = UINT64_MAX, at_node = UINT64_MAX;
	size_t chains = 0, nodes = 0;

	for (size_t i = 0; i < h->chains + h->nodes; i++) {
		if (at_chain == UINT64_MAX && chains < h->chains) {
			if (chain[chains] >= s->chains - next_chain)
				return false;
			next_chain += chain[chains++];
			at_chain = c->t->chain_end[next_chain++];
		}
		if (at_node == UINT64_MAX && nodes < h->nodes) {
			if (node[nodes] >= s->nodes - next_node)
				return false;
			next_node += node[nodes++];
			at_node = next_node++;
		}
		if (at_chain == at_node)
			return false;
		if (at_chain < at_node) {
			to[i] = (uint32_t)at_chain;
			at_chain = UINT64_MAX;
		} else {
			to[i] = (uint32_t)at_node;
			at_node = UINT64_MAX;
		}
	}
	return true;
}

/* A column in which only some entries have a value. Its length follows from the columns before it.
 * */
struct partial {
	const uint64_t *value;
	size_t used, count;
};

static uint64_t next_partial(struct partial *p)
{
	return p->used < p->count ? p->value[p->used++] : 0;
}

static struct partial partial(struct sums_cursor *c, unsigned id, size_t count)
{
	return (struct partial){chunk_numbers(&c->chunk, id, count), 0, count};
}

static size_t count_nonzero(const uint64_t *value, size_t count)
{
	size_t found = 0;

	for (size_t i = 0; value && i < count; i++)
		found += value[i] != 0;
	return found;
}

static bool take_counters(struct sums_cursor *c, size_t count)
{
	c->all.node = chunk_memory_dirty(&c->chunk, count, sizeof(*c->all.node));
	for (size_t i = 0; i < VALUES; i++)
		if (i != 0 && i != 2)
			c->all.value[i] = chunk_memory(&c->chunk, count, sizeof(*c->all.value[i]));
	/* The counts of allocations and frees stay where their columns are, which belong to the
	 * chunk as all this memory does. */
	c->all.value[0] = (uint64_t *)chunk_numbers(&c->chunk, COLUMN_SUM_ALLOCS, count);
	c->all.value[2] = (uint64_t *)chunk_numbers(&c->chunk, COLUMN_SUM_FREES, count);
	for (size_t i = 0; !c->chunk.error && i < count; i++)
		c->all.value[2][i] = c->all.value[0][i] - varint_unzigzag(c->all.value[2][i]);
	return !c->chunk.error;
}

struct sums_columns {
	const uint8_t *size;
	size_t sizes, used_sizes;
	struct partial new_size, rest, freed, temps, temp_bytes, inherited, inherited_bytes;
};

/* The columns whose lengths follow from the counts of allocations and frees. */
static bool read_partial(struct sums_cursor *c, struct sums_columns *p, size_t count)
{
	size_t sized = count_nonzero(c->all.value[0], count), news = 0;
	size_t freed = count_nonzero(c->all.value[2], count);

	p->size = chunk_numbers8(&c->chunk, COLUMN_SUM_SIZE, sized);
	p->sizes = sized;
	for (size_t i = 0; p->size && i < sized; i++)
		news += p->size[i] == 2;
	p->new_size = partial(c, COLUMN_SUM_NEW_SIZE, news);
	p->rest = partial(c, COLUMN_SUM_REST, sized);
	p->freed = partial(c, COLUMN_SUM_FREED, freed);
	p->temps = partial(c, COLUMN_SUM_TEMPS, freed);
	p->temp_bytes = partial(c, COLUMN_SUM_TEMP_BYTES, count_nonzero(p->temps.value, freed));
	p->inherited = partial(c, COLUMN_SUM_INHERITED, sized);
	p->inherited_bytes =
	    partial(c, COLUMN_SUM_INHERITED_BYTES, count_nonzero(p->inherited.value, sized));
	return !c->chunk.error;
}

static void read_size(struct sums_columns *p, struct recent_sizes *r)
{
	uint64_t code = p->used_sizes < p->sizes ? p->size[p->used_sizes++] : 0, last = r->last;

	if (!code)
		return;
	r->last = code == 1 ? r->before : next_partial(&p->new_size);
	r->before = last;
}

static void read_inherited(struct sums_cursor *c, struct sums_columns *p, uint64_t size, size_t i)
{
	uint64_t *const *value = c->all.value, inherited = next_partial(&p->inherited), expected;

	if (!inherited)
		return;
	expected = inherited == value[0][i] ? value[1][i] : inherited * size;
	value[6][i] = inherited;
	value[7][i] = expected + varint_unzigzag(next_partial(&p->inherited_bytes));
	if (inherited > value[0][i])
		chunk_fail(&c->chunk, MAYFLY_E_DAMAGED);
}

static void read_sums_entry(struct sums_cursor *c, struct sums_columns *p,
			    struct recent_sizes *recent, size_t i)
{
	uint64_t *const *value = c->all.value, expected;
	uint32_t node = c->all.node[i];
	struct recent_sizes *r = &recent[node ? (size_t)c->t->node[node].frame + 1 : 0];
	uint64_t allocs = value[0][i], frees = value[2][i];

	if (allocs) {
		read_size(p, r);
		value[1][i] = allocs * r->last + next_partial(&p->rest);
		read_inherited(c, p, r->last, i);
	}
	if (!frees)
		return;
	expected = frees == allocs ? value[1][i] : frees * r->last;
	value[3][i] = expected + varint_unzigzag(next_partial(&p->freed));
	if (!allocs && value[3][i] != expected) {
		r->before = r->last;
		r->last = value[3][i] / frees;
	}
	value[4][i] = next_partial(&p->temps);
	if (!value[4][i])
		return;
	expected = value[4][i] == frees ? value[3][i] : value[4][i] * r->last;
	value[5][i] = expected + varint_unzigzag(next_partial(&p->temp_bytes));
}

static bool read_nodes(struct sums_cursor *c, const struct trace_sums *s)
{
	size_t chains = 0, nodes = 0, used = 0;
	const uint32_t *chain, *node;

	for (size_t i = 0; i < c->parts; i++) {
		chains += c->head[i].chains;
		nodes += c->head[i].nodes;
	}
	chain = chunk_numbers32(&c->chunk, COLUMN_SUM_CHAIN, chains);
	node = chunk_numbers32(&c->chunk, COLUMN_SUM_NODE, nodes);
	if (!chain || !node || !take_counters(c, chains + nodes))
		return false;
	for (size_t i = 0; i < c->parts; i++) {
		const struct part_head *h = &c->head[i];

		if (!merge_nodes(c, s, h, chain, node, c->all.node + used))
			return false;
		chain += h->chains;
		node += h->nodes;
		used += h->chains + h->nodes;
	}
	return true;
}

static bool read_columns(struct sums_cursor *c, const struct trace_sums *s)
{
	struct sums_columns p = {0};
	struct recent_sizes *recent;
	size_t count = 0;

	if (!read_sums_head(c) || !chunk_columns(&c->chunk, KNOWN_COLUMNS) || !read_nodes(c, s))
		return false;
	for (size_t i = 0; i < c->parts; i++)
		count += c->head[i].chains + c->head[i].nodes;
	recent = chunk_memory(&c->chunk, (uint64_t)s->frames + 1, sizeof(*recent));
	if (!recent || !read_partial(c, &p, count))
		return false;
	for (size_t i = 0; i < count; i++)
		read_sums_entry(c, &p, recent, i);
	return !c->chunk.error;
}

static int load_sums(struct sums_cursor *c)
{
	const struct trace_sums *s = &c->t->sums[c->next_chunk];
	struct chunk_header h;

	chunk_end(&c->chunk);
	c->parts = c->part = c->first = 0;
	if (chunk_find(c->t->data + s->offset, c->t->size - s->offset, false, &h))
		return sums_wrong(c);
	c->next_chunk++;
	if (!chunk_begin(&c->chunk, &h) || !read_columns(c, s))
		return sums_fail(c, c->chunk.error ? c->chunk.error : MAYFLY_E_DAMAGED);
	return 0;
}

/* ---- events that no SUMS covers ---- */

/* Adds up a chunk that no SUMS covers. */
static int count_batch(struct sums_cursor *c, const struct cursor_batch *b)
{
	size_t frees = b->e.events - b->e.allocs;
	uint32_t *node = malloc((frees + 1) * sizeof(*node));
	uint64_t *size = malloc((frees + 1) * sizeof(*size));
	struct sums_events events = {&b->e, node, size, 0, 0};

	for (size_t i = 0; node && size && i < frees; i++) {
		bool out = sums_leave_out(b->freed[i].flags);

		node[i] = out ? SUMS_LEFT_OUT : b->freed[i].node;
		size[i] = out ? 0 : b->freed[i].size;
	}
	if (!node || !size || !sums_add_chunk(&c->span, &events, b->chunk->nodes))
		sums_fail(c, MAYFLY_E_MEMORY);
	free(node);
	free(size);
	return c->error;
}

/* Fills the span with the next chunks of events. */
static int load_span(struct sums_cursor *c)
{
	struct cursor_batch b;
	int result = 1;

	if (!c->events) {
		result = mayfly_cursor_open(c->t, &c->events);
		if (result)
			return sums_fail(c, result);
		c->span.live_bytes = c->live_bytes;
		c->span.most_bytes = c->most_bytes;
	}
	for (uint64_t events = 0; events < SUMS_SPAN_EVENTS;) {
		result = cursor_next_batch(c->events, &b);
		if (result < 0)
			return sums_fail(c, result);
		if (result == 0)
			break;
		if (b.chunk->first_event < c->end_event) {
			if (b.chunk->first_event + b.chunk->events > c->end_event)
				return sums_wrong(c);
			continue;
		}
		if (count_batch(c, &b))
			return c->error;
		events += b.e.events;
	}
	c->events_over = result == 0;
	sums_sort(&c->span.before);
	sums_sort(&c->span.after);
	return 0;
}

static bool grow_spare(struct sums_cursor *c, size_t entries)
{
	bool done;

	if (entries <= c->spare_room && c->spare_room)
		return true;
	free(c->spare.node);
	c->spare.node = malloc((entries + 1) * sizeof(*c->spare.node));
	done = c->spare.node != NULL;
	for (size_t i = 0; i < VALUES; i++) {
		free(c->spare.value[i]);
		c->spare.value[i] = malloc((entries + 1) * sizeof(*c->spare.value[i]));
		done &= c->spare.value[i] != NULL;
	}
	c->spare_room = done ? entries + 1 : 0;
	return done;
}

/* The next part of the span becomes the cursor's current one. */
static int take_span_part(struct sums_cursor *c, struct sums_build *b)
{
	if (!grow_spare(c, b->entries))
		return sums_fail(c, MAYFLY_E_MEMORY);
	for (size_t i = 0; i < b->entries; i++) {
		const struct sums_entry *e = &b->entry[i];

		c->spare.node[i] = e->node;
		c->spare.value[0][i] = e->allocs;
		c->spare.value[1][i] = e->alloc_bytes;
		c->spare.value[2][i] = e->frees;
		c->spare.value[3][i] = e->free_bytes;
		c->spare.value[4][i] = e->temps;
		c->spare.value[5][i] = e->temp_bytes;
		c->spare.value[6][i] = e->inherited;
		c->spare.value[7][i] = e->inherited_bytes;
	}
	c->all = c->spare;
	c->head[0] = (struct part_head){.nodes = b->entries,
					.events = b->events,
					.largest_bytes = b->largest_bytes,
					.from_ns = b->from_ns,
					.to_ns = b->to_ns};
	c->parts = 1;
	c->part = c->first = 0;
	sums_clear(b);
	return 0;
}

static int count_span(struct sums_cursor *c)
{
	const struct mayfly_info *info = &c->t->info;

	c->parts = 0;
	while (!c->span.before.events && !c->span.after.events) {
		if (c->events_over || info->snapshot_ns ||
		    c->end_event == info->samples + info->frees)
			return 0;
		if (load_span(c))
			return c->error;
	}
	return take_span_part(c, c->span.before.events ? &c->span.before : &c->span.after);
}

/* ---- part after part ---- */

static void add_part_live(struct sums_cursor *c, const struct sums_part *part)
{
	for (size_t i = 0; i < part->nodes; i++)
		c->live_bytes += part->alloc_bytes[i] - part->free_bytes[i];
	if (c->most_bytes < part->largest_bytes)
		c->most_bytes = part->largest_bytes;
}

/* The next part of those that are loaded. 1, or an error. */
static int take_part(struct sums_cursor *c, struct sums_part *part)
{
	const struct mayfly_info *info = &c->t->info;
	const struct part_head *h = &c->head[c->part++];

	if (h->from_ns < c->last_ns ||
	    __builtin_add_overflow(c->end_event, h->events, &c->end_event) ||
	    (!info->snapshot_ns && c->end_event > info->samples + info->frees))
		return sums_wrong(c);
	c->last_ns = h->to_ns;
	*part = (struct sums_part){
	    .from_ns = h->from_ns,
	    .to_ns = h->to_ns,
	    .end_event = c->end_event,
	    .largest_bytes = h->largest_bytes,
	    .nodes = h->chains + h->nodes,
	    .node = c->all.node + c->first,
	    .allocs = c->all.value[0] + c->first,
	    .alloc_bytes = c->all.value[1] + c->first,
	    .frees = c->all.value[2] + c->first,
	    .free_bytes = c->all.value[3] + c->first,
	    .temps = c->all.value[4] + c->first,
	    .temp_bytes = c->all.value[5] + c->first,
	    .inherited = c->all.value[6] + c->first,
	    .inherited_bytes = c->all.value[7] + c->first,
	};
	c->first += part->nodes;
	add_part_live(c, part);
	return 1;
}

int sums_cursor_next(struct sums_cursor *c, struct sums_part *part)
{
	if (c->error)
		return c->error;
	while (c->part == c->parts && c->next_chunk < c->t->sums_chunks)
		if (load_sums(c))
			return c->error;
	if (c->part == c->parts) {
		if (count_span(c))
			return c->error;
		if (!c->parts)
			return 0;
	}
	return take_part(c, part);
}

/* Looks at the heads alone: a part with a new maximum of live bytes ends where they reach it. 1:
 * found. */
static int peak_of_heads(struct sums_cursor *c, uint64_t most, struct sums_part *part)
{
	for (size_t i = 0; i < c->t->sums_chunks; i++) {
		uint64_t offset = c->t->sums[i].offset;
		struct chunk_header h;
		bool sound = !chunk_find(c->t->data + offset, c->t->size - offset, false, &h) &&
			     chunk_begin(&c->chunk, &h) && read_sums_head(c);

		chunk_end(&c->chunk);
		if (!sound)
			return sums_wrong(c);
		for (size_t k = 0; k < c->parts; k++) {
			part->end_event += c->head[k].events;
			part->to_ns = c->head[k].to_ns;
			if (c->head[k].largest_bytes == most)
				return 1;
		}
	}
	return 0;
}

int sums_find_peak(const struct mayfly_trace *t, uint64_t most, struct sums_part *part)
{
	struct sums_cursor *c;
	int result = sums_cursor_open(t, &c);

	*part = (struct sums_part){0};
	if (result)
		return result;
	result = peak_of_heads(c, most, part);
	if (result == 0) {
		/* It may be in events that no SUMS covers. */
		c->parts = c->part = 0;
		while ((result = sums_cursor_next(c, part)) == 1)
			if (part->largest_bytes == most)
				break;
	}
	sums_cursor_close(c);
	return result;
}

/* Whether a chunk of events ends behind this number of events. */
static bool ends_with_events(const struct mayfly_trace *t, uint64_t events)
{
	size_t low =
	    FIRST_THAT(i, 0, t->chunks, t->chunk[i].first_event + t->chunk[i].events >= events);

	return !events ||
	       (low < t->chunks && t->chunk[low].first_event + t->chunk[low].events == events);
}

/* Goes through all SUMS chunks, and counts their parts. Returns the number of those before the first
 * that is unsound. *inherited: whether inherited blocks are told apart. */
static size_t count_parts(struct sums_cursor *c, size_t *parts, bool *inherited)
{
	const struct mayfly_trace *t = c->t;
	struct sums_part part;
	size_t sound = 0;

	*parts = 0;
	*inherited = false;
	for (; sound < t->sums_chunks && !load_sums(c); sound++) {
		size_t here = c->parts;

		*inherited |= c->chunk.column[COLUMN_SUM_INHERITED].present;
		while (c->part < c->parts)
			if (take_part(c, &part) != 1)
				return sound;
		if (!t->info.snapshot_ns && !ends_with_events(t, c->end_event))
			return sound;
		*parts += here;
	}
	return sound;
}

int sums_count(struct mayfly_trace *t, size_t *sound)
{
	struct sums_cursor *c;
	struct sums_part part;
	bool inherited, whole;
	int result = sums_cursor_open(t, &c);

	*sound = t->sums_chunks;
	if (result)
		return result;
	*sound = count_parts(c, &t->parts, &inherited);
	whole = *sound == t->sums_chunks;
	/* Snapshots have nothing else: a walk will say what is wrong. */
	if (!t->info.snapshot_ns)
		t->sums_chunks = *sound;
	/* Older versions did not tell inherited blocks apart. Events do; snapshots have none. */
	if (whole && t->info.inherited && !inherited) {
		t->info.inherited_allocated = t->info.snapshot_ns != 0;
		t->sums_chunks = t->info.snapshot_ns ? t->sums_chunks : 0;
		whole = t->info.snapshot_ns != 0;
	}
	result = c->error == MAYFLY_E_MEMORY ? c->error : 0;
	if (!result && !t->info.snapshot_ns &&
	    (!whole || c->end_event != t->info.samples + t->info.frees)) {
		sums_cursor_close(c);
		result = sums_cursor_open(t, &c);
		for (t->parts = 0; !result && sums_cursor_next(c, &part) == 1;)
			t->parts++;
	}
	sums_cursor_close(c);
	return result;
}
