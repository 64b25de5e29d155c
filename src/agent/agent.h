/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent: all that runs inside the profiled process. This header is what its files share: the
 * state of the process and of each thread, the settings, the clock, the lock, and "off".
 *
 *   program calls malloc ──> hooks.c ── size < self.sampler.left ──> the real malloc
 *                               │ else (once per interval and thread)
 *                               └─> sampled.c
 *                                     ├─> sampler.c   is it sampled, how often?
 *                                     ├─> walk.c      the stack, from the table of frame rules
 *                                     ├─> records.c   append a record to this thread's packet
 *                                     └─> live.c      remember the block until it is freed
 *
 * In exact mode each allocation and each free takes the shorter way through exact.c. What a program
 * reports about itself (mayfly/mayfly.h) comes in by calls.c: events go to tracks.c, labels to
 * labels.c, blocks of its own allocators to pools.c and reported.c.
 *
 * The files, from the bottom to the top: each needs only files above its own line.
 *
 *	cpu/ unwind/			the CPU and system calls; stacks
 *	live_filter.c			may this block be a live sample?
 *	agent.c				the shared state
 *	dlsym.c image.c slots.c		functions, loaded libraries and their slots
 *	own_malloc.c nested.c real.c	the functions underneath the hooks (own_entries.c: in the executable)
 *	sampler.c live.c		which allocations to sample; the table of live samples
 *	ranges.c			the table of the program's own mappings
 *	settings.c environment.c	the variable MAYFLY; hiding it from the program
 *	spool_request.c			the recorder opens a spool for us
 *	spool_file.c spool.c		the mapped file; packets and their writers
 *	names.c labels.c records.c	copies of texts; labels; records about blocks
 *	fault.c				SIGBUS of the spool
 *	allocator.c			the allocator's own figures
 *	path.c				entering and leaving the sample path
 *	life.c				start, threads, fork
 *	exact.c sampled.c		the two modes
 *	hooks.c sandbox.c load.c	malloc and free; seccomp; the agent's constructor
 *	entries.c redirect.c		the allocators' own functions; leading the executable's to ours
 *	bypass.c			code that would pass the hooks by
 *	linked.c			in static programs, instead of dlsym.c and bypass.c
 *	events/ ocaml/			events and pools; OCaml's heaps
 *	interpreter/ python/ ruby/	languages' frames among the native ones; their allocators
 *
 * Rules of this folder: no call into the program's malloc on the sample path, no stdio, no loader
 * locks, no threads, no signals but that of fault.c. errno is what the real function left. Any failure leads to one
 * state, off (agent_off), in which the hooks only forward.
 */
#ifndef MAYFLY_AGENT_H
#define MAYFLY_AGENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "agent/sampler.h"
#include "format/handover_message.h"
#include "format/spool_format.h"

#define LIKELY(x)   __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define EXPORT	    __attribute__((visibility("default")))
#define HIDDEN	    __attribute__((visibility("hidden"))) /* reached without the offset table */
#define COLD	    __attribute__((noinline, cold))
#define HOT	    __attribute__((hot))
#define INLINE	    inline __attribute__((always_inline))

/* ---- threads ---- */

struct writer; /* spool.h */

enum thread_state {
	THREAD_NEW = 0,	    /* zero-initialised: has not reached the slow path yet */
	THREAD_ACTIVE = 1,  /* sampler runs; writer is acquired with the first event */
	THREAD_EXITING = 2, /* its destructor has run: borrows a writer for each further event */
};

enum busy {
	BUSY_NOT = 0,
	BUSY_SAMPLING = 1,
	BUSY_AGENT = 2, /* starting, forking: allocations are ours and do not count */
};

#define DEFERRED_FREES 32

struct deferred_free {
	uintptr_t block;
	uint64_t ticks;
	uint64_t before_id; /* only a sample older than this is meant */
};

/* Per thread, initial-exec TLS. The sampler comes first: its `left` is the hooks' countdown. */
struct thread {
	struct sampler sampler;
	struct sampler_budget budget;
	struct writer *writer;
	uint32_t tid;
	uint32_t number; /* unique in the process, from 1 */
	uint32_t control_generation;
	uint8_t state;	 /* enum thread_state */
	uint8_t dormant; /* its sampler follows the rule for when recording is off */
	/* enum busy. While the thread is on the sample path, a signal handler that allocates passes
	 * straight through; the sampled blocks that it frees are kept here until the path ends. */
	volatile uint8_t busy;
	volatile uint32_t deferred_count;
	struct deferred_free deferred[DEFERRED_FREES];
	/* See labels.h. The number of labels pushed and not popped; the first of them; 0: one that
	 * is not recorded */
	volatile uint32_t labels;
	volatile uint32_t label[SPOOL_LABELS_MOST];
	uint32_t pool_label;	/* one more label while a pool's block is recorded, or 0 */
	uint64_t label_version; /* changes with each of these */
	void *inside;		/* the block that a guarded realloc works on (nested.h), or NULL */
	void (*free_deferred)(const struct deferred_free *free); /* of the mode in use */
};
#ifndef AGENT_PER_THREAD /* the OCaml library has one for all: it runs under the runtime's lock */
#define AGENT_PER_THREAD __thread __attribute__((tls_model("initial-exec")))
#endif
extern AGENT_PER_THREAD struct thread self;
HIDDEN extern _Atomic uint32_t agent_threads; /* that were ever seen */

/* ---- the process ---- */

enum agent_state {
	AGENT_NEW = 0, /* nothing done yet: allocations pass unseen */
	AGENT_ON = 1,  /* the spool is there */
	AGENT_OFF = 2, /* for good */
};
HIDDEN extern _Atomic uint32_t agent_state;

HIDDEN extern struct spool_header *spool_header; /* of the spool; NULL: there is none */

/* Every allocation and free is recorded, by address (SPOOL_EXACT). Set at the start, for good. */
HIDDEN extern bool agent_exact;

/* A word of an interpreter's that is not 0 from when it begins to end: it then frees what the program has kept,
 * and records of frees say so. agent_ends() notes when. */
HIDDEN extern const volatile uintptr_t *agent_ending_word;
HIDDEN extern _Atomic bool agent_ending_noted;
COLD void agent_ends(void);

/* The bytes from which on mappings are looked at. Set at the start. */
HIDDEN extern uint64_t agent_map_least;

/* Set before a seccomp filter goes live: the agent makes no system call from then on. */
HIDDEN extern _Atomic uint32_t agent_sandboxed;

/* A page that fork() hands to the child as zeros: finds forks that ran no fork handler. */
HIDDEN extern volatile uint32_t *agent_same_process;

#define AGENT_PID_MARK '\1' /* what "%p" becomes, so that a "%25p" can be told from it */

#define AGENT_OCAML_RATE 1e-5

#define AGENT_MAP_EVENTS_OFF  UINT64_MAX
#define AGENT_MAP_BLOCK_LEAST (128u << 10) /* bytes of a mapping that is a block */

struct agent_config {
	char output[4096]; /* the spool's path, absolute; AGENT_PID_MARK stands for the pid */
	/* The first values of the control words, in a spool that the agent makes itself. What
	 * counts afterwards, and in a recorder's spool from the start, stands in the header. */
	uint32_t interval_log2;
	uint32_t overhead;  /* share of a thread's time for samples, in 1/10000; 0: no limit */
	uint64_t max_spool; /* bytes of packets; 0: no limit */
	bool dormant;
	bool no_python; /* neither frames nor blocks of CPython */
	bool no_ruby;	/* no frames of Ruby */

	uint32_t sampler;
	uint32_t target_pid;   /* 0 any; else other processes are traced only with follow */
	uint64_t map_events;   /* the least bytes of a mapping that is recorded, or _OFF */
	double ocaml_rate;     /* samples for each word; 0: OCaml's blocks are not recorded */
	uint32_t ocaml_frames; /* of a stack, that the runtime is asked for */
	uint64_t seed;	       /* 0: from the kernel */
	bool follow, attached;
	bool runtime_events; /* of OCaml 5 are read by the recorder */
	bool last_heap;	     /* the recorder takes a picture of the heap at the exit */
	char handover[HANDOVER_KEY_DIGITS + 1]; /* of the recorder; "": it gives no spools */
	uint64_t seccomp_filters;		/* that the recorder runs under */
	uint64_t recorder_owner,
	    recorder_users; /* its uid, and inode of its user namespace; 0: not known */
	char note[512];	    /* remarks for the user: unknown keys, why something is not recorded */
};
extern struct agent_config agent_config;

/* Adds a remark, `before` and then `text`. What does not fit is cut off. */
void agent_add_note(const char *before, const char *text, size_t length);

/* The one end of every failure. reason: enum spool_off_reason; error: errno or 0. */
void agent_off(uint32_t reason, int error, const char *text);

/* ---- the clock ---- */

HIDDEN extern bool agent_use_tsc; /* ticks are cpu_ticks() */
uint64_t agent_ticks(void);

static inline uint64_t agent_clock_ns(clockid_t clock)
{
	struct timespec t = {0, 0};

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- the lock ---- */

/* For short sections of the sample path. False when it could not be had in some 2 s (in a
 * sandbox, where it cannot sleep, 1 s): its holder has been killed or jumped out of a signal handler;
 * the agent then goes off. */
struct agent_lock {
	_Atomic uint32_t held;
	_Atomic uint32_t forks; /* the number of the fork that its holder makes; 0: none */
};
bool agent_lock(struct agent_lock *lock);
/* If the holder forks: false after so many naps, and the agent stays on. The C library runs the program's
 * handlers for a fork meanwhile, which may wait for what the caller holds. */
bool agent_lock_beside_fork(struct agent_lock *lock, uint32_t naps);
void agent_unlock(struct agent_lock *lock);

#endif
