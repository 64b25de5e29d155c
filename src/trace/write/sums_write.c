/* SPDX-License-Identifier: Apache-2.0 */
/* Writing per-stack counters: doc/FORMAT.md, "SUMS". */
#include "trace/write/sums_write.h"

#include <stdlib.h>

#include "base/search.h"
#include "format/format.h"
#include "base/varint.h"

struct recent_sizes {
	uint64_t last, before;
};

/* The columns of a chunk. */
enum {
	CHAIN,
	NODE,
	ALLOCS,
	SIZE,
	NEW_SIZE,
	REST,
	FREES,
	FREED,
	TEMPS,
	TEMP_BYTES,
	INHERITED,
	INHERITED_BYTES,
	COLUMNS
};

static const unsigned column_id[COLUMNS] = {
    [CHAIN] = COLUMN_SUM_CHAIN,		[NODE] = COLUMN_SUM_NODE,
    [ALLOCS] = COLUMN_SUM_ALLOCS,	[SIZE] = COLUMN_SUM_SIZE,
    [NEW_SIZE] = COLUMN_SUM_NEW_SIZE,	[REST] = COLUMN_SUM_REST,
    [FREES] = COLUMN_SUM_FREES,		[FREED] = COLUMN_SUM_FREED,
    [TEMPS] = COLUMN_SUM_TEMPS,		[TEMP_BYTES] = COLUMN_SUM_TEMP_BYTES,
    [INHERITED] = COLUMN_SUM_INHERITED, [INHERITED_BYTES] = COLUMN_SUM_INHERITED_BYTES,
};

struct sums_columns {
	const struct sums_tables *tables;
	uint64_t *value[COLUMNS];
	size_t count[COLUMNS];
	struct recent_sizes *recent;	     /* of node 0, of frame 0, ... */
	size_t chain, last_chain, last_node; /* of the part at hand */
};

/* Most are 0, as all are at first: what is not written to takes no memory. */
static void put_value(struct sums_columns *c, unsigned column, uint64_t value)
{
	if (value)
		c->value[column][c->count[column]] = value;
	c->count[column]++;
}

/* Puts a node: mostly the end of a chain. */
static void put_node(struct sums_columns *c, uint32_t node)
{
	const struct sums_tables *t = c->tables;
	size_t low = FIRST_THAT(i, c->chain, t->chains, t->chain_end[i] >= node);

	c->chain = low;
	if (low < t->chains && t->chain_end[low] == node) {
		put_value(c, CHAIN, low - c->last_chain);
		c->last_chain = low + 1;
	} else {
		put_value(c, NODE, node - c->last_node);
		c->last_node = (size_t)node + 1;
	}
}

/* The usual size of a block of the node, and its code. */
static uint64_t put_usual_size(struct sums_columns *c, struct recent_sizes *r,
			       const struct sums_entry *e)
{
	uint64_t size = e->alloc_bytes / e->allocs;

	put_value(c, REST, e->alloc_bytes % e->allocs);
	if (size == r->last) {
		put_value(c, SIZE, 0);
		return size;
	}
	put_value(c, SIZE, size == r->before ? 1 : 2);
	if (size != r->before)
		put_value(c, NEW_SIZE, size);
	r->before = r->last;
	r->last = size;
	return size;
}

static void put_inherited(struct sums_columns *c, const struct sums_entry *e, uint64_t size)
{
	uint64_t expected = e->inherited == e->allocs ? e->alloc_bytes : e->inherited * size;

	put_value(c, INHERITED, e->inherited);
	if (e->inherited)
		put_value(c, INHERITED_BYTES,
			  varint_zigzag((int64_t)(e->inherited_bytes - expected)));
}

static void put_sums_entry(struct sums_columns *c, const struct sums_entry *e)
{
	struct recent_sizes *r =
	    &c->recent[e->node ? (size_t)c->tables->node_frame[e->node] + 1 : 0];
	uint64_t size, expected;

	put_node(c, e->node);
	put_value(c, ALLOCS, e->allocs);
	size = e->allocs ? put_usual_size(c, r, e) : r->last;
	if (e->allocs)
		put_inherited(c, e, size);
	put_value(c, FREES, varint_zigzag((int64_t)(e->allocs - e->frees)));
	if (!e->frees)
		return;
	expected = e->frees == e->allocs ? e->alloc_bytes : e->frees * size;
	put_value(c, FREED, varint_zigzag((int64_t)(e->free_bytes - expected)));
	if (!e->allocs && e->free_bytes != expected) {
		r->before = r->last;
		r->last = size = e->free_bytes / e->frees;
	}
	put_value(c, TEMPS, e->temps);
	if (!e->temps)
		return;
	expected = e->temps == e->frees ? e->free_bytes : e->temps * size;
	put_value(c, TEMP_BYTES, varint_zigzag((int64_t)(e->temp_bytes - expected)));
}

static void put_sums_part(struct sums_columns *c, struct bytes *head, struct sums_build *b,
			  int64_t *last_ns)
{
	size_t chains = c->count[CHAIN], nodes = c->count[NODE];

	sums_sort(b);
	c->chain = c->last_chain = c->last_node = 0;
	for (size_t i = 0; i < b->entries; i++)
		put_sums_entry(c, &b->entry[i]);
	bytes_put_u(head, c->count[CHAIN] - chains);
	bytes_put_u(head, c->count[NODE] - nodes);
	bytes_put_u(head, b->events);
	bytes_put_s(head, b->from_ns - *last_ns);
	bytes_put_u(head, (uint64_t)(b->to_ns - b->from_ns));
	bytes_put_u(head, b->largest_bytes);
	*last_ns = b->to_ns;
}

static void put_parts(struct sums_columns *c, struct chunk_maker *chunk,
		      struct sums_build *const part[2])
{
	int64_t last_ns = 0;

	bytes_put_u(&chunk->head, (part[0]->events != 0) + (part[1]->events != 0));
	for (unsigned i = 0; i < 2; i++)
		if (part[i]->events)
			put_sums_part(c, &chunk->head, part[i], &last_ns);
	for (unsigned i = 0; i < COLUMNS; i++)
		chunk->column[i].count = c->count[i];
}

bool sums_write(struct sums_build *const part[2], const struct sums_tables *tables,
		struct column_writer *columns, struct bytes *out)
{
	size_t entries = part[0]->entries + part[1]->entries;
	struct sums_columns c = {.tables = tables};
	struct chunk_maker chunk = {0};

	if (!part[0]->events && !part[1]->events)
		return true;
	c.recent = calloc(tables->frames + 1, sizeof(*c.recent));
	for (unsigned i = 0; i < COLUMNS; i++)
		c.value[i] = chunk_add(&chunk, column_id[i], entries);
	chunk.failed |= !c.recent;
	if (!chunk.failed)
		put_parts(&c, &chunk, part);
	chunk_finish(&chunk, columns, TRACE_SUMS, out);
	free(c.recent);
	sums_clear(part[0]);
	sums_clear(part[1]);
	return !out->failed;
}
