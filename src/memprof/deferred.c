/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Callbacks, made where the host can run any code.
 *
 * A callback's bit is cleared before the call, so that it is made once, however it ends. The block
 * is marked as running meanwhile: other threads only add bits to it, and the thread looks at these
 * afterwards. thread->running says which block it is, in the heap and not in the stack of run(), so
 * that it can be finished after a longjmp() out of the callback.
 */
#include <assert.h>

#include "memprof/tracked.h"

static enum due first_due(const struct tracked *b)
{
	return (enum due)(b->due & -b->due);
}

/* What the client is shown, as it is now. */
static void show(struct tracked *b, enum due due)
{
	b->shown.size = b->size_now;
	b->shown.block = b->now;
	if (due != DUE_ALLOC) {
		b->shown.frames = NULL;
		b->shown.depth = 0;
	}
}

static void *call_alloc(const struct mayfly_memprof_tracker *t, struct mayfly_memprof_block *shown)
{
	return t->alloc ? t->alloc(t->client, shown) : NULL;
}

static void call(const struct mayfly_memprof_tracker *t, enum due due,
		 const struct mayfly_memprof_block *shown, void *kept)
{
	void (*function)(void *, const struct mayfly_memprof_block *, void *) = NULL;

	switch (due) {
	case DUE_ALLOC:
		break;
	case DUE_PROMOTE:
		function = t->promote;
		break;
	case DUE_MOVE:
		function = t->move;
		break;
	case DUE_RESIZE:
		function = t->resize;
		break;
	case DUE_DEALLOC:
		function = t->dealloc;
		break;
	case DUE_DISCARD:
		function = t->discard;
		break;
	}
	if (function)
		function(t->client, shown, kept);
}

/* The lock is held, but not during the call. */
static void make_callback(struct thread *thread, struct tracked *b)
{
	struct profile *p = thread->profile;
	enum due due = first_due(b);
	struct mayfly_memprof_block shown;
	void *kept = b->kept;

	b->due &= ~(unsigned int)due;
	show(b, due);
	shown = b->shown;
	if (due == DUE_PROMOTE)
		shown.promoted = b->shown.promoted = 1;
	if (due == DUE_ALLOC)
		b->told = true;
	thread->running = b;
	tracked_unlock(p);
	if (due == DUE_ALLOC)
		kept = call_alloc(&b->session->tracker, &shown);
	else
		call(&b->session->tracker, due, &shown, kept);
	tracked_lock(p);
	assert(thread->running == b);
	thread->running = NULL;
	if (due == DUE_ALLOC && kept == MAYFLY_MEMPROF_IGNORE) {
		tracked_forget(b);
		b->due = 0;
	} else if (due == DUE_ALLOC) {
		b->kept = kept;
	}
}

uint32_t mayfly_memprof_run(struct mayfly_memprof_thread *thread)
{
	struct thread *t = (struct thread *)thread;
	struct profile *p = t->profile;
	uint32_t made = 0;
	struct tracked *b;

	if (t->running || !mayfly_memprof_pending(thread))
		return 0;
	tracked_lock(p);
	if (p->orphans.first)
		tracked_adopt(t);
	while ((b = tracked_take_due(t))) {
		for (; b->due; made++)
			make_callback(t, b);
		tracked_put_back(t, b);
	}
	tracked_unlock(p);
	return made;
}

int mayfly_memprof_pending(const struct mayfly_memprof_thread *thread)
{
	const struct thread *t = (const struct thread *)thread;

	return atomic_load_explicit(&t->pending, memory_order_relaxed) ||
	       atomic_load_explicit(&t->profile->orphaned, memory_order_relaxed);
}

void mayfly_memprof_unwound(struct mayfly_memprof_thread *thread)
{
	struct thread *t = (struct thread *)thread;
	struct tracked *b = t->running;

	if (!b)
		return;
	tracked_lock(t->profile);
	t->running = NULL;
	tracked_put_back(t, b);
	tracked_unlock(t->profile);
}

void *mayfly_memprof_switch(struct mayfly_memprof_thread *thread, void *callback)
{
	struct thread *t = (struct thread *)thread;
	void *before = t->running;

	t->suspended += (before != NULL) - (callback != NULL);
	t->running = callback;
	return before;
}

/* Any block that is not only running. *bucket: those before it are mostly empty. */
static struct tracked *any_block(const struct profile *p, size_t *bucket)
{
	struct tracked *b = p->orphans.first;

	for (int round = 0; round < 2 && !b; round++) {
		while (*bucket < p->buckets && !(b = p->table[*bucket]))
			++*bucket;
		if (!b)
			*bucket = 0;
	}
	for (const struct thread *t = p->threads; t && !b; t = t->next)
		b = t->queue.first;
	return b;
}

void mayfly_memprof_discard(struct mayfly_memprof *profile)
{
	struct profile *p = (struct profile *)profile;
	struct tracked *b;
	size_t bucket = 0;

	tracked_lock(p);
	/* `discard` is called without the lock: everything may be another thing afterwards. */
	while ((b = any_block(p, &bucket))) {
		struct mayfly_memprof_tracker tracker = b->session->tracker;
		struct mayfly_memprof_block shown;
		void *kept = b->kept;

		show(b, DUE_DISCARD);
		shown = b->shown;
		if (tracked_forget(b)) {
			tracked_unlock(p);
			call(&tracker, DUE_DISCARD, &shown, kept);
			tracked_lock(p);
		}
	}
	tracked_unlock(p);
}
