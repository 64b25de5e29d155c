/* SPDX-License-Identifier: Apache-2.0 */
/* The mappings that the program has made itself: see ranges.h. */
#include "agent/ranges.h"

#include <string.h>

#include "agent/agent.h"
#include "agent/cpu/sys.h"

#define FIRST_ROOM 128u
#define NONE	   RANGE_RESERVED

struct ranges ranges;
static struct agent_lock lock;

#define FORK_NAPS 40u /* some 10 ms, in which most processes have forked */

static _Atomic uint32_t given_up; /* the latest fork that a thread has waited for too long */

bool ranges_lock(bool allocator)
{
	uint32_t fork = atomic_load(&lock.forks);

	if (agent_lock_beside_fork(
		&lock, allocator || (fork && fork == atomic_load(&given_up)) ? 0 : FORK_NAPS))
		return true;
	if (!allocator)
		atomic_store(&given_up, atomic_load(&lock.forks));
	return false;
}

void ranges_unlock(void)
{
	agent_unlock(&lock);
}

void ranges_lock_for_fork(void)
{
	static uint32_t fork; /* under the lock */

	if (agent_lock(&lock))
		atomic_store(&lock.forks, ++fork ? fork : ++fork);
}

void ranges_unlock_after_fork(void)
{
	atomic_store(&lock.forks, 0);
	atomic_store(&lock.held, 0);
}

/* ---- whose they are ---- */

#define EXEMPT_MOST  8u
#define EXEMPT_BYTES 512u /* of such a function's code: it does little more than this call */

static _Atomic uintptr_t exempt[EXEMPT_MOST];

void ranges_exempt(const void *function)
{
	for (uint32_t i = 0; i < EXEMPT_MOST; i++) {
		uintptr_t there = 0;

		if (atomic_compare_exchange_strong(&exempt[i], &there, (uintptr_t)function) ||
		    there == (uintptr_t)function)
			return;
	}
}

bool ranges_are_exempt(uintptr_t pc)
{
	for (uint32_t i = 0; i < EXEMPT_MOST; i++) {
		uintptr_t function = atomic_load_explicit(&exempt[i], memory_order_relaxed);

		if (!function)
			break;
		if (pc - function < EXEMPT_BYTES)
			return true;
	}
	return false;
}

/* ---- memory ---- */

/* The array with twice the room; NULL: no memory. */
static void *larger(void *old, size_t used, size_t item, size_t *room)
{
	size_t wanted = *room ? 2 * *room : FIRST_ROOM;
	void *new = agent_sandboxed ? NULL : sys_memory(wanted * item);

	if (!new)
		return NULL;
	if (old) {
		memcpy(new, old, used * item);
		sys_munmap(old, *room * item);
	}
	*room = wanted;
	return new;
}

static bool range_room(struct ranges *r)
{
	struct range *new;

	if (r->count < r->room)
		return true;
	new = larger(r->range, r->count, sizeof(*new), &r->room);
	if (new)
		r->range = new;
	return new != NULL;
}

/* NONE: no memory. */
static uint32_t new_block(struct ranges *r, uint64_t id)
{
	uint32_t index = r->free;

	if (!r->block)
		index = NONE;
	if (index != NONE) {
		r->free = r->block[index].next;
	} else {
		if (r->blocks == r->block_room) {
			size_t room = r->block_room;
			struct range_block *new = larger(r->block, r->blocks, sizeof(*new), &room);

			if (!new)
				return NONE;
			if (!r->block)
				r->free = NONE;
			r->block = new;
			r->block_room = (uint32_t)room;
		}
		index = r->blocks++;
	}
	r->block[index] = (struct range_block){.id = id};
	return index;
}

static void free_block(struct ranges *r, uint32_t index)
{
	r->block[index].next = r->free;
	r->free = index;
}

/* ---- places ---- */

/* The first range that is not above `end`. */
static size_t first_below(const struct ranges *r, uintptr_t end)
{
	size_t low = 0, high = r->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (r->range[middle].start >= end)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void set_bounds(struct ranges *r)
{
	atomic_store_explicit(&r->high, r->count ? r->range[0].end : 0, memory_order_relaxed);
	atomic_store_explicit(&r->low, r->count ? r->range[r->count - 1].start : 0,
			      memory_order_relaxed);
}

static void count_reserved(struct ranges *r, const struct range *a, int change)
{
	if (a->block == RANGE_RESERVED)
		atomic_fetch_add_explicit(&r->reserved, (size_t)change, memory_order_relaxed);
}

/* There is room. */
static void insert(struct ranges *r, size_t at, struct range a)
{
	memmove(r->range + at + 1, r->range + at, (r->count - at) * sizeof(a));
	r->range[at] = a;
	r->count++;
	count_reserved(r, &a, 1);
}

static bool add(struct ranges *r, uintptr_t start, uintptr_t end, uint32_t block)
{
	uint64_t serial = atomic_fetch_add_explicit(&r->serial, 1, memory_order_relaxed) + 1;

	if (!range_room(r))
		return false;
	insert(r, first_below(r, end), (struct range){start, end, serial, block});
	set_bounds(r);
	return true;
}

/* ---- cutting ---- */

struct cut {
	struct ranges *r;
	uint32_t changed; /* the first block; NONE */
	uint64_t reserved;
};

static void lose(struct cut *c, const struct range *a, uint64_t bytes)
{
	struct range_block *b;

	if (a->block == RANGE_RESERVED) {
		c->reserved += bytes;
		return;
	}
	b = &c->r->block[a->block];
	b->bytes -= bytes;
	if (!b->lost) {
		b->next = c->changed;
		c->changed = a->block;
	}
	b->lost += bytes;
}

/* A hole in the middle of one range. Without memory, what is above it is not followed any more. */
static void split(struct cut *c, size_t at, uintptr_t start, uintptr_t end)
{
	struct ranges *r = c->r;
	struct range above = r->range[at];

	lose(c, &above, end - start);
	above.start = end;
	r->range[at].end = start;
	if (range_room(r))
		insert(r, at, above);
	else
		lose(c, &above, above.end - above.start);
}

/* What is left of a range of which the cut reaches one end or both. False: nothing. */
static bool trim(struct cut *c, struct range *a, uintptr_t start, uintptr_t end)
{
	uintptr_t from = a->start > start ? a->start : start, to = a->end < end ? a->end : end;

	lose(c, a, to - from);
	if (a->start < from)
		a->end = from;
	else
		a->start = to;
	return a->start < a->end;
}

static void tell_changed(struct cut *c, range_changed *changed, void *context)
{
	struct ranges *r = c->r;

	while (c->changed != NONE) {
		uint32_t index = c->changed;
		struct range_block b = r->block[index];

		c->changed = b.next;
		r->block[index].lost = 0;
		changed(context, b.id, b.lost, b.bytes);
		if (!b.bytes)
			free_block(r, index);
	}
}

uint64_t ranges_cut(struct ranges *r, uintptr_t start, uintptr_t end, uint64_t serial,
		    range_changed *changed, void *context)
{
	struct cut c = {r, NONE, 0};
	size_t at = first_below(r, end), from = at, to = at;
	struct range *a = r->range + at;

	if (start >= end || at == r->count || a->end <= start)
		return 0;
	if (a->start < start && a->end > end) {
		if (a->serial <= serial)
			split(&c, at, start, end);
	} else {
		for (; from < r->count && r->range[from].end > start; from++) {
			struct range left = r->range[from];

			if (left.serial > serial || trim(&c, &left, start, end))
				r->range[to++] = left;
			else
				count_reserved(r, &left, -1);
		}
		memmove(r->range + to, r->range + from, (r->count - from) * sizeof(*r->range));
		r->count -= from - to;
	}
	set_bounds(r);
	tell_changed(&c, changed, context);
	return c.reserved;
}

/* ---- adding ---- */

bool ranges_add(struct ranges *r, uintptr_t start, uintptr_t end, uint64_t id)
{
	uint32_t block = new_block(r, id);

	if (block == NONE)
		return false;
	r->block[block].bytes = end - start;
	if (add(r, start, end, block))
		return true;
	free_block(r, block);
	return false;
}

bool ranges_reserve(struct ranges *r, uintptr_t start, uintptr_t end)
{
	return add(r, start, end, RANGE_RESERVED);
}

uint64_t ranges_reserved(const struct ranges *r, uintptr_t start, uintptr_t end)
{
	uint64_t bytes = 0;

	for (size_t i = first_below(r, end); i < r->count && r->range[i].end > start; i++) {
		const struct range *a = &r->range[i];

		if (a->block == RANGE_RESERVED)
			bytes +=
			    (a->end < end ? a->end : end) - (a->start > start ? a->start : start);
	}
	return bytes;
}

static void nothing_changed(void *context, uint64_t id, uint64_t lost, uint64_t left)
{
	(void)context, (void)id, (void)lost, (void)left;
}

/* The highest part that is reserved in [start, end). False: none is. */
static bool next_reserved(const struct ranges *r, uintptr_t start, uintptr_t end,
			  struct range *found)
{
	for (size_t i = first_below(r, end); i < r->count && r->range[i].end > start; i++) {
		if (r->range[i].block != RANGE_RESERVED)
			continue;
		*found = r->range[i];
		found->start = found->start > start ? found->start : start;
		found->end = found->end < end ? found->end : end;
		return true;
	}
	return false;
}

bool ranges_commit(struct ranges *r, uintptr_t start, uintptr_t end, uint64_t id)
{
	uint32_t block = new_block(r, id);
	struct range part;

	if (block == NONE)
		return false;
	while (next_reserved(r, start, end, &part)) {
		ranges_cut(r, part.start, part.end, RANGES_ALL, nothing_changed, NULL);
		if (!add(r, part.start, part.end, block))
			break;
		r->block[block].bytes += part.end - part.start;
		end = part.start;
	}
	if (r->block[block].bytes)
		return true;
	free_block(r, block);
	return false;
}

enum range_kind ranges_kind(const struct ranges *r, uintptr_t start, uintptr_t end)
{
	enum range_kind kind = RANGE_NONE;

	for (size_t i = first_below(r, end); i < r->count && r->range[i].end > start; i++) {
		if (r->range[i].block != RANGE_RESERVED)
			return RANGE_OF_BLOCK;
		kind = RANGE_IS_RESERVED;
	}
	return kind;
}

uintptr_t ranges_end(const struct ranges *r, uintptr_t start)
{
	size_t at = first_below(r, start + 1);

	return at < r->count && r->range[at].start == start ? r->range[at].end : 0;
}

void ranges_forget(struct ranges *r)
{
	r->count = 0;
	r->blocks = 0;
	r->free = NONE;
	atomic_store(&r->reserved, 0);
	set_bounds(r);
}
