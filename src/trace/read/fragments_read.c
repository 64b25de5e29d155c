/* SPDX-License-Identifier: Apache-2.0 */
/* Reading nearly empty pages by stack: doc/FORMAT.md, "frag". */
#include <stdlib.h>
#include <string.h>

#include "format/format.h"
#include "trace/read/reader.h"

static const struct mayfly_fragment *read_entries(struct mayfly_trace *t, struct chunk_reader *c,
						  size_t count)
{
	const uint64_t *node = chunk_numbers(c, COLUMN_FRAGMENT_NODE, count);
	const uint64_t *blocks = chunk_numbers(c, COLUMN_FRAGMENT_BLOCKS, count);
	const uint64_t *bytes = chunk_numbers(c, COLUMN_FRAGMENT_BYTES, count);
	const uint64_t *pages = chunk_numbers(c, COLUMN_FRAGMENT_PAGES, count);
	const uint64_t *held = chunk_numbers(c, COLUMN_FRAGMENT_HELD, count);
	struct mayfly_fragment *entry = chunk_memory(c, count, sizeof(*entry));
	uint64_t next = 0;

	if (!node || !blocks || !bytes || !pages || !held || !entry)
		return NULL;
	for (size_t i = 0; i < count; i++, next++) {
		if (node[i] >= t->info.nodes || (next += node[i]) >= t->info.nodes) {
			chunk_fail(c, MAYFLY_E_DAMAGED);
			return NULL;
		}
		entry[i] = (struct mayfly_fragment){(uint32_t)next, blocks[i], bytes[i], pages[i],
						    held[i]};
	}
	return entry;
}

void fragments_read(struct mayfly_trace *t, struct chunk_reader *c)
{
	uint64_t kind = varint_u(&c->head), unit = varint_u(&c->head), count;
	struct mayfly_fragmentation f = {0};
	const struct mayfly_fragment *read;
	struct mayfly_fragment *entry = NULL;
	const uint64_t *runs;
	size_t room = 0;
	int64_t time = varint_s(&c->head);

	f.page_bytes = varint_u(&c->head);
	f.blocks = varint_u(&c->head);
	f.bytes = varint_u(&c->head);
	f.pages = varint_u(&c->head);
	count = varint_u(&c->head);
	if (!chunk_columns(c, 0x6aa) || kind >= FRAGMENTS_KINDS)
		return; /* a kind of moment that is not known here */
	if (unit < 1 || unit > 1000000000 || !f.page_bytes || count > t->info.nodes)
		chunk_fail(c, MAYFLY_E_DAMAGED);
	f.time_ns = chunk_time(c, time, unit);
	if (c->error)
		return;
	read = read_entries(t, c, (size_t)count);
	runs = chunk_numbers(c, COLUMN_FRAGMENT_RUNS, 1);
	if (!read || !runs || !chunk_grow(c, GROWING(entry, room, 0), count + 1))
		return;
	if (count)
		memcpy(entry, read, (size_t)count * sizeof(*entry));
	f.runs = *runs;
	f.count = (size_t)count;
	f.fragment = entry;
	free((void *)(uintptr_t)t->fragments[kind].fragment);
	t->fragments[kind] = f;
	t->lost.fragments[kind] = false;
}

void fragments_close(struct mayfly_trace *t)
{
	for (size_t i = 0; i < FRAGMENTS_KINDS; i++)
		free((void *)(uintptr_t)t->fragments[i].fragment);
}

const struct mayfly_fragmentation *mayfly_trace_fragmentation(const struct mayfly_trace *trace,
							      bool at_end)
{
	const struct mayfly_fragmentation *peak = &trace->fragments[FRAGMENTS_PEAK];
	const struct mayfly_fragmentation *end = &trace->fragments[FRAGMENTS_END];

	if (trace->lost.fragments[at_end ? FRAGMENTS_END : FRAGMENTS_PEAK])
		return NULL;
	if (at_end)
		return end->fragment ? end : NULL;
	/* What never fell was largest at the end. */
	if (end->fragment && (!peak->fragment || end->bytes > peak->bytes))
		return end;
	return peak->fragment ? peak : NULL;
}
