/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OCaml's own sampler, driven from C: see memprof.h. The tracker and its closures, which the
 * runtime is given, are static blocks; the code of a closure is two or three instructions.
 *
 *	OCaml 4: OCaml and C share a stack		closure ──> thunk ──> called_...()
 *	OCaml 5: OCaml code runs on a fiber's stack	closure ──> thunk ──> caml_c_call, which
 *			changes to the thread's stack ──> called_...()
 */
#include "agent/ocaml/memprof.h"

#include "agent/cpu/cpu.h"
#include "agent/cpu/sys.h"

/* Colour 3 keeps the collector away: in OCaml 4 it is black, in OCaml 5 NOT_MARKABLE. */
#define HEADER(words, tag) ((uintptr_t)(words) << 10 | 3u << 8 | (tag))
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

/* struct caml_loc_info of caml/backtrace_prim.h, with room for more than any version has. `place` is
 * of OCaml 4: line, first, last, inlined; of 5.2 and later: line, first, last line, last from the
 * beginning of that, last from the beginning of the first line, inlined. */
struct loc_info {
	int valid, is_raise;
	const char *file, *function;
	int place[16];
};
#define LOC_UNTOUCHED 0x5eadbeef

static bool read_location(void *debuginfo, struct memprof_location *location)
{
	const uint32_t fields = memprof_runtime.c_call ? 6 : 4;
	struct loc_info l = {.valid = 0};

	/* A runtime that writes another number of fields has another struct. */
	for (uint32_t i = 0; i < 16; i++)
		l.place[i] = LOC_UNTOUCHED;
	memprof_runtime.debuginfo_location(debuginfo, &l);
	if (!l.valid || l.place[fields - 1] == LOC_UNTOUCHED || l.place[fields] != LOC_UNTOUCHED)
		return false;
	*location = (struct memprof_location){
	    .file = l.file,
	    .function = l.function,
	    .line = l.place[0],
	    .first = l.place[1],
	    .last = l.place[fields - 2],
	};
	return true;
}

uint32_t memprof_places(uintptr_t slot, struct memprof_location *place, uint32_t most)
{
	uint32_t places = 0;

	for (void *d = memprof_runtime.debuginfo(slot); d && places < most;
	     d = memprof_runtime.debuginfo_next(d))
		places += read_location(d, &place[places]);
	return places;
}

/* ---- the callbacks ---- */

/* Per thread, since domains run callbacks at the same time. */
static __thread struct {
	uintptr_t header;
	memprof_value kept;
} some = {HEADER(1, 0), MEMPROF_NONE};

static intptr_t numbers;		     /* of trackers */
static memprof_value current = MEMPROF_NONE; /* the number of those that are to run; none */

enum { MINOR, MAJOR, PROMOTED, COLLECTED, CLOSURES };
enum { CLOSURE_CODE, CLOSURE_INFO, CLOSURE_NUMBER };

/* OCaml passes a closure to its code. */
static bool is_stale(memprof_value closure)
{
	return MEMPROF_FIELD(closure, CLOSURE_NUMBER) !=
	       __atomic_load_n(&current, __ATOMIC_RELAXED);
}

static memprof_value keep_value(intptr_t kept)
{
	some.kept = MEMPROF_INT_VALUE(kept);
	return (memprof_value)&some.kept;
}

static memprof_value tell_allocated(memprof_value allocation, memprof_value closure, bool major)
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

	if (__builtin_expect(is_stale(closure), 0)) {
		if (watcher->stale)
			watcher->stale();
		return MEMPROF_NONE;
	}
	/* The header is sampled like the rest. */
	block.bytes = (block.words + (block.source != MEMPROF_CUSTOM)) * sizeof(memprof_value);
	return watcher->allocated(&block, &kept) ? keep_value(kept) : MEMPROF_NONE;
}

/* What OCaml 4 and OCaml 5 call, and the C function that both lead to. */
#define THUNKS(what)                                                                               \
	void memprof_enter_##what(void);                                                           \
	void memprof_enter5_##what(void);                                                          \
	memprof_value memprof_called_##what(memprof_value, memprof_value closure);                 \
	CPU_OCAML_THUNK(memprof_enter_##what, memprof_called_##what);                              \
	CPU_OCAML5_THUNK(memprof_enter5_##what, memprof_called_##what, memprof_c_call)
#define CALLED __attribute__((visibility("hidden"), used))

/* memprof_runtime.c_call, by a name of its own for the thunks. */
extern void (*memprof_c_call)(void);
CALLED void (*memprof_c_call)(void);

THUNKS(minor);
THUNKS(major);
THUNKS(promoted);
THUNKS(collected);
THUNKS(attempt);

CALLED memprof_value memprof_called_minor(memprof_value allocation, memprof_value closure)
{
	return tell_allocated(allocation, closure, false);
}

CALLED memprof_value memprof_called_major(memprof_value allocation, memprof_value closure)
{
	return tell_allocated(allocation, closure, true);
}

CALLED memprof_value memprof_called_promoted(memprof_value kept, memprof_value closure)
{
	if (!is_stale(closure))
		watcher->promoted(MEMPROF_VALUE_INT(kept));
	return keep_value(MEMPROF_VALUE_INT(kept));
}

CALLED memprof_value memprof_called_collected(memprof_value kept, memprof_value closure)
{
	if (!is_stale(closure))
		watcher->collected(MEMPROF_VALUE_INT(kept));
	return MEMPROF_NONE;
}

/* The address of a function, as an integer of OCaml's. */
CALLED memprof_value memprof_called_attempt(memprof_value function, memprof_value closure)
{
	(void)closure;
	return ((memprof_value(*)(memprof_value))MEMPROF_VALUE_INT(function))(MEMPROF_NONE);
}

/* ---- blocks that the runtime is given ---- */

struct closure {
	uintptr_t header;
	void (*code)(void);
	memprof_value info;
	memprof_value number; /* of its trackers */
};

/* The runtime may call these as long as the program runs. */
struct trackers {
	struct closure closure[CLOSURES];
	struct {
		uintptr_t header;
		void *function[5];
	} tracker; /* Gc.Memprof.tracker: alloc_minor, alloc_major, promote, dealloc_minor, dealloc_major */
	struct {
		uintptr_t header;
		double number;
	} rate;
};

static struct trackers first, *latest;

/* The first ones are static, since a program that is not attached to needs no others; the memory of the
 * others is never given back. */
static struct trackers *more_trackers(void)
{
	static struct trackers *room;
	static size_t left;

	if (!latest)
		return &first;
	if (!left) {
		room = sys_memory(CPU_PAGE_LEAST);
		left = room ? CPU_PAGE_LEAST / sizeof(*room) : 0;
	}
	return left ? left--, room++ : NULL;
}

static struct closure make_closure(void (*code)(void), void (*code5)(void), intptr_t number)
{
	return (struct closure){HEADER(3, TAG_CLOSURE), memprof_runtime.c_call ? code5 : code,
				CLOSURE_INFO_1, MEMPROF_INT_VALUE(number)};
}

bool memprof_prepare(double rate, const struct memprof_watcher *by)
{
	struct trackers *t = more_trackers();
	intptr_t number = ++numbers;

	if (!t)
		return false;
	memprof_c_call = memprof_runtime.c_call;
	t->closure[MINOR] = make_closure(memprof_enter_minor, memprof_enter5_minor, number);
	t->closure[MAJOR] = make_closure(memprof_enter_major, memprof_enter5_major, number);
	t->closure[PROMOTED] =
	    make_closure(memprof_enter_promoted, memprof_enter5_promoted, number);
	t->closure[COLLECTED] =
	    make_closure(memprof_enter_collected, memprof_enter5_collected, number);
	t->tracker.header = HEADER(5, 0);
	for (size_t i = 0; i < 5; i++)
		t->tracker.function[i] = &t->closure[i < CLOSURES ? i : COLLECTED].code;
	t->rate.header = HEADER(1, TAG_DOUBLE);
	t->rate.number = rate;
	watcher = by;
	latest = t;
	__atomic_store_n(&current, MEMPROF_INT_VALUE(number), __ATOMIC_RELEASE);
	return true;
}

void memprof_end(void)
{
	__atomic_store_n(&current, MEMPROF_NONE, __ATOMIC_RELEASE);
}

memprof_value memprof_start(uint32_t frames)
{
	return memprof_runtime.start((memprof_value)&latest->rate.number, MEMPROF_INT_VALUE(frames),
				     (memprof_value)&latest->tracker.function);
}

bool memprof_attempt(memprof_value (*function)(memprof_value unit))
{
	static struct closure attempt;
	memprof_value result;

	memprof_c_call = memprof_runtime.c_call;
	attempt = make_closure(memprof_enter_attempt, memprof_enter5_attempt, 0);
	result = memprof_runtime.callback((memprof_value)&attempt.code,
					  MEMPROF_INT_VALUE((uintptr_t)function));
	return (result & 3) != 2;
}

/* Gc.Memprof.t of 5.3: status (0: sampling), rate, what follows from it, frames, the tracker's five. */
enum { PROFILE_STATUS, PROFILE_RATE, PROFILE_TRACKER = 4, PROFILE_FIELDS = 9 };

bool memprof_is_profile(memprof_value profile)
{
	if (profile & 1 || !profile || MEMPROF_WORDS(profile) != PROFILE_FIELDS ||
	    MEMPROF_FIELD(profile, PROFILE_STATUS) != MEMPROF_INT_VALUE(0) ||
	    MEMPROF_FIELD(profile, PROFILE_RATE) != (memprof_value)&latest->rate.number)
		return false;
	for (size_t i = 0; i < 5; i++)
		if (MEMPROF_FIELD(profile, PROFILE_TRACKER + i) !=
		    (memprof_value)latest->tracker.function[i])
			return false;
	return true;
}
