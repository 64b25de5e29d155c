/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent: all that runs inside the profiled process.
 *
 *   program calls malloc ──> hooks.c ── size < self.sampler.left ──> the real malloc
 *                               │ else (once per interval and thread)
 *                               ├─> sampler.c   is it sampled, how often?
 *                               ├─> walk.c      the stack, from the table of frame rules (cfi.c)
 *                               ├─> live.c      remember the block until it is freed
 *                               └─> spool.c     append a record to this thread's packet
 *
 * In exact mode each allocation and each free takes the shorter way through exact.c. What a program
 * says of itself (mayfly/mayfly.h) comes in by calls.c: events go to tracks.c, labels to labels.c,
 * blocks of its own allocators to pools.c.
 *
 * Rules of this folder: no call into the program's malloc on the sample path, no stdio, no loader
 * locks, no threads, no signals. errno is what the real function left. Any failure leads to one
 * state, off (agent_off), in which the hooks only forward.
 */
#ifndef MAYFLY_AGENT_H
#define MAYFLY_AGENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/sampler.h"
#include "format/spool_format.h"

#define LIKELY(x)   __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define EXPORT	    __attribute__((visibility("default")))
#define COLD	    __attribute__((noinline, cold))
#define HOT	    __attribute__((hot))
#define INLINE	    inline __attribute__((always_inline))

/* The functions underneath. Each starts as a resolver, so it can be called at any time. */
struct real {
	void *(*malloc)(size_t);
	void (*free)(void *);
	void *(*calloc)(size_t, size_t);
	void *(*realloc)(void *, size_t);
	void *(*memalign)(size_t, size_t);
	void *(*aligned_alloc)(size_t, size_t);
	int (*posix_memalign)(void **, size_t, size_t);
	void *(*valloc)(size_t);
	void *(*pvalloc)(size_t);
	size_t (*malloc_usable_size)(void *);
	int (*dlclose)(void *);
	int (*prctl)(int, unsigned long, unsigned long, unsigned long, unsigned long);
	off_t (*lseek)(int, off_t, int);
};
extern struct real real;

void *agent_dlsym(void *handle, const char *name);

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
	uint8_t dormant; /* left counts down to the next look at the control words only */
	/* enum busy. On the sample path a signal handler that allocates meanwhile passes straight
	 * through; the sampled blocks that it frees are put here and handled when the path ends. */
	volatile uint8_t busy;
	volatile uint32_t deferred_count;
	struct deferred_free deferred[DEFERRED_FREES];
	/* See labels.h: those pushed and not popped, of which the first are kept; 0: not recorded
	 */
	volatile uint32_t labels;
	volatile uint32_t label[SPOOL_LABELS_MOST];
	uint32_t pool_label;	/* one more while a pool's block is recorded, or 0 */
	uint64_t label_version; /* changes with each of these */
};
#ifndef AGENT_PER_THREAD /* the OCaml library has one for all: it runs under the runtime's lock */
#define AGENT_PER_THREAD __thread __attribute__((tls_model("initial-exec")))
#endif
extern AGENT_PER_THREAD struct thread self;

/* agent.c */
enum agent_state {
	AGENT_NEW = 0, /* nothing done yet: allocations pass unseen */
	AGENT_ON = 1,  /* the spool is there */
	AGENT_OFF = 2, /* for good */
};
extern _Atomic uint32_t agent_state;

/* Every allocation and free is recorded, by address (SPOOL_EXACT). Set at the start, for good. */
extern bool agent_exact;

#define AGENT_PID_MARK '\1' /* what "%p" becomes, so that a "%25p" can be told from it */

struct agent_config {
	char output[4096]; /* the spool's path, absolute; AGENT_PID_MARK stands for the pid */
	uint32_t interval_log2;
	uint32_t sampler;
	uint32_t target_pid; /* 0 any; else other processes are traced only with follow */
	uint32_t overhead;   /* share of a thread's time for samples, in 1/10000; 0: no limit */
	uint64_t max_spool;  /* bytes of packets; 0: no limit */
	uint64_t map_events; /* the least bytes of a mapping that is recorded */
	uint64_t seed;	     /* 0: from the kernel */
	bool follow, dormant;
	char note[512]; /* remarks for the user: unknown keys, why something is not recorded */
};
extern struct agent_config agent_config;

/* One more remark: `before` and then `text`. */
void agent_add_note(const char *before, const char *text, size_t length);

/* Brings the agent up when the process is far enough for it. True when it is on. */
bool agent_start(void);

/* The one end of every failure. reason: enum spool_off_reason; error: errno or 0. */
void agent_off(uint32_t reason, int error, const char *text);

/* Prepares self for its first event, applies changed control words, notices a fork. False when
 * nothing is to be recorded now; self.sampler.left has been set to a sensible countdown. */
bool agent_thread_ready(void);

/* True while switched off by its control words: nothing is sampled, frees of samples still count.
 */
bool agent_dormant(void);

/* True once when this process is a fork()ed copy that the agent has not adapted to yet. */
bool agent_forked(void);

/* A page that fork() hands to the child as zeros: finds forks that ran no fork handler. */
extern volatile uint32_t *agent_same_process;

uint64_t agent_ticks(void);
extern bool agent_use_tsc; /* ticks are cpu_ticks() */

extern _Atomic uint32_t agent_threads; /* that were ever seen */

/* A lock for short sections of the sample path. False when it could not be had in about 100 ms:
 * its holder has been killed or jumped out of a signal handler; the agent then goes off. */
struct agent_lock {
	_Atomic uint32_t held;
};
bool agent_lock(struct agent_lock *lock);
void agent_unlock(struct agent_lock *lock);

/* environment.c */
void environment_hide(void);
void environment_start(void);

/* Set before a seccomp filter goes live: no system call is made by the agent from then on. */
extern _Atomic uint32_t agent_sandboxed;
void agent_enter_sandbox(void);

#endif
