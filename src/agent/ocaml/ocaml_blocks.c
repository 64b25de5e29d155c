/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sampled blocks of OCaml's heaps: their records, stacks, and the source places of the stacks.
 */
#include "agent/ocaml/ocaml_blocks.h"

#include <dlfcn.h>
#include <string.h>
#include <sys/mman.h>

#include "agent/cpu/sys.h"
#include "agent/records.h"
#include "agent/unwind/modules.h"

struct ocaml_blocks ocaml_blocks = {
    .rate = AGENT_OCAML_RATE,
    .interval_log2 = SPOOL_INTERVAL_DEFAULT_LOG2,
    .interval_bytes = 800000,
    .frames = 128,
};

void ocaml_blocks_set_rate(double rate)
{
	double least = sizeof(memprof_value) / (double)(1ull << SPOOL_INTERVAL_MAX_LOG2), bytes;
	uint32_t log2 = 0;

	if (rate < least)
		rate = least;
	bytes = sizeof(memprof_value) / rate;
	while (log2 < SPOOL_INTERVAL_MAX_LOG2 && bytes >= (double)(2ull << log2))
		log2++;
	ocaml_blocks.rate = rate;
	ocaml_blocks.interval_log2 = log2;
	ocaml_blocks.interval_bytes = (uint64_t)bytes;
}

void ocaml_blocks_tell_rate(void)
{
	uint64_t bits;

	memcpy(&bits, &ocaml_blocks.rate, sizeof(bits));
	atomic_store(&spool_header->ocaml_rate, bits);
	atomic_store(&spool_header->ocaml_interval_log2, ocaml_blocks.interval_log2);
}

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

	if (given - skip > ocaml_blocks.frames) {
		end = skip + ocaml_blocks.frames;
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

/* `kept` holds a block's id and, for the sum of live bytes, its hits. */
#define ID_BITS	  44
#define HITS_MOST ((1u << (62 - ID_BITS)) - 1)

static int64_t ocaml_weight(uint64_t hits)
{
	return (int64_t)((hits < HITS_MOST ? hits : HITS_MOST) * ocaml_blocks.interval_bytes);
}

static uint64_t id_of(intptr_t kept)
{
	return (uint64_t)kept & ((1ull << ID_BITS) - 1);
}

void ocaml_blocks_drop(void)
{
	struct spool_header *h = spool_header;

	if (h) /* none in a child that is not followed */
		atomic_fetch_add_explicit(&h->dropped_samples, 1, memory_order_relaxed);
}

bool ocaml_blocks_record(struct writer *w, uint64_t bytes, uint64_t hits, uint32_t heap,
			 uint32_t depth, intptr_t *kept)
{
	struct spool_header *h = spool_header;
	uint64_t ticks = agent_ticks(), id;

	id = atomic_fetch_add_explicit(&h->next_sample_id, 1, memory_order_relaxed);
	if (!records_ocaml_sample(w, ticks, id, bytes, hits, heap, w->ocaml_taken, depth))
		return false;
	if (hits > HITS_MOST)
		hits = HITS_MOST;
	atomic_fetch_add_explicit(&h->live_bytes, ocaml_weight(hits), memory_order_relaxed);
	atomic_fetch_add_explicit(&h->live_samples, 1, memory_order_relaxed);
	*kept = (intptr_t)(hits << ID_BITS | (id & ((1ull << ID_BITS) - 1)));
	return true;
}

bool ocaml_blocks_allocated(struct writer *w, const struct memprof_block *block, uint32_t heap,
			    intptr_t *kept)
{
	uint32_t depth;

	if (UNLIKELY(!w->packet) && !spool_room(w, 1)) {
		spool_drop_sample(w);
		return false;
	}
	depth = take_ocaml_stack(w, block);
	return ocaml_blocks_record(w, block->bytes, block->hits, heap, depth, kept);
}

void ocaml_blocks_promoted(struct writer *w, intptr_t kept)
{
	if (w)
		records_promote(w, agent_ticks(), id_of(kept));
}

void ocaml_blocks_collected(struct writer *w, intptr_t kept)
{
	struct spool_header *h = spool_header;

	atomic_fetch_sub_explicit(&h->live_bytes, ocaml_weight((uint64_t)kept >> ID_BITS),
				  memory_order_relaxed);
	atomic_fetch_sub_explicit(&h->live_samples, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&h->frees, 1, memory_order_relaxed);
	if (w)
		records_free(w, agent_ticks(), id_of(kept), 0);
	else
		atomic_fetch_add_explicit(&h->dropped_frees, 1, memory_order_relaxed);
}
