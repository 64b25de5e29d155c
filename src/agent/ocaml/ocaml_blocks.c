/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sampled blocks of OCaml's heaps: their stacks, and the source places of the stacks.
 */
#include "agent/ocaml/ocaml_blocks.h"

#include <dlfcn.h>
#include <string.h>
#include <sys/mman.h>

#include "agent/cpu/sys.h"
#include "agent/fields.h"
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
static _Atomic uint32_t known_number; /* how often they were forgotten */

#define PLACES_FIRST 1024u

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
		uint64_t there = atomic_load_explicit(slot, memory_order_relaxed);

		if (!there && atomic_compare_exchange_strong(slot, &there, address)) {
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
	atomic_fetch_add(&known_number, 1);
}

/* True: seen for the first time. False also without memory for the table. */
static bool is_new_place(uint64_t address)
{
	struct places *p = atomic_load(&known);

	if (!p || 2 * (atomic_load(&p->used) + 1) > p->mask)
		p = more_places(p);
	return p && add_place(p, address);
}

/* Writes the module and the place of an address to the spool. */
static COLD void tell_place(struct writer *w, uint64_t address, uintptr_t slot)
{
	struct memprof_location at[SPOOL_OCAML_PLACES];
	struct records_place place[SPOOL_OCAML_PLACES];
	struct dl_find_object found;
	uint32_t places;

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

/* When an address is seen for the first time, its place is told. Without memory for the table this is
 * left to the recorder's lookup of symbols. */
static void know(struct writer *w, uint64_t address, uintptr_t slot)
{
	if (UNLIKELY(is_new_place(address)))
		tell_place(w, address, slot);
}

/* ---- stacks ---- */

#define AT_ONCE 32u /* slots */

/* The number of words, at most `most`, that are the same before both ends. */
static uint32_t same_before(const uint64_t *end, const uint64_t *other, uint32_t most)
{
	uint32_t n = 0;

	while (most - n >= AT_ONCE &&
	       !memcmp(end - n - AT_ONCE, other - n - AT_ONCE, AT_ONCE * sizeof(*end)))
		n += AT_ONCE;
	while (n < most && *(end - n - 1) == *(other - n - 1))
		n++;
	return n;
}

/* A stack as the runtime gives it, and which of it is kept. */
struct ocaml_stack {
	const uint64_t *slot; /* from the leaf */
	uint32_t slots;
	bool cut;	     /* the runtime gave no more */
	uint32_t root, leaf; /* frames that are kept at these ends; leaf 0: all are in `root` */
};

/* Where the leaf part of a deep stack begins moves by this many frames at once, so that the stacks of a
 * recursion differ in few frames. */
#define SEGMENT 512u

static struct ocaml_stack given_stack(const struct memprof_block *block)
{
	size_t given = memprof_frames(block->callstack);
	size_t skip = block->skip < given ? block->skip : given;
	struct ocaml_stack s = {.slot = (const uint64_t *)block->callstack + skip};
	uint32_t most = SPOOL_OCAML_FRAMES - SPOOL_OCAML_ROOT, beyond;

	s.cut = given - skip > runtime_blocks.frames;
	s.slots = s.cut ? runtime_blocks.frames : (uint32_t)(given - skip);
	s.root = s.slots;
	if (s.slots > SPOOL_OCAML_FRAMES) {
		s.root = SPOOL_OCAML_ROOT;
		beyond = s.slots - s.root - most;
		s.leaf = s.slots - s.root - (beyond + SEGMENT - 1) / SEGMENT * SEGMENT;
	}
	return s;
}

static uint32_t elided(const struct ocaml_stack *s)
{
	return s->slots - s->root - s->leaf;
}

/* The number of root-most kept frames that are those of the stack before. Slots are compared, not
 * addresses: most of a deep stack is as before, and a slot always has the same address. */
static uint32_t same_as_before(const struct writer *w, const struct ocaml_stack *s)
{
	const uint64_t *end = w->ocaml_slot + SPOOL_OCAML_FRAMES;
	bool was_cut = w->ocaml_depth && w->ocaml_stack[0] == SPOOL_MARK(SPOOL_MARK_TRUNCATED, 0);
	uint32_t most = s->root + s->leaf < w->ocaml_slots ? s->root + s->leaf : w->ocaml_slots;
	uint32_t same;

	if (s->cut != was_cut)
		return 0;
	if (elided(s) != w->ocaml_elided && most > SPOOL_OCAML_ROOT)
		most = SPOOL_OCAML_ROOT;
	same = same_before(s->slot + s->slots, end, most < s->root ? most : s->root);
	if (s->leaf && same == s->root)
		same += same_before(s->slot + s->leaf, end - same, most - same);
	return same;
}

/* Remembers the kept slots, of which `same` are there. */
static void keep_slots(struct writer *w, const struct ocaml_stack *s, uint32_t same)
{
	uint64_t *end = w->ocaml_slot + SPOOL_OCAML_FRAMES;
	uint32_t in_root = same < s->root ? same : s->root;

	memcpy(end - s->root, s->slot + s->slots - s->root, (s->root - in_root) * sizeof(*s->slot));
	memcpy(end - s->root - s->leaf, s->slot, (s->leaf - (same - in_root)) * sizeof(*s->slot));
	w->ocaml_slots = s->root + s->leaf;
	w->ocaml_elided = elided(s);
}

/* Once: that the user's limit has cut a stack. */
static COLD void tell_limit(void)
{
	static atomic_flag told = ATOMIC_FLAG_INIT;
	static const char before[] = "OCaml stacks of more frames lack their root: ocaml_frames=";
	char text[sizeof(before) + 20];
	size_t n = sizeof(before) - 1;

	if (atomic_flag_test_and_set(&told))
		return;
	memcpy(text, before, sizeof(before));
	text[n + put_decimal(text + n, runtime_blocks.frames)] = 0;
	spool_note(text);
}

/*
 * Puts the stack into w->ocaml_stack, from its root. Returns the number of its root-most frames and marks
 * that the one before had, too.
 */
static uint32_t take_ocaml_stack(struct writer *w, const struct memprof_block *block)
{
	struct ocaml_stack s = given_stack(block);
	uint32_t same = same_as_before(w, &s), kept = s.root + s.leaf, n, common;

	keep_slots(w, &s, same);
	if (UNLIKELY(s.cut)) {
		tell_limit();
		w->ocaml_stack[0] = SPOOL_MARK(SPOOL_MARK_TRUNCATED, 0);
	}
	n = s.cut + same + (same > s.root);
	common = same ? n : 0;
	for (uint32_t i = same; i < kept; i++) { /* from the root */
		uint32_t at = i < s.root ? s.slots - 1 - i : kept - 1 - i;
		uintptr_t slot = memprof_slot((memprof_value)s.slot, at);
		uint64_t address = memprof_address(slot);

		if (i == s.root)
			w->ocaml_stack[n++] = SPOOL_MARK(SPOOL_MARK_ELIDED, elided(&s));
		if (address) {
			know(w, address, slot);
			w->ocaml_stack[n++] = address;
		} else if (w->ocaml_slots == kept) {
			w->ocaml_slots = i; /* further ones have other places */
		}
	}
	w->ocaml_depth = n;
	return common;
}

/* ---- blocks ---- */

bool ocaml_blocks_allocated(struct writer *w, const struct memprof_block *block, uint32_t heap,
			    intptr_t *kept)
{
	uint32_t number = atomic_load_explicit(&known_number, memory_order_relaxed);

	if (UNLIKELY(!w->packet) && !spool_room(w, 1)) {
		spool_drop_sample(w);
		return false;
	}
	if (UNLIKELY(w->ocaml_places != number)) {
		w->ocaml_depth = w->ocaml_slots = 0;
		w->ocaml_places = number;
	}
	return runtime_blocks_record(w, block->bytes, block->hits, heap, take_ocaml_stack(w, block),
				     kept);
}
