/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which blocks are sampled, as the host allocates them.
 *
 * There are two countdowns in a thread, which is right because a geometric distance has no memory:
 * two independent sequences, each with the same chance for every unit.
 *
 *	bump pointer:	origin ──────── bump_left ────────> x	  nothing is counted down: the host's
 *			[ blocks | blocks | blo         limit     limit stands before the next sample
 *	free list:	left ──> x				  one compare and subtraction
 */
#include "memprof/samples.h"

#include <stdlib.h>

#include "memprof/tracked.h"

/* After so many units of alloc() a thread looks whether sampling has begun or ended. */
#define LOOK_UNITS (1ull << 20)

static void hand_out(struct thread *t, uint64_t gap)
{
	t->list_gap = gap;
	t->list_handed = gap < LOOK_UNITS ? gap : LOOK_UNITS;
	t->open.left = t->list_handed;
}

static bool make_room_for_frames(struct thread *t, uint32_t frames)
{
	uint64_t *room;

	if (frames <= t->frames_room)
		return true;
	room = realloc(t->frames, frames * sizeof(*room));
	if (!room)
		return false;
	t->frames = room;
	t->frames_room = frames;
	return true;
}

/* Sampling has begun or ended. Returns whether this thread samples now. */
static bool look(struct thread *t)
{
	struct profile *p = t->profile;
	uint64_t seed;

	if (t->epoch == atomic_load_explicit(&p->epoch, memory_order_acquire))
		return t->sampling;
	tracked_lock(p);
	t->epoch = atomic_load(&p->epoch);
	tracked_use_session(&t->session, p->session);
	t->sampling = t->session && make_room_for_frames(t, t->session->options.frames);
	tracked_unlock(p);
	if (!t->sampling)
		return false;
	seed = t->session->options.seed + t->number * 0xd1342543de82ef95u;
	gaps_start(&t->gaps, t->session->options.rate, seed);
	t->bump_left = gaps_draw(&t->gaps);
	hand_out(t, gaps_draw(&t->gaps));
	return true;
}

/* The limit of a bump pointer is in the host's hands: the first sample there stays where it is. */
void samples_draw_anew(struct thread *t, uint64_t number)
{
	if (!t->sampling)
		return;
	gaps_branch(&t->gaps, number);
	hand_out(t, gaps_draw(&t->gaps));
}

static void drop(struct thread *t)
{
	atomic_fetch_add_explicit(&t->profile->dropped, 1, memory_order_relaxed);
}

/* Returns the block's id; 0: it is not followed. */
static uint64_t sample(struct thread *t, struct mayfly_memprof_block *block, uint32_t entry)
{
	const struct mayfly_memprof_host *host = &t->profile->host;
	uint32_t most = t->session->options.frames;
	struct tracked *b = NULL;
	uint64_t id = 0;
	bool stopped;

	block->frames = t->frames;
	if (host->callstack && most) {
		block->depth = host->callstack(host->host, entry, t->frames, most);
		if (block->depth > most)
			block->depth = most;
	}
	tracked_lock(t->profile);
	stopped = t->epoch != atomic_load(&t->profile->epoch);
	if (!stopped)
		b = tracked_add(t, block, block->source == MAYFLY_MEMPROF_YOUNG);
	if (b)
		id = b->shown.id;
	tracked_unlock(t->profile);
	if (!b && !stopped)
		drop(t);
	return id;
}

/* ---- bump pointers ---- */

/* The limit for an area of which `at` is the free end. */
static void *limit_from(struct thread *t, uintptr_t at, uintptr_t end)
{
	const struct mayfly_memprof_host *host = &t->profile->host;
	uintptr_t room = host->downwards ? at - end : end - at, way;

	t->origin = at;
	if (!t->sampling || t->bump_left - 1 >= room / host->unit_bytes)
		return (void *)end;
	way = (uintptr_t)(t->bump_left - 1) * host->unit_bytes;
	return (void *)(host->downwards ? at - way : at + way);
}

void *mayfly_memprof_limit(struct mayfly_memprof_thread *thread, void *at, void *end)
{
	struct thread *t = (struct thread *)thread;

	if (look(t))
		t->bump_left = gaps_draw(&t->gaps);
	return limit_from(t, (uintptr_t)at, (uintptr_t)end);
}

/* Units from the origin to where the parts begin. */
static uint64_t units_passed(const struct thread *t, uintptr_t at, uint64_t size)
{
	uintptr_t way = t->profile->host.downwards ? t->origin - at : at - t->origin;

	return way / t->profile->host.unit_bytes - size;
}

void *mayfly_memprof_carved(struct mayfly_memprof_thread *thread,
			    const struct mayfly_memprof_part *parts, uint32_t count, void *at,
			    void *end)
{
	struct thread *t = (struct thread *)thread;
	uint64_t size = 0, passed, hits;
	uint64_t epoch = t->epoch;

	if (!look(t))
		return limit_from(t, (uintptr_t)at, (uintptr_t)end);
	for (uint32_t i = 0; i < count; i++)
		size += parts[i].size;
	passed = units_passed(t, (uintptr_t)at, size);
	/* When sampling has just begun, the gap begins with these parts. If the host has gone past
	 * its limit, nobody can say any more which block it was. */
	if (epoch == t->epoch && passed < t->bump_left)
		t->bump_left -= passed;
	else if (epoch == t->epoch)
		t->bump_left = gaps_draw(&t->gaps);
	for (uint32_t i = 0; i < count; i++) {
		struct mayfly_memprof_block block = {
		    .block = parts[i].block,
		    .size = parts[i].size,
		    .kind = parts[i].kind,
		    .source = MAYFLY_MEMPROF_YOUNG,
		};

		hits = gaps_take(&t->gaps, &t->bump_left, parts[i].size);
		block.n_samples = hits;
		if (hits && !t->running)
			sample(t, &block, parts[i].entry);
	}
	return limit_from(t, (uintptr_t)at, (uintptr_t)end);
}

/* ---- the others ---- */

/* Returns the number of samples in a block of this size. */
static uint64_t take(struct thread *t, uint64_t size)
{
	uint64_t epoch = t->epoch, gap = t->list_gap - (t->list_handed - t->open.left), hits;

	if (!look(t)) {
		hand_out(t, LOOK_UNITS);
		return 0;
	}
	if (epoch != t->epoch)
		gap = t->list_gap;
	hits = gaps_take(&t->gaps, &gap, size);
	hand_out(t, gap);
	return t->running ? 0 : hits;
}

void mayfly_memprof_alloc_slow(struct mayfly_memprof_thread *thread, uintptr_t block, uint64_t size,
			       uint32_t kind)
{
	struct mayfly_memprof_block sampled = {
	    .block = block,
	    .size = size,
	    .kind = kind,
	    .source = MAYFLY_MEMPROF_OLD,
	};

	sampled.n_samples = take((struct thread *)thread, size);
	if (sampled.n_samples)
		sample((struct thread *)thread, &sampled, 0);
}

uint64_t mayfly_memprof_external(struct mayfly_memprof_thread *thread, size_t bytes, uint32_t kind)
{
	struct thread *t = (struct thread *)thread;
	uint32_t unit = t->profile->host.unit_bytes;
	struct mayfly_memprof_block sampled = {
	    .size = bytes / unit + (bytes % unit != 0),
	    .kind = kind,
	    .source = MAYFLY_MEMPROF_EXTERNAL,
	};

	if (sampled.size < thread->left) {
		thread->left -= sampled.size;
		return 0;
	}
	sampled.n_samples = take(t, sampled.size);
	return sampled.n_samples ? sample(t, &sampled, 0) : 0;
}
