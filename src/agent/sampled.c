/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sampled mode: see sampled.h. These are the slow paths of the hooks.
 */
#include "agent/sampled.h"

#include <errno.h>

#include "agent/allocator.h"
#include "agent/exact.h"
#include "agent/labels.h"
#include "agent/life.h"
#include "agent/live.h"
#include "agent/path.h"
#include "agent/real.h"
#include "agent/records.h"

/* ---- records ---- */

static void write_free(const struct live_block *b, uint64_t ticks, uint32_t flags)
{
	struct writer *w = path_writer();

	atomic_fetch_sub_explicit(&spool_header->live_bytes, (int64_t)b->weight,
				  memory_order_relaxed);
	atomic_fetch_sub_explicit(&spool_header->live_samples, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&spool_header->frees, 1, memory_order_relaxed);
	allocator_blocks(-(int64_t)b->blocks);
	if (!w) {
		atomic_fetch_add_explicit(&spool_header->dropped_frees, 1, memory_order_relaxed);
		return;
	}
	if (b->thread == self.number && b->position == sampler_position(&self.sampler))
		flags |= SPOOL_FLAG_TEMPORARY;
	if (*agent_ending_word) {
		agent_ends();
		flags |= SPOOL_FLAG_ENDING;
	}
	records_free(w, ticks, b->id, flags);
}

static void write_sample(void *block, size_t size, uint32_t hits, const struct walk_start *at,
			 uint32_t flags)
{
	struct writer *w = path_writer();
	struct live_block stale;

	if (!w) {
		atomic_fetch_add_explicit(&spool_header->dropped_samples, 1, memory_order_relaxed);
		return;
	}
	/* Do not walk the stack when there is no packet to write it to. */
	if (UNLIKELY(!w->packet) && !spool_room(w, 1)) {
		spool_drop_sample(w);
		return;
	}
	spool_capture(w, at);
	uint64_t ticks = agent_ticks();
	uint64_t id =
	    atomic_fetch_add_explicit(&spool_header->next_sample_id, 1, memory_order_relaxed);
	uint64_t interval = 1ull << self.sampler.interval_log2;
	uint64_t weight = hits && size < interval ? hits * interval : size;
	bool pool = flags >> SPOOL_FLAG_HEAP_SHIFT;
	struct live_block live = {
	    .block = (uintptr_t)block,
	    .id = id,
	    .position = sampler_position(&self.sampler),
	    .thread = self.number,
	    /* A pool's block inside a block of malloc is counted with that; the allocator
	     * knows no blocks of pools. */
	    .weight = (uintptr_t)block & SPOOL_ADDRESS_POOL ? 0 : (float)weight,
	    .blocks = pool ? 0 : (float)(size && weight > size ? weight / size : 1),
	};

	if (!records_sample(w, ticks, id, size, hits, flags))
		return;
	atomic_fetch_add_explicit(&spool_header->live_bytes, (int64_t)live.weight,
				  memory_order_relaxed);
	atomic_fetch_add_explicit(&spool_header->live_samples, 1, memory_order_relaxed);
	allocator_blocks((int64_t)live.blocks);
	if (live_add(&live, &stale)) {
		if (stale.id != id) /* else the table has no room */
			atomic_fetch_add_explicit(&spool_header->missed_frees, 1,
						  memory_order_relaxed);
		write_free(&stale, ticks, 0);
	}
	if (allocator_due(ticks) && !pool)
		allocator_look(w, ticks);
}

/* A free that a signal handler has left to the end of the path. */
static void free_sampled_later(const struct deferred_free *d)
{
	struct live_block b;

	if (live_remove(d->block, d->before_id, &b))
		write_free(&b, d->ticks, 0);
}

/* ---- the budget ---- */

/* The share of this thread's time that samples may cost; 0: no limit. */
static uint32_t budget_share(void)
{
	return atomic_load_explicit(&spool_header->control_overhead, memory_order_relaxed);
}

/* Charges the time since `began`. A thread that was taken off the CPU meanwhile has not worked all
 * that time, hence the limit. */
static uint64_t charge(uint64_t began, uint64_t since)
{
	uint64_t now = agent_ticks(), cost = now - began;
	uint64_t most = 50000 * (agent_use_tsc ? CPU_TICKS_PER_NS : 1); /* 50 us */

	sampler_charge(&self.sampler, &self.budget, cost < most ? cost : most, since);
	return now;
}

static COLD void look_at_budget(uint64_t began, size_t size, int32_t hits)
{
	uint64_t window = agent_use_tsc ? 1ull << 26 : 20000000; /* some 20 ms */
	uint64_t now = charge(began, hits ? sampler_position(&self.sampler) : 0);

	sampler_look(&self.sampler, &self.budget, now, window, budget_share(),
		     spool_interval_log2(), size, hits);
}

/* ---- blocks ---- */

/* Draws, and records the block. */
static INLINE void *sample(void *block, size_t size, const struct walk_start *at, uint32_t flags,
			   void *(*move)(void *block, size_t size))
{
	struct sampler *s = &self.sampler;
	bool awake = spool_enabled();
	bool budget = UNLIKELY(s->limited) && awake && budget_share();
	uint64_t began = budget ? agent_ticks() : 0;
	int32_t hits = SAMPLER_SKIP;
	void *moved = block;

	if (size < s->left) { /* the thread's first allocation */
		s->left -= size;
	} else {
		hits = sampler_take(s, size, at->pc);
		if (UNLIKELY(!awake))
			hits = SAMPLER_SKIP;
		if (hits != SAMPLER_SKIP && move)
			moved = move(block, size);
		if (hits != SAMPLER_SKIP && moved)
			write_sample(moved, size, (uint32_t)hits, at, flags);
	}
	if (budget)
		look_at_budget(began, size, hits);
	life_settle();
	if (hits != SAMPLER_SKIP)
		sampler_stop(
		    s); /* the next allocation comes here, too: was there one before this block is freed? */
	return moved ? moved : block;
}

void sampled_block(void *block, size_t size, const struct walk_start *at, uint32_t flags,
		   uint32_t label)
{
	int error = errno;

	if (!path_enter()) {
		path_count_nested(size);
		return;
	}
	labels_set_pool(label);
	if (!life_thread_ready())
		life_pass(size, at->pc);
	else if (UNLIKELY(agent_exact))
		exact_allocated(block, size, at, flags);
	else
		sample(block, size, at, flags, NULL);
	labels_set_pool(0);
	path_leave();
	errno = error;
}

void *sampled_moving(void *block, size_t size, const struct walk_start *at, uint32_t flags,
		     void *(*move)(void *block, size_t size))
{
	int error = errno;

	if (!block)
		return NULL;
	if (!path_enter()) {
		path_count_nested(size);
		return block;
	}
	if (life_thread_ready() && !agent_exact)
		block = sample(block, size, at, flags, move);
	else
		life_pass(size, at->pc);
	path_leave();
	errno = error;
	return block;
}

/* Takes a block out of the live table, before it is really freed: afterwards another thread may
 * have its address. True: it was there, and is in *taken. */
static bool take_live(void *block, struct live_block *taken)
{
	bool found = false;
	int error = errno;

	if (!path_enter()) {
		path_defer_free(block, free_sampled_later);
		return false;
	}
	if (life_thread_ready())
		found = live_remove((uintptr_t)block, UINT64_MAX, taken);
	path_leave();
	errno = error;
	return found;
}

static void report_free(const struct live_block *b, uint32_t flags)
{
	int error = errno;

	if (path_enter()) {
		if (atomic_load(&agent_state) == AGENT_ON) {
			uint64_t ticks = agent_ticks();

			write_free(b, ticks, flags);
			if (allocator_due(ticks) && self.writer && !path_is_pool(b->block))
				allocator_look(self.writer, ticks);
			if (UNLIKELY(budget_share()) && self.budget.start)
				charge(ticks, b->thread == self.number ? b->position : 0);
		}
		path_leave();
	}
	errno = error;
}

static void put_back(const struct live_block *b)
{
	struct live_block stale;

	if (path_enter()) {
		live_add(b, &stale);
		path_leave();
	}
}

/* ---- in the place of the hooks ---- */

#define SAMPLED(name, parameters, arguments, bytes)                                                \
	COLD void *sampled_##name parameters                                                       \
	{                                                                                          \
		WALK_CALLER(at);                                                                   \
		void *block = real.name arguments;                                                 \
                                                                                                   \
		if (block)                                                                         \
			sampled_block(block, bytes, &at, 0, 0);                                    \
		return block;                                                                      \
	}
REAL_ALLOCATIONS(SAMPLED)

COLD int sampled_posix_memalign(void **out, size_t alignment, size_t size)
{
	WALK_CALLER(at);
	int result = real.posix_memalign(out, alignment, size);

	if (!result && *out)
		sampled_block(*out, size, &at, 0, 0);
	return result;
}

void sampled_free_block(void *block)
{
	struct live_block b;

	if (take_live(block, &b))
		report_free(&b, 0);
}

COLD void sampled_free(void *block)
{
	if (block)
		sampled_free_block(block);
	real.free(block);
}

void sampled_resize_begin(struct resize *resize, void *block)
{
	resize->block = block;
	resize->was_live = block && live_maybe(block) && take_live(block, &resize->old);
}

/* The sample of the old place ends, and the new place may be sampled anew. A realloc that fails
 * leaves both the block and its sample as they were. */
void sampled_resize_end(const struct resize *resize, void *result, size_t size,
			const struct walk_start *at)
{
	if (!result && size) {
		if (resize->was_live)
			put_back(&resize->old);
		return;
	}
	if (resize->was_live)
		report_free(&resize->old, SPOOL_FLAG_REALLOC);
	if (!result)
		return;
	if (size < self.sampler.left)
		self.sampler.left -= size;
	else
		sampled_block(result, size, at, resize->block ? SPOOL_FLAG_REALLOC : 0, 0);
}

COLD void *sampled_realloc(void *block, size_t size)
{
	WALK_CALLER(at);
	struct resize resize;
	void *result;

	sampled_resize_begin(&resize, block);
	result = real.realloc(block, size);
	sampled_resize_end(&resize, result, size, &at);
	return result;
}
