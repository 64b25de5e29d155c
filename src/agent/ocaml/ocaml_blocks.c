/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sampled blocks of OCaml's heaps: their stacks, and the source places of the stacks.
 */
#include "agent/ocaml/ocaml_blocks.h"

#include <dlfcn.h>
#include <sys/mman.h>

#include "agent/cpu/sys.h"
#include "agent/records.h"
#include "agent/unwind/modules.h"

/* ---- places ---- */

/*
 * The addresses whose places are in the spool: open addressing, about half full at most. Threads
 * change it without a lock. An address that is forgotten by a race is written twice, which does no
 * harm.
 */
struct places {
	uint64_t mask;
	_Atomic uint64_t used;
	_Atomic uint64_t slot[];
};
static _Atomic(struct places *) known;

#define PLACES_FIRST 4096u

static size_t places_bytes(uint64_t slots)
{
	return sizeof(struct places) + slots * sizeof(uint64_t);
}

/* False: it was there. */
static bool add_place(struct places *p, uint64_t address)
{
	uint64_t i = address * 0x9e3779b97f4a7c15u >> 32;

	for (;; i++) {
		_Atomic uint64_t *slot = &p->slot[i & p->mask];
		uint64_t there = 0;

		if (atomic_compare_exchange_strong(slot, &there, address)) {
			atomic_fetch_add(&p->used, 1);
			return true;
		}
		if (there == address)
			return false;
	}
}

/* A larger table instead of `old`, or the one that another thread has made meanwhile; NULL: there
 * is no memory. The old one stays mapped for threads that are in it, but gives its pages back: they
 * find nothing there. */
static struct places *more_places(struct places *old)
{
	uint64_t slots = old ? 2 * (old->mask + 1) : PLACES_FIRST;
	struct places *larger = agent_sandboxed ? NULL : sys_memory(places_bytes(slots));
	struct places *there = old;

	if (!larger)
		return NULL;
	larger->mask = slots - 1;
	for (uint64_t i = 0; old && i <= old->mask; i++)
		if (old->slot[i])
			add_place(larger, old->slot[i]);
	if (!atomic_compare_exchange_strong(&known, &there, larger)) {
		sys_munmap(larger, places_bytes(slots));
		return there;
	}
	if (old) /* all but the first page, which has the mask */
		sys_madvise((char *)old + CPU_PAGE_LEAST,
			    places_bytes(old->mask + 1) - CPU_PAGE_LEAST, MADV_DONTNEED);
	return larger;
}

void ocaml_blocks_forget(void)
{
	struct places *p = atomic_load(&known);

	for (uint64_t i = 0; p && i <= p->mask; i++)
		atomic_store(&p->slot[i], 0);
	if (p)
		atomic_store(&p->used, 0);
}

/* True: seen for the first time. False also without memory for the table. */
static bool is_new_place(uint64_t address)
{
	struct places *p = atomic_load(&known);

	if (!p || 2 * (atomic_load(&p->used) + 1) > p->mask)
		p = more_places(p);
	return p && add_place(p, address);
}

/* When an address is seen for the first time, writes its module and its place to the spool. Without
 * memory for the table this is left to the recorder's lookup of symbols. */
static void know(struct writer *w, uint64_t address, uintptr_t slot)
{
	struct memprof_location at[SPOOL_OCAML_PLACES];
	struct records_place place[SPOOL_OCAML_PLACES];
	struct dl_find_object found;
	uint32_t places;

	if (!is_new_place(address))
		return;
	if (!_dl_find_object((void *)(address - 1), &found))
		modules_note(&found);
	places = memprof_places(slot, at, SPOOL_OCAML_PLACES);
	for (uint32_t k = 0; k < places; k++) {
		place[k] = (struct records_place){
		    .function = at[k].function,
		    .file = at[k].file,
		    .line = at[k].line > 0 ? (uint32_t)at[k].line : 0,
		    .first = at[k].first > 0 ? (uint32_t)at[k].first : 0,
		    .last = at[k].last > 0 ? (uint32_t)at[k].last : 0,
		};
	}
	if (places)
		records_place(w, agent_ticks(), address, place, places);
}

/* Puts the stack into ocaml_taken[], from its root. Returns the number of frames. */
static uint32_t take_ocaml_stack(struct writer *w, const struct memprof_block *block)
{
	size_t given = memprof_frames(block->callstack);
	size_t skip = block->skip < given ? block->skip : given, end = given;
	uint32_t n = 0, same = w->ocaml_depth;
	uint64_t *stack = w->ocaml_taken;

	if (given - skip > runtime_blocks.frames) {
		end = skip + runtime_blocks.frames;
		stack[n++] = SPOOL_MARK(SPOOL_MARK_TRUNCATED, 0);
	}
	for (size_t i = end; i-- > skip;) {
		uintptr_t slot = memprof_slot(block->callstack, i);
		uint64_t address = memprof_address(slot);

		if (!address)
			continue;
		if (n >= same || w->ocaml_stack[n] != address) {
			same = 0;
			know(w, address, slot);
		}
		stack[n++] = address;
	}
	return n;
}

/* ---- blocks ---- */

bool ocaml_blocks_allocated(struct writer *w, const struct memprof_block *block, uint32_t heap,
			    intptr_t *kept)
{
	uint32_t depth;

	if (UNLIKELY(!w->packet) && !spool_room(w, 1)) {
		spool_drop_sample(w);
		return false;
	}
	depth = take_ocaml_stack(w, block);
	return runtime_blocks_record(w, block->bytes, block->hits, heap, depth, kept);
}
