/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks without which a trace can be used. Opening leaves a damaged one out, remembers
 * it, and goes on:
 *
 *	... TREE EVNT trak cntr SUMS frag maps | FRMS TREE EVNT ... indx
 *	          |         bad  bad                        |
 *	          the figures                        are not touched
 *
 * Some can be had from others: SUMS from the events, indx from all chunks. What the others held is
 * missing, and so is what refers to it. Numbers go on from chunk to chunk, so where one of text, type
 * or labl is bad, no later one of this type counts: its numbers would be others'.
 */
#include "trace/read/reader.h"

#include <string.h>

static const struct {
	uint32_t type;
	const char *holds;
} side_chunks[] = {
    {TRACE_COUNTERS, "counters"},
    {TRACE_MAPPINGS, "mappings"},
    {TRACE_FRAGMENTS, "nearly empty pages"},
    {TRACE_ERRORS, "errors of estimates"},
    {TRACE_PICTURE, "picture of the heap"},
    {TRACE_PROMOTIONS, "promotions"},
    {TRACE_TEXTS, "texts of events and labels"},
    {TRACE_TRACK_TYPES, "types of events"},
    {TRACE_LABELS, "labels"},
    {TRACE_TRACK, "events"},
    {TRACE_NAMES, "names of functions"},
    {TRACE_SUMS, "sums, made again"},
    {TRACE_INDEX, "index, made again"},
    {TRACE_POOLS, "nothing"},
    {TRACE_MAPPED, "nothing"},
};

static const char *what_it_holds(uint32_t type)
{
	for (size_t i = 0; i < sizeof(side_chunks) / sizeof(*side_chunks); i++)
		if (side_chunks[i].type == type)
			return side_chunks[i].holds;
	return NULL;
}

bool side_chunk(const struct mayfly_trace *t, uint32_t type)
{
	/* Snapshots have nothing else. */
	return what_it_holds(type) && !(type == TRACE_SUMS && t->info.snapshot_ns);
}

static void lose(struct mayfly_trace *t, uint32_t type, uint64_t kind)
{
	struct trace_lost *lost = &t->lost;

	lost->names |= type == TRACE_NAMES;
	lost->texts |= type == TRACE_TEXTS;
	lost->types |= type == TRACE_TRACK_TYPES;
	lost->labels |= type == TRACE_LABELS;
	lost->counters |= type == TRACE_COUNTERS;
	lost->sums |= type == TRACE_SUMS;
	lost->picture |= type == TRACE_PICTURE;
	for (size_t i = 0; type == TRACE_FRAGMENTS && i < FRAGMENTS_KINDS; i++)
		lost->fragments[i] |=
		    kind == i || (kind >= FRAGMENTS_KINDS && !t->fragments[i].fragment);
	for (size_t i = 0; type == TRACE_MAPPINGS && i < RESIDENCY_MOMENTS; i++)
		lost->residency[i] |=
		    kind == i || (kind >= RESIDENCY_MOMENTS && !t->residency[i].mapping);
}

bool side_chunk_lost(struct mayfly_trace *t, struct chunk_reader *c, uint32_t type, size_t at,
		     uint64_t kind)
{
	struct mayfly_bad_chunk *bad;

	if (!chunk_grow(c, GROWING(t->bad, t->bad_room, t->info.bad_chunks), 1))
		return false;
	bad = &t->bad[t->info.bad_chunks++];
	*bad = (struct mayfly_bad_chunk){.offset = at, .holds = what_it_holds(type)};
	for (unsigned i = 0; i < 4; i++)
		bad->type[i] = (char)(type >> 8 * i);
	lose(t, type, kind);
	return true;
}

const struct mayfly_bad_chunk *mayfly_trace_bad_chunk(const struct mayfly_trace *trace,
						      size_t index)
{
	return index < trace->info.bad_chunks ? &trace->bad[index] : NULL;
}
