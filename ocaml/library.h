/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The C half of the OCaml library `mayfly`.
 *
 *	mayfly.ml ──> events.c ──> the agent, or the session in engine.c
 *	mayfly.ml ──> primitives.c ─────────┬─> engine.c ─┬─> to_memtrace.c   a Memtrace file
 *	runtime ──> agent/ocaml/memprof.c ──┘             ├─> to_spool.c      a spool
 *	                                                  └─> the agent       under `mayfly record`
 *
 * Everything runs with the runtime lock of the thread's domain held. In OCaml 5 other domains run
 * meanwhile: the functions of a sink are called with engine_lock() held, and its `calls` take it.
 * Sessions begin and end in one domain at a time. Only primitives.c, events.c and refusing.c include the runtime's headers.
 */
#ifndef MAYFLY_LIBRARY_H
#define MAYFLY_LIBRARY_H

#include "agent/ocaml/memprof.h"

/* The destination of a session's blocks. Functions as struct memprof_watcher. */
struct library_sink {
	bool (*allocated)(const struct memprof_block *block, bool outside, intptr_t *kept);
	void (*promoted)(intptr_t kept);
	void (*collected)(intptr_t kept);
	bool (*failed)(void); /* true: nothing more is recorded */
	/* NULL, or why the file is not complete: static text, valid until the next session. */
	const char *(*close)(void);
	/* In the child of a fork: lets go of the file, which is the parent's. */
	void (*abandon)(void);
	/* Events and labels; NULL: the format has none. */
	const struct mayfly_agent_calls *calls;
};

struct library_memtrace {
	const char *path, *executable, *host, *parameters, *context;
	double rate;
};

struct library_spool {
	const char *output; /* absolute; AGENT_PID_MARK stands for the pid */
	const char *note;
	double rate;	    /* above 0, at most 1 */
	uint64_t max_bytes; /* 0: no limit */
	bool dormant;
};

/* Each opens its file; NULL: *problem says why not. */
const struct library_sink *to_memtrace_open(const struct library_memtrace *how,
					    const char **problem);
const struct library_sink *to_spool_open(const struct library_spool *how, const char **problem);

/* The most frames that a stack may have in a file of the format. */
#define TO_MEMTRACE_FRAMES 400u /* with more, the format could lose the leaf */

/*
 * engine.c. A session goes from engine_begin() to engine_end(), or to a fork: the child has none.
 * Between the two the runtime's sampler is started by the caller.
 */
bool engine_begin(const struct library_sink *sink); /* false: no memory; the sink is closed */
bool engine_running(void);
const char *engine_end(void); /* as library_sink.close */

/* Around what reads or writes a session. Not recursive. */
void engine_lock(void);
void engine_unlock(void);

/* To start the runtime's sampler with. */
extern const struct memprof_watcher engine_watcher;

/* The calls of the session; NULL: there is none, or it takes no events. */
struct mayfly_agent_calls;
const struct mayfly_agent_calls *engine_calls(void);

/* Stops the sampler that a fork has left running in the runtime; before it is started anew. */
void engine_stop_inherited(void);

bool engine_allocated_outside(const struct memprof_block *block, intptr_t *kept);
void engine_freed_outside(intptr_t kept);

/* The number of words from the last sampled word to the next one, that one included. */
int64_t engine_gap(double rate);

/* The rate at which the agent records OCaml's heaps; 0: it does not; negative: there is no agent. */
double engine_agent_rate(void);
uint32_t engine_agent_frames(void); /* of a stack, to ask the runtime for */

#endif
