/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OCaml's own sampler, driven from C: see memprof.h. The tracker and its closures, which the
 * runtime is given, are static blocks with black headers; the code of a closure is two
 * instructions.
 */
#include "agent/ocaml/memprof.h"

#include "agent/cpu/cpu.h"

#define HEADER(words, tag) ((uintptr_t)(words) << 10 | 3u << 8 | (tag)) /* black: not the GC's */
#define TAG_CLOSURE	   247u
#define TAG_DOUBLE	   253u
#define CLOSURE_INFO_1	   ((memprof_value)((uintptr_t)1 << 56 | 2u << 1 | 1)) /* arity 1 */

/* Gc.Memprof.allocation */
enum { ALLOCATION_SAMPLES, ALLOCATION_SIZE, ALLOCATION_SOURCE, ALLOCATION_CALLSTACK };

struct memprof_runtime memprof_runtime;
static const struct memprof_watcher *watcher;

/* ---- places ---- */

uint64_t memprof_address(uintptr_t slot)
{
	if (!(slot & 2))
		return *(const uintptr_t *)slot;
	return slot - 2 ? slot - 2 + 1 : 0;
}

uint32_t memprof_places(uintptr_t slot, struct memprof_location *place, uint32_t most)
{
	uint32_t places = 0;

	for (void *d = memprof_runtime.debuginfo(slot); d && places < most;
	     d = memprof_runtime.debuginfo_next(d)) {
		memprof_runtime.debuginfo_location(d, &place[places]);
		places += place[places].valid != 0;
	}
	return places;
}

/* ---- the callbacks ---- */

static struct {
	uintptr_t header;
	memprof_value kept;
} some = {HEADER(1, 0), MEMPROF_NONE};

static memprof_value keep_value(intptr_t kept)
{
	some.kept = MEMPROF_INT_VALUE(kept);
	return (memprof_value)&some.kept;
}

static memprof_value tell_allocated(memprof_value allocation, bool major)
{
	struct memprof_block block = {
	    .hits = (uint64_t)MEMPROF_VALUE_INT(MEMPROF_FIELD(allocation, ALLOCATION_SAMPLES)),
	    .words = (uint64_t)MEMPROF_VALUE_INT(MEMPROF_FIELD(allocation, ALLOCATION_SIZE)),
	    .source = (enum memprof_source)MEMPROF_VALUE_INT(
		MEMPROF_FIELD(allocation, ALLOCATION_SOURCE)),
	    .major = major,
	    .callstack = MEMPROF_FIELD(allocation, ALLOCATION_CALLSTACK),
	};
	intptr_t kept;

	/* The header is sampled like the rest. */
	block.bytes = (block.words + (block.source != MEMPROF_CUSTOM)) * sizeof(memprof_value);
	return watcher->allocated(&block, &kept) ? keep_value(kept) : MEMPROF_NONE;
}

/* What OCaml calls, and the C function that it leads to. */
#define THUNK(name, function)                                                                      \
	void name(void);                                                                           \
	memprof_value function(memprof_value);                                                     \
	CPU_OCAML_THUNK(name, function)
#define CALLED __attribute__((visibility("hidden"), used))

THUNK(memprof_enter_minor, memprof_called_minor);
THUNK(memprof_enter_major, memprof_called_major);
THUNK(memprof_enter_promoted, memprof_called_promoted);
THUNK(memprof_enter_collected, memprof_called_collected);

CALLED memprof_value memprof_called_minor(memprof_value allocation)
{
	return tell_allocated(allocation, false);
}

CALLED memprof_value memprof_called_major(memprof_value allocation)
{
	return tell_allocated(allocation, true);
}

CALLED memprof_value memprof_called_promoted(memprof_value kept)
{
	watcher->promoted(MEMPROF_VALUE_INT(kept));
	return keep_value(MEMPROF_VALUE_INT(kept));
}

CALLED memprof_value memprof_called_collected(memprof_value kept)
{
	watcher->collected(MEMPROF_VALUE_INT(kept));
	return MEMPROF_NONE;
}

/* ---- blocks that the runtime is given ---- */

enum { MINOR, MAJOR, PROMOTED, COLLECTED, CLOSURES };

static struct {
	uintptr_t header;
	void (*code)(void);
	memprof_value info;
} closure[CLOSURES] = {
    [MINOR] = {HEADER(2, TAG_CLOSURE), memprof_enter_minor, CLOSURE_INFO_1},
    [MAJOR] = {HEADER(2, TAG_CLOSURE), memprof_enter_major, CLOSURE_INFO_1},
    [PROMOTED] = {HEADER(2, TAG_CLOSURE), memprof_enter_promoted, CLOSURE_INFO_1},
    [COLLECTED] = {HEADER(2, TAG_CLOSURE), memprof_enter_collected, CLOSURE_INFO_1},
};

/* Gc.Memprof.tracker: alloc_minor, alloc_major, promote, dealloc_minor, dealloc_major */
static struct {
	uintptr_t header;
	void *function[5];
} tracker = {HEADER(5, 0),
	     {&closure[MINOR].code, &closure[MAJOR].code, &closure[PROMOTED].code,
	      &closure[COLLECTED].code, &closure[COLLECTED].code}};

static struct {
	uintptr_t header;
	double number;
} rate = {HEADER(1, TAG_DOUBLE), 0};

void memprof_start(double sampling_rate, uint32_t frames, const struct memprof_watcher *by)
{
	watcher = by;
	rate.number = sampling_rate;
	memprof_runtime.start((memprof_value)&rate.number, MEMPROF_INT_VALUE(frames),
			      (memprof_value)&tracker.function);
}
