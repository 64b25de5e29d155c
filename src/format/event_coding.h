/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The EVNT chunk, as its writer and its reader understand it. doc/FORMAT.md, "EVNT", says what the columns mean.
 *
 * Allocations are written in one of three forms. Sampled traces have few events and many stacks, so
 * each allocation says its own stack (FORM_DIRECT). Exact traces have few stacks and many events,
 * so the chunk has a dictionary: of stacks, with sizes apart (FORM_SITES), or of stacks and sizes
 * together (FORM_PAIRS).
 *
 * Frees name their blocks in one of four ways: by the distance to the allocation, by the distance
 * from the block freed before, by the place on the stack of live blocks of this chunk, or the
 * allocation says after how many events its free comes. Which one is shortest differs from program
 * to program and from phase to phase, so a writer tries all of them now and then and stays with the
 * best for some chunks.
 *
 *	alloc a, alloc b, alloc c, free b, free c, free a
 *	back:	1 0 2		(allocations after it)
 *	step:	+1 +1 -2	(from the last one)
 *	rank:	1 0 0		(live ones that are younger)
 *	life:	5 2 2		(events, of a, b, c)
 */
#ifndef MAYFLY_EVENT_CODING_H
#define MAYFLY_EVENT_CODING_H

#include <mayfly/trace.h>

#include "format/events.h"
#include "format/format.h"

#define RANK_ESCAPE 64 /* a deeper block is named in another way */

enum { FORM_DIRECT, FORM_SITES, FORM_PAIRS, FORMS };
enum { WAY_BACK, WAY_STEP, WAY_RANK, WAY_RANK_BACK, WAY_LIFE, WAYS };
enum { KINDS_RUNS, KINDS_BITS, KINDS };

/* What the head says besides the counts of the batch. */
struct event_head {
	uint64_t form, way, kinds, unit, error;
	uint64_t sites, nodes, pairs, new_sizes, runs, olds, segments;
	int64_t base;
};

/* ---- what both sides keep while they go through the events ---- */

/* The last two distinct sizes at a site (with FORM_DIRECT: of a frame) in this chunk. */
struct recent_sizes {
	uint64_t last, before;
	uint32_t chunk;
};

/*
 * The chunk's live blocks, youngest on top. A block that was not freed by its rank is only marked,
 * and taken off when a search meets it.
 */
struct live_stack {
	uint32_t *block; /* indices of allocations, ascending */
	size_t count;
	uint64_t *dead;	    /* bits */
	uint32_t dead_most; /* no block of this index or above is dead and still on the stack */
};

static inline void live_push(struct live_stack *s, uint32_t index)
{
	s->block[s->count++] = index;
}

static inline bool live_is_dead(const struct live_stack *s, uint32_t index)
{
	return s->dead[index / 64] >> (index % 64) & 1;
}

static inline void live_mark(struct live_stack *s, uint32_t index)
{
	s->dead[index / 64] |= (uint64_t)1 << (index % 64);
	if (index >= s->dead_most)
		s->dead_most = index + 1;
}

/* Closes the gap at a place. */
static inline void live_take_out(struct live_stack *s, size_t at)
{
	for (s->count--; at < s->count; at++)
		s->block[at] = s->block[at + 1];
}

/* Takes off the dead blocks above the live one at this rank. */
static inline void live_clean(struct live_stack *s, size_t rank)
{
	size_t from = s->count, live = 0, to;

	while (from && live <= rank)
		live += !live_is_dead(s, s->block[--from]);
	to = from;
	for (size_t at = from; at < s->count; at++) {
		s->block[to] = s->block[at];
		to += !live_is_dead(s, s->block[at]);
	}
	s->dead_most = live > rank ? s->block[from] : 0;
	s->count = to;
}

/* Takes off the block that has `rank` live ones above it. False: there are fewer. */
static inline bool live_take(struct live_stack *s, size_t rank, uint32_t *index)
{
	if (rank >= s->count || s->block[s->count - 1 - rank] < s->dead_most) {
		live_clean(s, rank);
		if (rank >= s->count)
			return false;
	}
	*index = s->block[s->count - 1 - rank];
	live_take_out(s, s->count - 1 - rank);
	return true;
}

/* The inverse: takes the block off and returns its rank. If that is RANK_ESCAPE or more, the block
 * is only marked. */
static inline size_t live_find(struct live_stack *s, uint32_t index)
{
	size_t rank = 0;

	if (s->count >= RANK_ESCAPE && s->block[s->count - RANK_ESCAPE] > index &&
	    s->block[s->count - RANK_ESCAPE] >= s->dead_most) {
		live_mark(s, index); /* the live blocks above it */
		return RANK_ESCAPE;
	}
	if (index < s->dead_most)
		live_clean(s, 4 * RANK_ESCAPE); /* the next time is far */
	while (rank < RANK_ESCAPE && rank < s->count && s->block[s->count - 1 - rank] > index)
		rank++;
	if (rank < RANK_ESCAPE && rank < s->count && s->block[s->count - 1 - rank] == index) {
		live_take_out(s, s->count - 1 - rank);
		return rank;
	}
	live_mark(s, index);
	return RANK_ESCAPE;
}

/* Flags that follow from other columns: a realloc frees and allocates at the same moment, and a
 * temporary block is the last one that its thread has allocated. */
static inline uint8_t expected_free_flags(bool realloc_follows, bool is_last)
{
	return (uint8_t)((realloc_follows ? MAYFLY_FLAG_REALLOC : 0) |
			 (is_last ? MAYFLY_FLAG_TEMPORARY : 0));
}

static inline struct recent_sizes *sizes_at(struct recent_sizes *recent, uint32_t chunk,
					    size_t place)
{
	struct recent_sizes *r = &recent[place];

	if (r->chunk != chunk) {
		r->chunk = chunk;
		r->last = r->before = 0;
	}
	return r;
}

/* The place where FORM_DIRECT keeps the last sizes of a node's frame. */
static inline size_t size_place(const struct event_context *x, uint32_t node)
{
	return !node ? x->frames : x->node ? x->node[node].frame : x->node_frame[node];
}

static inline uint32_t expected_thread(const struct event_batch *b, uint64_t number,
				       uint32_t thread)
{
	return number >= b->first_sample ? b->thread[number - b->first_sample] : thread;
}

/* allocs: how many there are up to this event, which is a free. */
static inline bool realloc_follows(const struct event_batch *b, size_t event, size_t allocs)
{
	return event + 1 < b->events && allocs < b->allocs &&
	       (!b->is_free[event + 1] & !!(b->alloc_flags[allocs] & MAYFLY_FLAG_REALLOC));
}

#endif
