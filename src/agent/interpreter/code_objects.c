/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code objects of an interpreter: see code_objects.h.
 *
 * A code object gets a number when it is first seen on a stack. The address of a frame is
 *
 *	 63 62 61           24 23           0
 *	| 0| 1|  code's number | instruction |  + 1
 *
 * and its place (function, file, line) goes to the spool once. A code object may die and another one
 * take its memory: what identifies it (struct code_seen) is compared each time, and a difference makes
 * a new number. An object which has been compared need not be again in the same version: until its
 * memory is freed (Python in exact mode), or until objects may be freed at all (Ruby).
 */
#include "agent/interpreter/code_objects.h"

#include "agent/cpu/sys.h"

#define NUMBER_MOST ((1ull << (62 - CODES_INSTRUCTION_BITS)) - 1)
#define CODES_FIRST 4096u
#define CHUNK_BYTES (1u << 20)

_Atomic uint32_t codes_frees_number;
_Atomic uint32_t codes_changes;
_Atomic uint8_t codes_filter[CODES_FILTER];
_Atomic(struct codes *) codes_table;

static struct agent_lock lock;
static uint64_t codes_used, codes_numbered;
static char *chunk;
static size_t chunk_left;

/* Memory that is never given back. */
static void *take(size_t bytes)
{
	void *taken;

	bytes = (bytes + 7) & -(size_t)8;
	if (bytes > CHUNK_BYTES / 4)
		return agent_sandboxed ? NULL : sys_memory(bytes);
	if (bytes > chunk_left) {
		chunk = agent_sandboxed ? NULL : sys_memory(CHUNK_BYTES);
		chunk_left = chunk ? CHUNK_BYTES : 0;
		if (!chunk)
			return NULL;
	}
	taken = chunk;
	chunk += bytes;
	chunk_left -= bytes;
	return taken;
}

/* The table with room for one more. The old one stays for threads that are in it. */
static struct codes *room_for_one(void)
{
	struct codes *old = atomic_load(&codes_table), *larger;
	uint64_t slots = old ? 2 * (old->mask + 1) : CODES_FIRST;

	if (old && 2 * (codes_used + 1) <= old->mask)
		return old;
	larger = agent_sandboxed ? NULL : sys_memory(sizeof(*larger) + slots * sizeof(void *));
	if (!larger)
		return NULL;
	larger->mask = slots - 1;
	for (uint64_t i = 0; old && i <= old->mask; i++) {
		struct code *c = atomic_load(&old->slot[i]);

		if (c)
			atomic_store(codes_slot(larger, c->seen.object), c);
	}
	atomic_store(&codes_table, larger);
	return larger;
}

static struct code *add_code(const struct code_seen *seen)
{
	struct codes *t = room_for_one();
	_Atomic(struct code *) *slot;
	struct code *added;

	if (!t || codes_numbered == NUMBER_MOST)
		return NULL;
	added = take(sizeof(*added) + seen->units / 8 + 1);
	if (!added)
		return NULL;
	added->seen = *seen;
	added->number = codes_numbered++;
	slot = codes_slot(t, seen->object);
	codes_used += !atomic_load(slot);
	atomic_store(&codes_filter[codes_filtered(seen->object)], 1);
	atomic_store_explicit(slot, added, memory_order_release);
	return added;
}

COLD struct code *codes_add(const struct code_seen *seen)
{
	struct code *added;

	if (!agent_lock(&lock))
		return NULL;
	added = add_code(seen);
	agent_unlock(&lock);
	return added;
}

COLD void codes_maybe_freed(const void *block)
{
	struct code *there = codes_find(block);

	if (!there)
		return;
	atomic_store_explicit(&there->compared, 0, memory_order_relaxed);
	atomic_fetch_add_explicit(&codes_changes, 1, memory_order_release);
}

void codes_see_frees(uint32_t number)
{
	atomic_store(&codes_frees_number, number);
	atomic_fetch_add(&codes_changes, 1);
}

COLD void codes_forget_latest(struct codes_latest *latest, uint32_t version)
{
	latest->version = version;
	latest->changes = atomic_load_explicit(&codes_changes, memory_order_acquire);
	for (size_t k = 0; k < CODES_LATEST; k++)
		latest->of[k].object = NULL;
}

void codes_forked(void)
{
	atomic_store(&lock.held, 0);
}

void codes_forget(void)
{
	struct codes *t = atomic_load(&codes_table);

	atomic_fetch_add(&codes_changes, 1);
	for (uint64_t i = 0; t && i <= t->mask; i++) {
		struct code *c = atomic_load(&t->slot[i]);

		for (uint64_t k = 0; c && k <= c->seen.units / 8; k++)
			atomic_store_explicit(&c->known[k], 0, memory_order_relaxed);
	}
}
