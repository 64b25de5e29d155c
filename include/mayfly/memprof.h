/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mayfly/memprof.h: a statistical memory profiler for runtimes that have a heap of their own:
 * interpreters, virtual machines, game engines. For C11 and C++11; link libmayfly-memprof.
 * doc/EMBEDDING.md leads from nothing to a traced runtime; examples/minigc is a whole one.
 *
 * The host (the runtime) tells the library what it allocates, moves and frees. The library chooses
 * units of memory at random, at a rate, and follows the blocks that they lie in. The client (a
 * profiler: the program, or the one that mayfly_memprof_trace() gives) is called for those.
 *
 *	host                              library                        client
 *	bump-pointer check fails ───────> carved()  ── which blocks? ──┐
 *	free-list, large allocation ────> alloc()   ── which blocks? ──┤
 *	memory outside the heap ────────> external() ──────────────────┤
 *	minor collection ───────────────> moved()   ── sampled ones ───┤
 *	sweep, free, resize ────────────> sweep(), freed(), resized() ─┤
 *	                                                       queue <─┘
 *	safe point ─────────────────────> run() ─────────────────────────> alloc, promote, move,
 *	                                                                   resize, dealloc
 *
 * Units: the host chooses what a unit is, when it creates the profile: words of 8 bytes, or bytes.
 * All sizes here are in units, except those that are called bytes. A block of n units has n_samples
 * with the binomial distribution of n and the rate: each unit is chosen by itself. So n_samples /
 * rate is an unbiased estimate of the block's size, and sums of it are of sums.
 *
 * Ownership: the library copies what it is given. Profiles and threads are freed by destroy() and
 * detach(). What an alloc callback returns belongs to the client until dealloc or discard.
 *
 * Threads: a profile may be used by any number of threads at once; each has attached a `struct
 * mayfly_memprof_thread`, which only one thread uses at a time. So it may stand for a domain whose
 * threads share a lock. No call may be made in a signal handler. After fork() the child has the
 * parent's tracked blocks and may go on, if no other thread was inside a call. It draws samples of its
 * own; where a bump pointer has a limit, after the next one.
 *
 * Errors: functions that return int return 0 or a negative enum mayfly_memprof_error. When there is
 * no memory for a sample it is dropped and counted (mayfly_memprof_get_counts). Nothing aborts.
 *
 * Memory: malloc(), in slow paths only, never the host's heap.
 */
#ifndef MAYFLY_PUBLIC_MEMPROF_H
#define MAYFLY_PUBLIC_MEMPROF_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#ifdef __GNUC__
#pragma GCC visibility push(default)
#endif

enum mayfly_memprof_error {
	MAYFLY_MEMPROF_NO_MEMORY = -1,
	MAYFLY_MEMPROF_INVALID = -2, /* an argument out of its limits */
	MAYFLY_MEMPROF_BUSY = -3,    /* already started; or a callback is running */
	MAYFLY_MEMPROF_ABSENT = -4   /* no such block is tracked; no agent */
};

/* ---- what the client sees ---- */

enum mayfly_memprof_source {
	MAYFLY_MEMPROF_YOUNG = 0,   /* carved from a bump-pointer area */
	MAYFLY_MEMPROF_OLD = 1,	    /* by a free list, or large */
	MAYFLY_MEMPROF_EXTERNAL = 2 /* outside the heap */
};

struct mayfly_memprof_block {
	uint64_t id;	 /* never used twice by a profile; from 1 */
	uintptr_t block; /* its address now; external memory: the token */
	uint64_t size;	 /* in units, now */
	uint64_t n_samples;
	uint32_t kind; /* the host's number: a tag, a type */
	enum mayfly_memprof_source source;
	uint32_t promoted; /* 1: it was young and is old now */
	/* The call stack, leaf first: codes that mayfly_memprof_places() decodes. In `alloc` only. */
	uint32_t depth;
	const uint64_t *frames;
};

#define MAYFLY_MEMPROF_IGNORE ((void *)-1)

/*
 * The client's callbacks; each may be NULL. mayfly_memprof_run() makes them, without a lock, so they
 * may allocate in the host's heap and call every function here. `kept` is what alloc returned. The
 * calls for one block come one after the other: alloc, then promote, move and resize, then dealloc.
 * Several moves, or resizes, of a block between two runs are one call. While a thread is in a
 * callback, what it allocates is not sampled. Each block that the client was told of ends by dealloc
 * or discard, once.
 */
struct mayfly_memprof_tracker {
	void *client; /* the first argument of each */
	/* MAYFLY_MEMPROF_IGNORE: do not follow this block. NULL and all else are kept. */
	void *(*alloc)(void *client, const struct mayfly_memprof_block *block);
	void (*promote)(void *client, const struct mayfly_memprof_block *block, void *kept);
	void (*move)(void *client, const struct mayfly_memprof_block *block, void *kept);
	void (*resize)(void *client, const struct mayfly_memprof_block *block, void *kept);
	void (*dealloc)(void *client, const struct mayfly_memprof_block *block, void *kept);
	/* A block whose alloc has been called is forgotten. mayfly_memprof_discard() and destroy() call
	 * this themselves, and what it allocates then is sampled; run() calls it after a callback of
	 * the block that was running. */
	void (*discard)(void *client, const struct mayfly_memprof_block *block, void *kept);
};

/* A place in the source. Columns are bytes from the beginning of the line, 0: unknown. */
struct mayfly_memprof_place {
	const char *function, *file;
	uint32_t line, first_column, last_column;
	uint32_t inlined; /* 1: into the next place */
};
#define MAYFLY_MEMPROF_PLACES 8u /* the most places of a code */

/* ---- what the host gives ---- */

struct mayfly_memprof_host {
	void *host;	     /* the first argument of each function */
	uint32_t unit_bytes; /* 1 to 64; a power of two */
	uint32_t downwards;  /* 1: bump pointers come down. 0: they go up */
	/*
	 * Puts at most `most` codes of the current call stack, leaf first, into frames, and returns
	 * their number. Called only for a sampled block, in the call that reports it, without a
	 * lock. It must neither allocate in the heap nor call the library. entry: as in
	 * mayfly_memprof_part, else 0. NULL: there are no stacks.
	 */
	uint32_t (*callstack)(void *host, uint32_t entry, uint64_t *frames, uint32_t most);
	/*
	 * Decodes a code: at most `most` places, those of inlined functions first. Called once for
	 * each code, when it is first asked for (for each of the threads that ask at that moment),
	 * without a lock; the texts are copied. Returns the number of places, 0: unknown.
	 */
	uint32_t (*decode)(void *host, uint64_t code, struct mayfly_memprof_place *places,
			   uint32_t most);
};

/* Begins with what the inline functions need; all else is the library's. */
struct mayfly_memprof {
	const uint8_t *maybe; /* by mayfly_memprof_slot_(): 0: no tracked block is there */
};
struct mayfly_memprof_thread {
	uint64_t left; /* units up to and including the next sample of alloc() and external() */
};

/* ---- profiles and threads ---- */

/* A profile, for one heap. NULL: no memory, or `host` is invalid. */
struct mayfly_memprof *mayfly_memprof_create(const struct mayfly_memprof_host *host);
/*
 * Names the heap ("lua") for the reports: its blocks in a trace have the label heap=NAME. To be called
 * before mayfly_memprof_trace(). INVALID: an empty name, or one of more than 63 bytes.
 */
int mayfly_memprof_set_name(struct mayfly_memprof *profile, const char *name);
/* All threads must be detached. Blocks that are still tracked are discarded. */
void mayfly_memprof_destroy(struct mayfly_memprof *profile);

struct mayfly_memprof_options {
	double rate;	 /* the probability of each unit; 0 < rate <= 1 */
	uint32_t frames; /* the most frames of a stack; 0: none, at most 1024 */
	uint64_t seed;	 /* threads attached in the same order draw the same samples */
};

/*
 * Starts sampling in all threads. A thread sees this at its next slow path: when it takes a new
 * limit, and after 1 Mi units of alloc() and external() at the latest. BUSY: not stopped.
 */
int mayfly_memprof_start(struct mayfly_memprof *profile,
			 const struct mayfly_memprof_options *options,
			 const struct mayfly_memprof_tracker *tracker);
/*
 * Starts sampling for the trace of `mayfly record`, at its rate (--ocaml=RATE, per 8 bytes), with the
 * host's frames. Without it for a spool, where the agent is linked into the program (libmayfly.a) and
 * the variable MAYFLY names one. The reports count the blocks as those of a minor and a major heap.
 * ABSENT: there was no agent when the program was loaded, or it does not record such heaps. INVALID: a
 * unit is so large that the rate would be above 1.
 */
int mayfly_memprof_trace(struct mayfly_memprof *profile);
/* No new samples: no further block is tracked after this returns. The tracked blocks still are, so
 * that their callbacks come. Stopping twice is no error. May be called in a callback. */
void mayfly_memprof_stop(struct mayfly_memprof *profile);
/* Forgets all tracked blocks. Those whose callback is running are forgotten after it. */
void mayfly_memprof_discard(struct mayfly_memprof *profile);

struct mayfly_memprof_thread *mayfly_memprof_attach(struct mayfly_memprof *profile);
/* Its young blocks and its queue go to `heir`. heir NULL: its young blocks count as old, its queue
 * goes to the next thread that runs callbacks. BUSY: a callback of this thread is running or
 * suspended. */
int mayfly_memprof_detach(struct mayfly_memprof_thread *thread, struct mayfly_memprof_thread *heir);

/* ---- allocation by a bump pointer ---- */

/*
 * The limit for the allocation check that the host has anyway:
 *
 *	upwards:   if (at + bytes > limit) slow path;	  `end` is the end of the area
 *	downwards: if (at - bytes < limit) slow path;	  `end` is its beginning
 *
 * Returns `end`, or a place before it, so that the block with the next sample fails the check. Call
 * it with a new area, and after a collection. A limit that the host has set to something else
 * meanwhile (to interrupt the thread) is set again by this. What is left of the last area counts
 * as not allocated.
 */
void *mayfly_memprof_limit(struct mayfly_memprof_thread *thread, void *at, void *end);

/* One block of a combined allocation. */
struct mayfly_memprof_part {
	uintptr_t block; /* what the host calls it later: an address in it */
	uint64_t size;	 /* with its header */
	uint32_t kind;
	uint32_t entry; /* passed to `callstack`, which chooses the block's own place by it */
};

/*
 * The check failed, though the area had room (after a collection, if one was needed), and the host
 * has carved out these blocks: all that the check was for, in the order in which the bump pointer
 * passed them. at: the bump pointer now. Returns the next limit. The blocks must be ones that the
 * collector could scan, as moved() may come before the callbacks.
 */
void *mayfly_memprof_carved(struct mayfly_memprof_thread *thread,
			    const struct mayfly_memprof_part *parts, uint32_t count, void *at,
			    void *end);

/* ---- other allocation ---- */

void mayfly_memprof_alloc_slow(struct mayfly_memprof_thread *thread, uintptr_t block, uint64_t size,
			       uint32_t kind);

/*
 * 1: an old block of this size is not sampled, and has been counted. 0: alloc() is to be called. For
 * hosts that mark a sampled block, in its header or its address, and so need not ask when others are freed.
 */
static inline int mayfly_memprof_passes(struct mayfly_memprof_thread *thread, uint64_t size)
{
	if (size >= thread->left)
		return 0;
	thread->left -= size;
	return 1;
}

/* An old block. One compare and one subtraction unless it is sampled; then its time grows with its
 * n_samples. */
static inline void mayfly_memprof_alloc(struct mayfly_memprof_thread *thread, uintptr_t block,
					uint64_t size, uint32_t kind)
{
	if (!mayfly_memprof_passes(thread, size))
		mayfly_memprof_alloc_slow(thread, block, size, kind);
}

/*
 * Memory outside the heap that a block of the heap owns. Its size in units is rounded up. Returns a
 * token for external_freed(), 0: not sampled.
 */
uint64_t mayfly_memprof_external(struct mayfly_memprof_thread *thread, size_t bytes, uint32_t kind);
void mayfly_memprof_external_freed(struct mayfly_memprof_thread *thread, uint64_t token);

/* ---- what becomes of blocks ---- */

enum mayfly_memprof_fate {
	MAYFLY_MEMPROF_DIED = 0,
	MAYFLY_MEMPROF_STAYS_YOUNG = 1,
	MAYFLY_MEMPROF_PROMOTED = 2
};

/*
 * After a minor collection has copied, and before the old copies are overwritten: `fate` is called
 * for each sampled young block of the thread, and sets *block to where it is now. One pass over
 * sampled young blocks only. `fate` must not call the library.
 */
void mayfly_memprof_moved(struct mayfly_memprof_thread *thread,
			  enum mayfly_memprof_fate (*fate)(void *context, uintptr_t *block),
			  void *context);

/*
 * After marking, before sweeping: `alive` is called for each sampled old block of the heap, not for
 * external memory, and returns 0 for those that the sweep will free. A compacting collector sets
 * *block to the new address. `alive` must not call the library.
 */
void mayfly_memprof_sweep(struct mayfly_memprof_thread *thread,
			  int (*alive)(void *context, uintptr_t *block), void *context);

void mayfly_memprof_freed_slow(struct mayfly_memprof_thread *thread, uintptr_t block);

static inline uint32_t mayfly_memprof_slot_(uintptr_t block)
{
	return (uint32_t)(((uint64_t)block * 0x9e3779b97f4a7c15u) >> 48);
}

/* 0: the block is certainly not tracked. */
static inline int mayfly_memprof_maybe(const struct mayfly_memprof *profile, uintptr_t block)
{
	const uint8_t *at = &profile->maybe[mayfly_memprof_slot_(block)];
#ifdef __GNUC__
	return __atomic_load_n(at, __ATOMIC_RELAXED) != 0;
#else
	return *(const volatile uint8_t *)at != 0;
#endif
}

/* One block is about to be freed: for heaps without a collector. A multiplication and a load unless
 * it is tracked. Before its memory can be handed out again. */
static inline void mayfly_memprof_freed(const struct mayfly_memprof *profile,
					struct mayfly_memprof_thread *thread, uintptr_t block)
{
	if (mayfly_memprof_maybe(profile, block))
		mayfly_memprof_freed_slow(thread, block);
}

/* A block has another size and perhaps another address (old_block: the one before). Before the memory
 * at old_block can be handed out again. It keeps its samples: those of units that were added are not
 * drawn. ABSENT: not tracked. */
int mayfly_memprof_resized(struct mayfly_memprof_thread *thread, uintptr_t old_block,
			   uintptr_t block, uint64_t size);

/* ---- callbacks ---- */

/* There is something to run: one load. A host may test this at its safe points. */
int mayfly_memprof_pending(const struct mayfly_memprof_thread *thread);

/*
 * Makes the callbacks of the thread's queue, where the host may run any code. Returns their number.
 * In a callback it does nothing and returns 0.
 */
uint32_t mayfly_memprof_run(struct mayfly_memprof_thread *thread);

/*
 * A callback was left by longjmp() or an exception: call this before the thread's next call here.
 * The callback counts as made: after a broken alloc the block is tracked, with `kept` NULL.
 */
void mayfly_memprof_unwound(struct mayfly_memprof_thread *thread);

/*
 * For hosts whose own threads share one `thread`. When such a thread is suspended in a callback and
 * another goes on: returns the callback that the one was in, and sets that of the other (NULL: in
 * none). Callbacks of other blocks may then run; those of the suspended one's block wait for it. The
 * callback of a thread that will not go on is ended by a switch to it and mayfly_memprof_unwound().
 */
void *mayfly_memprof_switch(struct mayfly_memprof_thread *thread, void *callback);

/* ---- frames ---- */

/* The places of a code; *count is set, 0: unknown. They stay until the profile is destroyed, or the
 * code is forgotten. */
const struct mayfly_memprof_place *mayfly_memprof_places(struct mayfly_memprof *profile,
							 uint64_t code, uint32_t *count);
/* The code may stand for something else from now on (its function was unloaded). No other thread
 * may be using its places, or asking for them. Stacks of blocks whose alloc has not been called may
 * have the code: run the queues before, or `decode` is asked for it once more. */
void mayfly_memprof_forget_code(struct mayfly_memprof *profile, uint64_t code);

/* ---- looking in ---- */

struct mayfly_memprof_counts {
	uint64_t tracked; /* blocks now, also those whose dealloc waits in a queue */
	uint64_t dropped; /* samples for which there was no memory */
	uint64_t decoded; /* calls of `decode` */
};
void mayfly_memprof_get_counts(struct mayfly_memprof *profile,
			       struct mayfly_memprof_counts *counts);
/* Calls `each` for the tracked blocks, except those that have died. It must not call the library. */
void mayfly_memprof_each(struct mayfly_memprof *profile,
			 void (*each)(void *context, const struct mayfly_memprof_block *block),
			 void *context);

/* ---- between the library and mayfly's agent: programs must not use this ---- */

struct mayfly_agent_heaps {
	size_t size; /* of this table; members may be added at the end */
	/* Samples for each 8 bytes; 0: no such blocks are recorded. Sets the most frames of a stack. */
	double (*begin)(uint32_t *frames);
	/* Another number: the addresses of place() are not known any more (a fork). */
	uint64_t (*generation)(void);
	/* An address for what a code stands for. */
	uint64_t (*place)(const struct mayfly_memprof_place *places, uint32_t count);
	/* addresses: leaf first. Returns what promoted() and freed() get; 0: not recorded. */
	uint64_t (*allocated)(const struct mayfly_memprof_block *block, uint64_t bytes,
			      const uint64_t *addresses);
	void (*promoted)(uint64_t kept);
	void (*freed)(uint64_t kept);
	/* allocated(), in a heap of this name. */
	uint64_t (*allocated_in)(const char *heap, const struct mayfly_memprof_block *block,
				 uint64_t bytes, const uint64_t *addresses);
};

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
