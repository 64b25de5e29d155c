/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exact mode: see exact.h, and the end of the comment on records in format/spool_format.h.
 *
 *   malloc ──> real malloc ──> walk the stack ──> read the clock ──> ALLOC record
 *   free   ──> read the clock ──> RELEASE record ──> real free
 *
 * So the times of all records about one address are in order, whichever threads write them: no
 * other thread knows a block before its ALLOC, and no other block has its address before its
 * RELEASE.
 */
#include "agent/exact.h"

#include <errno.h>
#include <string.h>

#include "agent/allocator.h"
#include "agent/cpu/cpu.h"
#include "agent/fields.h"
#include "agent/labels.h"
#include "agent/latest.h"
#include "agent/life.h"
#include "agent/path.h"
#include "agent/spool.h"
#include "agent/unwind/walk.h"

/* The most that a record takes, with the bytes that put_field() stores after its end. */
#define RELEASE_BYTES 32u
#define ALLOC_BYTES   48u

#define TOLD_BLOCKS 256 /* changes that are passed on to allocator.h together */

/* Writes time and address, which ALLOC and RELEASE have in common. The caller adds its own bits to
 * *first, and stores that byte last. */
static INLINE uint8_t *put_exact_start(struct writer *w, uint64_t ticks, const void *block,
				       uint32_t *first)
{
	uint64_t address = SPOOL_TURN((uintptr_t)block);
	uint32_t time_width, address_width;
	uint8_t *at = w->at + 1;

	at = put_field(at, zigzag(ticks - w->last_ticks), &time_width);
	at = put_field(at, zigzag(address - w->last_address), &address_width);
	w->last_ticks = ticks;
	w->last_address = address;
	*first = SPOOL_EXACT_RECORD | time_width | address_width << SPOOL_EXACT_ADDRESS_SHIFT;
	return at;
}

/* ---- the clock ---- */

#define EARLY_TICKS (1u << 20) /* more than a CPU reads the clock early */

static struct latest latest;

/* A writer's own records are put in order here, so the CPU may read the clock early when another
 * thread had no record about the block in between. Else it waits for earlier loads, as the other
 * thread's clock may have been read just now. */
static inline uint64_t read_clock_of_threads(struct writer *w, const void *block)
{
	uint64_t ticks;

	if (latest_is_own(&latest, (uintptr_t)block, w->number)) {
		ticks = cpu_ticks();
		if (UNLIKELY(w->newest_ticks - ticks < EARLY_TICKS))
			ticks = w->newest_ticks;
	} else {
		ticks = cpu_ticks_in_order();
	}
	w->newest_ticks = ticks;
	return ticks;
}

/* While there is one thread, its records are in order even if the CPU reads the clock early. A
 * second thread is counted before it allocates, and this reads the count after the pointer to any
 * block that the second thread has passed to us to free. */
static inline uint64_t read_clock(struct writer *w, const void *block)
{
	if (UNLIKELY(!agent_use_tsc))
		return agent_ticks();
	if (LIKELY(atomic_load_explicit(&agent_threads, memory_order_acquire) <= 1))
		return cpu_ticks();
	return read_clock_of_threads(w, block);
}

/* ---- records ---- */

static inline void put_release(struct writer *w, uint64_t ticks, const void *block, uint32_t flags)
{
	uint8_t *start = w->at;
	uint32_t first;

	w->at = put_exact_start(w, ticks, block, &first);
	if (UNLIKELY(*agent_ending_word)) {
		agent_ends();
		flags |= SPOOL_RELEASE_ENDING;
	}
	*start = (uint8_t)(first | SPOOL_EXACT_RELEASE | flags << SPOOL_EXACT_LAST_SHIFT);
	spool_check_clock(w, ticks);
	spool_commit(w);
}

/* The next part of the packet may be in another CPU's cache: the recorder has read it there. */
static inline void fetch_ahead(const uint8_t *at)
{
	__builtin_prefetch(at + 256, 1);
}

/* The stack is the walk's latest capture. */
static INLINE void put_alloc(struct writer *w, uint64_t ticks, const void *block, uint64_t size,
			     uint32_t flags)
{
	uint32_t common = spool_common(w), depth = spool_depth(w);
	uint32_t pop = w->depth - common, push = depth - common;
	uint8_t *start = w->at, *at;
	uint32_t first, width;

	fetch_ahead(start);
	at = put_exact_start(w, ticks, block, &first);
	at = put_field(at, size, &width);
	at = put_u16(at, spool_alloc_word(pop, push, flags));
	if (UNLIKELY(pop >= SPOOL_ALLOC_MORE))
		at = put_u16(at, pop);
	if (UNLIKELY(push >= SPOOL_ALLOC_MORE))
		at = put_u16(at, push);
	at = spool_put_stack(w, at, common);
	*start = (uint8_t)(first | width << SPOOL_EXACT_LAST_SHIFT);
	w->at = at;
	w->depth = depth;
	w->stack_known = true;
	w->ocaml_known = false;
	spool_check_clock(w, ticks);
	spool_commit(w);
}

/* All differences are 0, so a reader may apply the fields or ignore them. */
static void put_undo(struct writer *w)
{
	w->new_blocks++;
	__builtin_memset(w->at, 0, 4);
	w->at[0] = SPOOL_EXACT_RECORD;
	w->at = put_u16(w->at + 4, spool_alloc_word(0, 0, SPOOL_FLAG_UNDO));
	spool_commit(w);
}

/* After the RELEASE of a realloc: the writer's next record tells what became of the block, and it
 * may be long until there is one. Any record says that the block is gone; this one changes nothing
 * else. */
static COLD void put_gone(struct writer *w)
{
	if (!spool_room(w, RELEASE_BYTES))
		return;
	*w->at++ = SPOOL_INTERVAL;
	*w->at++ = 0;
	spool_commit(w);
}

/* ---- this thread's writer ---- */

static COLD struct writer *prepare(void)
{
	int error = errno;
	struct writer *w = life_thread_ready() ? path_writer() : NULL;

	errno = error;
	return w;
}

/* This thread's writer, or NULL when nothing can be recorded now. */
static inline struct writer *ready(void)
{
	struct writer *w = self.writer;

	if (LIKELY(w && *agent_same_process &&
		   atomic_load_explicit(&agent_state, memory_order_relaxed) == AGENT_ON))
		return w;
	return prepare();
}

static COLD void dropped(struct writer *w, bool is_free)
{
	if (is_free)
		spool_drop_free(w);
	else
		spool_drop_sample(w);
}

/* Counts a block more or fewer. The shared count may lag by some hundred, as writing it is slow. */
static inline void count_block(struct writer *w, int64_t change)
{
	w->new_blocks += change;
	if (UNLIKELY(w->new_blocks >= TOLD_BLOCKS || w->new_blocks <= -TOLD_BLOCKS)) {
		allocator_blocks(w->new_blocks);
		w->new_blocks = 0;
	}
}

/* False: not recorded. */
static INLINE bool record_alloc(void *block, size_t size, const struct walk_start *at,
				uint32_t flags)
{
	struct writer *w = ready();
	uint64_t ticks;

	if (UNLIKELY(!w))
		return false;
	if (UNLIKELY(!spool_enabled())) {
		if (flags & SPOOL_FLAG_REALLOC)
			put_gone(w);
		return false;
	}
	/* Do not walk the stack when there is no packet to write it to. */
	if (UNLIKELY(!spool_room(w, ALLOC_BYTES))) {
		dropped(w, false);
		return false;
	}
	spool_capture(w, at);
	if (UNLIKELY(!spool_stack_room(w, ALLOC_BYTES)) ||
	    !labels_ready(w, ALLOC_BYTES + spool_depth(w) * SPOOL_FRAME_BYTES)) {
		dropped(w, false);
		return false;
	}
	ticks = read_clock(w, block);
	put_alloc(w, ticks, block, size, flags);
	w->newest_block = (uintptr_t)block;
	count_block(w, 1);
	if (UNLIKELY(w->walk.truncated))
		atomic_fetch_add_explicit(&spool_header->truncated_stacks, 1, memory_order_relaxed);
	if (allocator_due(ticks) && !path_is_pool((uintptr_t)block))
		allocator_look(w, ticks);
	return true;
}

void exact_allocated(void *block, size_t size, const struct walk_start *at, uint32_t flags)
{
	record_alloc(block, size, at, flags);
}

__attribute__((noinline)) void exact_block(void *block, size_t size, const struct walk_start *at,
					   uint32_t flags)
{
	if (UNLIKELY(!block))
		return;
	if (UNLIKELY(!path_enter())) {
		path_count_nested(size);
		return;
	}
	record_alloc(block, size, at, flags);
	path_leave();
}

/* ticks: when; 0: now. The writer, or NULL: not recorded. */
static INLINE struct writer *record_release(const void *block, uint64_t ticks, uint32_t flags,
					    size_t room)
{
	struct writer *w = ready();

	if (UNLIKELY(!w))
		return NULL;
	if (UNLIKELY(!spool_room(w, room))) {
		dropped(w, true);
		return NULL;
	}
	put_release(w, ticks ? ticks : read_clock(w, block), block, flags);
	count_block(w, -1);
	return w;
}

/* A free that a signal handler has left to the end of the path. */
static void free_exact_later(const struct deferred_free *d)
{
	record_release((void *)d->block, d->ticks, 0, RELEASE_BYTES);
}

/* When the record is written, the block's memory may be another thread's. */
static COLD bool defer_free(void *block)
{
	latest_forget(&latest, (uintptr_t)block);
	return path_defer_free(block, free_exact_later);
}

/* ---- the hooks ---- */

#define EXACT(name, parameters, arguments, bytes)                                                  \
	HOT void *exact_##name parameters                                                          \
	{                                                                                          \
		WALK_CALLER(at);                                                                   \
		void *block = real.name arguments;                                                 \
                                                                                                   \
		exact_block(block, bytes, &at, 0);                                                 \
		return block;                                                                      \
	}
REAL_ALLOCATIONS(EXACT)

int exact_posix_memalign(void **out, size_t alignment, size_t size)
{
	WALK_CALLER(at);
	int result = real.posix_memalign(out, alignment, size);

	if (!result)
		exact_block(*out, size, &at, 0);
	return result;
}

static INLINE void release_block(void *block)
{
	if (LIKELY(path_enter())) {
		struct writer *w = record_release(block, 0, 0, RELEASE_BYTES);

		if (LIKELY(w) && allocator_due(w->last_ticks))
			allocator_look(w, w->last_ticks);
		path_leave();
	} else {
		defer_free(block);
	}
}

void exact_free_block(void *block)
{
	release_block(block);
}

/* The allocator's own free in a guarded realloc does not count, and neither does free(NULL). */
HOT void exact_free(void *block)
{
	/* The allocator's word before the block may be far away: it comes while we work. */
	__builtin_prefetch((const char *)block - sizeof(size_t));
	if (LIKELY(block && block != self.inside))
		release_block(block);
	real.free(block);
}

void exact_pool_alloc(void *block, size_t size, const struct walk_start *at, uint32_t label)
{
	if (UNLIKELY(!path_enter())) {
		path_count_nested(size);
		return;
	}
	labels_set_pool(label);
	if (record_alloc(block, size, at, 0))
		self.writer->new_blocks--; /* it is no block of the allocator underneath */
	labels_set_pool(0);
	path_leave();
}

void exact_pool_free(void *block)
{
	if (LIKELY(path_enter())) {
		struct writer *w = record_release(block, 0, 0, RELEASE_BYTES);

		if (w)
			w->new_blocks++;
		path_leave();
	} else {
		defer_free(block);
	}
}

/* Before the real realloc, which may free the block. True: a RELEASE was written. */
static bool release_for_realloc(void *block)
{
	bool written;

	path_enter();
	/* With room for the record that may have to follow at once. */
	written = record_release(block, 0, SPOOL_FLAG_REALLOC, RELEASE_BYTES + ALLOC_BYTES);
	/* Not path_leave(): no other record of this writer may come before the next one. */
	path_leave_quietly();
	return written;
}

/* realloc has returned NULL: it failed, or the block is gone. */
static COLD void end_of_realloc(bool released, bool failed)
{
	struct writer *w;

	path_enter();
	w = ready();
	if (w && released) {
		if (!failed)
			put_gone(w);
		else if (spool_room(w, ALLOC_BYTES))
			put_undo(w);
	}
	path_leave();
}

/* Inlined, so that exact_realloc() stays fast. */
static INLINE void begin_resize(struct resize *r, void *block)
{
	r->block = block;
	r->nested = self.busy;
	if (!block)
		r->released = false;
	else if (UNLIKELY(r->nested))
		r->released = defer_free(block);
	else
		r->released = release_for_realloc(block);
}

static INLINE void end_resize(const struct resize *r, void *result, size_t size,
			      const struct walk_start *at)
{
	if (UNLIKELY(r->nested)) {
		if (result)
			path_count_nested(size);
		else if (size && r->released)
			self.deferred_count--;
	} else if (LIKELY(result)) {
		exact_block(result, size, at, r->released ? SPOOL_FLAG_REALLOC : 0);
	} else if (r->block) {
		end_of_realloc(r->released, size != 0);
	}
}

void exact_resize_begin(struct resize *resize, void *block)
{
	begin_resize(resize, block);
}

void exact_resize_end(const struct resize *resize, void *result, size_t size,
		      const struct walk_start *at)
{
	end_resize(resize, result, size, at);
}

HOT void *exact_realloc(void *block, size_t size)
{
	WALK_CALLER(at);
	struct resize resize;
	void *result;

	if (UNLIKELY(size > PTRDIFF_MAX) || UNLIKELY(block && block == self.inside))
		return real.realloc(block, size);
	begin_resize(&resize, block);
	result = real.realloc(block, size);
	end_resize(&resize, result, size, &at);
	return result;
}
