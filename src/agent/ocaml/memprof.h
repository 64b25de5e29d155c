/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OCaml's own sampler (Gc.Memprof), driven from C. The agent (ocaml.c) and the OCaml library
 * (ocaml/) share this; each finds the runtime's functions in its own way and records what it is
 * told.
 *
 *	runtime samples a block ──> tracker's closure ──> thunk ──> watcher->allocated()
 *	                            moved to the major heap  ───────> watcher->promoted()
 *	                            collected                ───────> watcher->collected()
 *
 * The callbacks run with the lock of the thread's domain held: in OCaml 4 one at a time, in OCaml 5
 * one at a time in each domain, so a watcher may be called by several threads at once, and for a
 * block by another thread than the one that allocated it. Callbacks allocate nothing in the OCaml
 * heap and raise nothing, so neither the collector nor another OCaml thread of the domain runs
 * meanwhile. They return a block that each system thread has one of, which the runtime reads before
 * it calls the next one.
 */
#ifndef MAYFLY_MEMPROF_H
#define MAYFLY_MEMPROF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef intptr_t memprof_value; /* as OCaml has them on 64-bit machines */

#define MEMPROF_INT_VALUE(n) ((memprof_value)((uintptr_t)(n) << 1 | 1))
#define MEMPROF_VALUE_INT(v) ((intptr_t)(v) >> 1)
#define MEMPROF_FIELD(v, i)  (((const memprof_value *)(v))[i])
#define MEMPROF_WORDS(v)     ((size_t)((const uintptr_t *)(v))[-1] >> 10)
#define MEMPROF_NONE	     MEMPROF_INT_VALUE(0) /* unit, too */

/* A place in the source. */
struct memprof_location {
	const char *file, *function;
	int line, first, last; /* characters, counted from the beginning of that line */
};

/* The runtime's functions, filled in before memprof_start(). */
struct memprof_runtime {
	memprof_value (*start)(memprof_value rate, memprof_value frames, memprof_value tracker);
	memprof_value (*stop)(memprof_value unit);
	void *(*debuginfo)(uintptr_t slot);
	void *(*debuginfo_next)(void *debuginfo);
	void (*debuginfo_location)(void *debuginfo, void *loc_info);
	/* caml_c_call of OCaml 5.3 and later. NULL: the runtime is OCaml 4's. */
	void (*c_call)(void);
	/* caml_ml_domain_id of OCaml 5, or NULL. */
	memprof_value (*domain_id)(memprof_value unit);
	/* caml_callback_exn; only memprof_attempt() needs it. */
	memprof_value (*callback)(memprof_value closure, memprof_value argument);
};
extern struct memprof_runtime memprof_runtime;

enum memprof_source { MEMPROF_NORMAL = 0, MEMPROF_MARSHAL = 1, MEMPROF_CUSTOM = 2 };

struct memprof_block {
	uint64_t hits;	/* the number of its words that were chosen */
	uint64_t bytes; /* with the header; custom blocks: what they hold outside the heaps */
	uint64_t words; /* without the header */
	enum memprof_source source;
	bool major;		 /* allocated in the major heap */
	memprof_value callstack; /* see memprof_slot() */
	size_t skip;		 /* frames at its leaf that are not the program's */
};

/*
 * The recording side. *kept is passed to the later calls for the block; the runtime stores it as an
 * OCaml integer, so it has 63 bits. False: the block is not followed.
 */
struct memprof_watcher {
	bool (*allocated)(const struct memprof_block *block, intptr_t *kept);
	void (*promoted)(intptr_t kept);
	void (*collected)(intptr_t kept);
	/* Instead of allocated(), in a domain that has not stopped the profile of an earlier
	 * memprof_prepare(). It may be stopped now. Calls for blocks of such a profile are left out. Or NULL. */
	void (*stale)(void);
};

/* From now on memprof_start() starts profiles of this rate. False: no memory. */
bool memprof_prepare(double rate, const struct memprof_watcher *watcher);
/* All profiles are stale. */
void memprof_end(void);

/*
 * Starts the runtime's sampler; raises in OCaml when it runs already. frames: the most of a
 * callstack. Returns what the runtime's start does: OCaml 4: unit; OCaml 5: the profile, a block of
 * the OCaml heap, which discarding it needs after stop. The collector may move it.
 */
memprof_value memprof_start(uint32_t frames);

/* Calls the function as OCaml would. False: it has raised, and nobody learns of that. */
bool memprof_attempt(memprof_value (*function)(memprof_value unit));

/* True: `profile` is what start of OCaml 5.3 returns for our tracker. False: unknown runtime. */
bool memprof_is_profile(memprof_value profile);

/*
 * A callstack begins at the leaf. Each frame is a slot: the frame's descriptor, whose first word is
 * the return address, or, for the allocating function itself, the debug information of the place,
 * with bit 1 set.
 */
static inline size_t memprof_frames(memprof_value callstack)
{
	return MEMPROF_WORDS(callstack);
}

static inline uintptr_t memprof_slot(memprof_value callstack, size_t i)
{
	return (uintptr_t)MEMPROF_VALUE_INT(MEMPROF_FIELD(callstack, i)) << 1;
}

/* An address like those of C stacks ("address - 1 is the place"); 0: there is none. */
uint64_t memprof_address(uintptr_t slot);

/* The places in the source that the runtime knows for a slot, innermost first when functions were
 * inlined. Returns their number. */
uint32_t memprof_places(uintptr_t slot, struct memprof_location *place, uint32_t most);

#endif
