/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tracked blocks of a profile, and which callbacks they wait for.
 *
 *	profile ── table: address or token ──> block <── young[] ── thread
 *	   │                                     │ due: alloc, promote, move, resize, dealloc, discard
 *	   └─ orphans ──> block ──> block        └── next_due <── queue ── thread
 *
 * A block with a callback due is in exactly one queue, or a thread is making a callback for it and
 * looks again afterwards. A dead block leaves the table at once, and is freed after its last
 * callback. All functions here are called with the profile's lock held.
 */
#ifndef MAYFLY_TRACKED_H
#define MAYFLY_TRACKED_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "mayfly/memprof.h"
#include "memprof/gaps.h"

/* In the order in which they are made. */
enum due {
	DUE_ALLOC = 1,
	DUE_PROMOTE = 2,
	DUE_MOVE = 4,
	DUE_RESIZE = 8,
	DUE_DEALLOC = 16,
	DUE_DISCARD = 32 /* alone: it was forgotten while a callback was running */
};

/* What one mayfly_memprof_start() began. A host may start again and again. */
struct session {
	struct mayfly_memprof_options options;
	struct mayfly_memprof_tracker tracker;
	size_t users; /* the profile, threads, blocks */
};

struct tracked {
	struct mayfly_memprof_block shown; /* block: as last told to the client, or first */
	uintptr_t now;			   /* its address; external memory: the token */
	uint64_t size_now;
	struct session *session;
	struct profile *profile;
	void *kept;
	struct tracked *chain;	  /* in the table */
	struct tracked *next_due; /* in the queue */
	struct tracked *next_old; /* in a sweep's list */
	struct thread *young_of;  /* NULL: old or external */
	size_t young_at;
	unsigned int due;
	bool dead, queued, running;
	bool told; /* its alloc has been called */
	uint64_t frames[];
};

struct queue {
	struct tracked *first, **last;
};

struct thread {
	struct mayfly_memprof_thread open; /* first: the host has a pointer to it */
	struct profile *profile;
	struct thread *next; /* in the profile */
	struct session *session;
	uint64_t number; /* of its attachment, from 0 */
	uint64_t epoch;	 /* of the profile, when the gaps were begun */
	struct gaps gaps;
	uint64_t bump_left; /* units up to and including the next sample, from `origin` */
	uintptr_t origin;
	bool sampling;
	struct tracked **young;
	size_t young_count, young_room;
	struct queue queue;
	uint64_t list_gap,
	    list_handed;	  /* the rest of the gap when `left` was set, and `left` then */
	_Atomic uint32_t pending; /* there is something in the queue */
	struct tracked *running;  /* its callback is being made */
	unsigned int suspended;	  /* callbacks that others go on beside: mayfly_memprof_switch() */
	uint64_t *frames;	  /* room for a stack */
	uint32_t frames_room;
};

#define MAYBE_SLOTS 65536u

struct profile {
	struct mayfly_memprof open; /* first */
	struct profile *next;	    /* in the list of forks.c */
	struct mayfly_memprof_host host;
	char name[64]; /* "": none */
	pthread_mutex_t lock;
	_Atomic uint64_t epoch; /* odd: sampling */
	struct session *session;
	struct thread *threads;
	uint64_t attached;
	struct tracked **table;
	size_t buckets, used; /* buckets: a power of two */
	uint64_t tracked;     /* also dead ones that wait for callbacks */
	uint64_t next_id;
	_Atomic uint64_t dropped;
	struct queue orphans;
	_Atomic uint32_t orphaned; /* there is something in it */
	struct codes *codes;
	uint8_t maybe[MAYBE_SLOTS];
};

static inline void tracked_lock(struct profile *p)
{
	pthread_mutex_lock(&p->lock);
}

static inline void tracked_unlock(struct profile *p)
{
	pthread_mutex_unlock(&p->lock);
}

/* *at = session. Frees what was there when nobody uses it any more. */
void tracked_use_session(struct session **at, struct session *session);

void tracked_queue_init(struct queue *queue);

/* A new block, with `alloc` due. thread: where it is young if `young`. NULL: no memory. */
struct tracked *tracked_add(struct thread *thread, const struct mayfly_memprof_block *block,
			    bool young);

/* The living block at an address, or of a token. */
struct tracked *tracked_find(struct profile *p, uintptr_t block, bool external);

/* Something happened to it. Its callback comes in the thread's run. */
void tracked_event(struct thread *thread, struct tracked *b, enum due due);
void tracked_died(struct thread *thread, struct tracked *b);

/* The key changes; no callback is due by this. */
void tracked_rekey(struct tracked *b, uintptr_t block);
/* It is not young any more. */
void tracked_leave_young(struct tracked *b);
/* False: no memory; it is old then. */
bool tracked_become_young(struct thread *thread, struct tracked *b);

/* The first of the queue, which is taken out of it; NULL: none. */
struct tracked *tracked_take_due(struct thread *thread);
/* After a callback, or none: waits for the next one, or is freed when it is dead. */
void tracked_put_back(struct thread *thread, struct tracked *b);

/* Removes it from everything but a running callback, after which `discard` comes if it must; without
 * one it is freed. Returns whether the caller must call `discard`: the client has something of this
 * block that no callback will give back to it. */
bool tracked_forget(struct tracked *b);

/* Moves a queue to another, whose thread will make the callbacks. to NULL: to the orphans. */
void tracked_pass_queue(struct thread *from, struct thread *to);
void tracked_adopt(struct thread *thread);

#endif
