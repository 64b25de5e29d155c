/* SPDX-License-Identifier: Apache-2.0 */
/* The tracked blocks: see tracked.h. */
#include "memprof/tracked.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- sessions ---- */

void tracked_use_session(struct session **at, struct session *session)
{
	struct session *before = *at;

	if (session)
		session->users++;
	*at = session;
	if (before && --before->users == 0)
		free(before);
}

/* ---- queues ---- */

void tracked_queue_init(struct queue *queue)
{
	queue->first = NULL;
	queue->last = &queue->first;
}

static void append(struct queue *queue, struct tracked *b)
{
	b->next_due = NULL;
	b->queued = true;
	*queue->last = b;
	queue->last = &b->next_due;
}

static struct tracked *take_first(struct queue *queue)
{
	struct tracked *b = queue->first;

	if (b) {
		queue->first = b->next_due;
		if (!queue->first)
			queue->last = &queue->first;
		b->queued = false;
	}
	return b;
}

static void join_queues(struct queue *to, struct queue *from)
{
	if (!from->first)
		return;
	*to->last = from->first;
	to->last = from->last;
	tracked_queue_init(from);
}

static void note_pending(struct thread *thread)
{
	atomic_store_explicit(&thread->pending, thread->queue.first != NULL, memory_order_relaxed);
}

void tracked_pass_queue(struct thread *from, struct thread *to)
{
	struct profile *p = from->profile;

	join_queues(to ? &to->queue : &p->orphans, &from->queue);
	note_pending(from);
	if (to)
		note_pending(to);
	else
		atomic_store(&p->orphaned, p->orphans.first != NULL);
}

void tracked_adopt(struct thread *thread)
{
	join_queues(&thread->queue, &thread->profile->orphans);
	atomic_store(&thread->profile->orphaned, 0);
	note_pending(thread);
}

/* It may be in any thread's queue. */
static void leave_queue(struct queue *queue, struct tracked *b)
{
	for (struct tracked **at = &queue->first; *at; at = &(*at)->next_due) {
		if (*at != b)
			continue;
		*at = b->next_due;
		if (!b->next_due)
			queue->last = at;
		b->queued = false;
		return;
	}
}

static void leave_queues(struct tracked *b)
{
	struct profile *p = b->profile;

	for (struct thread *t = p->threads; t && b->queued; t = t->next) {
		leave_queue(&t->queue, b);
		note_pending(t);
	}
	if (b->queued)
		leave_queue(&p->orphans, b);
	atomic_store(&p->orphaned, p->orphans.first != NULL);
}

/* ---- the table ---- */

#define BUCKETS_FIRST 256u

static bool is_external(const struct tracked *b)
{
	return b->shown.source == MAYFLY_MEMPROF_EXTERNAL;
}

static struct tracked **bucket(const struct profile *p, uintptr_t key)
{
	return &p->table[((uint64_t)key * 0x9e3779b97f4a7c15u >> 32) & (p->buckets - 1)];
}

/* A filter counts how many are in a slot; a full one stays full. */
static void count_maybe(struct profile *p, const struct tracked *b, int by)
{
	uint8_t *at = &p->maybe[mayfly_memprof_slot_(b->now)];

	if (!is_external(b) && *at != UINT8_MAX)
		__atomic_store_n(at, (uint8_t)(*at + by), __ATOMIC_RELAXED);
}

static void enter(struct profile *p, struct tracked *b)
{
	struct tracked **at = bucket(p, b->now);

	b->chain = *at;
	*at = b;
	p->used++;
	count_maybe(p, b, 1);
}

static void leave(struct profile *p, struct tracked *b)
{
	struct tracked **at = bucket(p, b->now);

	while (*at != b)
		at = &(*at)->chain;
	*at = b->chain;
	p->used--;
	count_maybe(p, b, -1);
}

/* False: no memory at all. A table that cannot grow gets slower. */
static bool grow(struct profile *p)
{
	size_t more = p->buckets ? 2 * p->buckets : BUCKETS_FIRST, before = p->buckets;
	struct tracked **old = p->table, **new;

	if (p->used < before)
		return true;
	new = calloc(more, sizeof(*new));
	if (!new)
		return before > 0;
	p->table = new;
	p->buckets = more;
	for (size_t i = 0; i < before; i++) {
		for (struct tracked *b = old[i], *next; b; b = next) {
			struct tracked **at = bucket(p, b->now);

			next = b->chain;
			b->chain = *at;
			*at = b;
		}
	}
	free(old);
	return true;
}

struct tracked *tracked_find(struct profile *p, uintptr_t block, bool external)
{
	struct tracked *b = p->buckets ? *bucket(p, block) : NULL;

	while (b && (b->now != block || is_external(b) != external))
		b = b->chain;
	return b;
}

/* ---- young blocks ---- */

bool tracked_become_young(struct thread *thread, struct tracked *b)
{
	if (thread->young_count == thread->young_room) {
		size_t room = thread->young_room ? 2 * thread->young_room : 64;
		struct tracked **more = realloc(thread->young, room * sizeof(struct tracked *));

		if (!more)
			return false;
		thread->young = more;
		thread->young_room = room;
	}
	b->young_of = thread;
	b->young_at = thread->young_count;
	thread->young[thread->young_count++] = b;
	return true;
}

/* The last one takes its place. */
void tracked_leave_young(struct tracked *b)
{
	struct thread *thread = b->young_of;
	struct tracked *last;

	if (!thread)
		return;
	last = thread->young[--thread->young_count];
	thread->young[b->young_at] = last;
	last->young_at = b->young_at;
	b->young_of = NULL;
}

/* ---- one block ---- */

static void release(struct tracked *b)
{
	b->profile->tracked--;
	tracked_use_session(&b->session, NULL);
	free(b);
}

struct tracked *tracked_add(struct thread *thread, const struct mayfly_memprof_block *block,
			    bool young)
{
	struct profile *p = thread->profile;
	bool external = block->source == MAYFLY_MEMPROF_EXTERNAL;
	struct tracked *b, *there;

	if (!grow(p))
		return NULL;
	b = calloc(1, sizeof(*b) + block->depth * sizeof(b->frames[0]));
	if (!b)
		return NULL;
	b->shown = *block;
	b->shown.id = ++p->next_id;
	if (external)
		b->shown.block = (uintptr_t)b->shown.id;
	b->shown.frames = b->frames;
	if (block->depth)
		memcpy(b->frames, block->frames, block->depth * sizeof(b->frames[0]));
	b->now = b->shown.block;
	b->size_now = block->size;
	b->profile = p;
	if (young && !tracked_become_young(thread, b)) {
		free(b);
		return NULL;
	}
	tracked_use_session(&b->session, thread->session);
	/* The host did not report the end of a block that was here. */
	there = tracked_find(p, b->now, external);
	if (there)
		tracked_died(thread, there);
	enter(p, b);
	p->tracked++;
	tracked_event(thread, b, DUE_ALLOC);
	return b;
}

void tracked_event(struct thread *thread, struct tracked *b, enum due due)
{
	b->due |= (unsigned int)due;
	if (b->queued || b->running)
		return;
	append(&thread->queue, b);
	note_pending(thread);
}

void tracked_died(struct thread *thread, struct tracked *b)
{
	assert(!b->dead);
	leave(b->profile, b);
	tracked_leave_young(b);
	b->dead = true;
	tracked_event(thread, b, DUE_DEALLOC);
}

void tracked_rekey(struct tracked *b, uintptr_t block)
{
	leave(b->profile, b);
	b->now = block;
	enter(b->profile, b);
}

struct tracked *tracked_take_due(struct thread *thread)
{
	struct tracked *b = take_first(&thread->queue);

	note_pending(thread);
	if (b)
		b->running = true;
	return b;
}

void tracked_put_back(struct thread *thread, struct tracked *b)
{
	b->running = false;
	if (b->due) {
		append(&thread->queue, b);
		note_pending(thread);
	} else if (b->dead) {
		release(b);
	}
}

bool tracked_forget(struct tracked *b)
{
	/* A dead one has had its dealloc or discard, if that is not due. */
	bool tell = b->told && (!b->dead || b->due & (DUE_DEALLOC | DUE_DISCARD));

	if (!b->dead) {
		leave(b->profile, b);
		tracked_leave_young(b);
	}
	b->dead = true;
	if (b->queued)
		leave_queues(b);
	b->due = b->running && tell ? DUE_DISCARD : 0;
	if (b->running)
		return false;
	release(b);
	return tell;
}
