/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of sampled blocks: they move, die, and get other sizes. */
#include "memprof/tracked.h"

void mayfly_memprof_external_freed(struct mayfly_memprof_thread *thread, uint64_t token)
{
	struct thread *t = (struct thread *)thread;
	struct tracked *b;

	if (!token)
		return;
	tracked_lock(t->profile);
	b = tracked_find(t->profile, (uintptr_t)token, true);
	if (b)
		tracked_died(t, b);
	tracked_unlock(t->profile);
}

/* It is at `block` now. The client hears of it if it wants to. */
static void move(struct thread *t, struct tracked *b, uintptr_t block)
{
	if (b->now == block)
		return;
	tracked_rekey(b, block);
	if (b->session->tracker.move)
		tracked_event(t, b, DUE_MOVE);
}

void mayfly_memprof_moved(struct mayfly_memprof_thread *thread,
			  enum mayfly_memprof_fate (*fate)(void *context, uintptr_t *block),
			  void *context)
{
	struct thread *t = (struct thread *)thread;
	size_t i = 0;

	tracked_lock(t->profile);
	while (i < t->young_count) {
		struct tracked *b = t->young[i];
		uintptr_t block = b->now;

		/* A block that is not young any more leaves its place to the last one. */
		switch (fate(context, &block)) {
		case MAYFLY_MEMPROF_DIED:
			tracked_died(t, b);
			break;
		case MAYFLY_MEMPROF_STAYS_YOUNG:
			move(t, b, block);
			i++;
			break;
		case MAYFLY_MEMPROF_PROMOTED:
			tracked_rekey(b, block);
			tracked_leave_young(b);
			b->due &= ~(unsigned int)DUE_MOVE; /* promote tells the address, too */
			tracked_event(t, b, DUE_PROMOTE);
			break;
		}
	}
	tracked_unlock(t->profile);
}

void mayfly_memprof_sweep(struct mayfly_memprof_thread *thread,
			  int (*alive)(void *context, uintptr_t *block), void *context)
{
	struct thread *t = (struct thread *)thread;
	struct profile *p = t->profile;
	struct tracked *old = NULL;

	tracked_lock(p);
	/* A list first, since a block that moves may come to another bucket. */
	for (size_t i = 0; i < p->buckets; i++) {
		for (struct tracked *b = p->table[i]; b; b = b->chain) {
			if (b->young_of || b->shown.source == MAYFLY_MEMPROF_EXTERNAL)
				continue;
			b->next_old = old;
			old = b;
		}
	}
	for (struct tracked *b = old, *next; b; b = next) {
		uintptr_t block = b->now;

		next = b->next_old;
		if (alive(context, &block))
			move(t, b, block);
		else
			tracked_died(t, b);
	}
	tracked_unlock(p);
}

void mayfly_memprof_freed_slow(struct mayfly_memprof_thread *thread, uintptr_t block)
{
	struct thread *t = (struct thread *)thread;
	struct tracked *b;

	tracked_lock(t->profile);
	b = tracked_find(t->profile, block, false);
	if (b)
		tracked_died(t, b);
	tracked_unlock(t->profile);
}

int mayfly_memprof_resized(struct mayfly_memprof_thread *thread, uintptr_t old_block,
			   uintptr_t block, uint64_t size)
{
	struct thread *t = (struct thread *)thread;
	struct tracked *b;

	if (!mayfly_memprof_maybe(&t->profile->open, old_block))
		return MAYFLY_MEMPROF_ABSENT;
	tracked_lock(t->profile);
	b = tracked_find(t->profile, old_block, false);
	if (b) {
		if (block != b->now)
			tracked_rekey(b, block);
		b->size_now = size;
		tracked_event(t, b, DUE_RESIZE);
	}
	tracked_unlock(t->profile);
	return b ? 0 : MAYFLY_MEMPROF_ABSENT;
}
