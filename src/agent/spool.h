/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing the spool: the mapped file, its packets, and one writer for each thread that records.
 *
 * A writer belongs to one thread at a time and is handed on when the thread ends, so memory follows
 * the number of threads that record at once. Functions that take a writer are called by its owner
 * with self.busy set.
 */
#ifndef MAYFLY_SPOOL_H
#define MAYFLY_SPOOL_H

#include "agent.h"
#include "walk.h"

struct writer {
	struct writer *next; /* in the pool */
	uint32_t number;
	uint32_t tid;
	struct spool_packet *packet; /* NULL: none claimed */
	uint8_t *at, *end;	     /* in the packet's body */
	uint64_t last_ticks, last_id, clock_ticks;
	uint32_t interval_log2;
	uint32_t depth;	  /* frames of the packet's current stack */
	bool stack_known; /* the packet's stack is the walk's latest capture */
	uint32_t lost;	  /* samples dropped since the last record */
	char name[16];	  /* of the thread, as last recorded */
	uint64_t cache[SPOOL_CACHE_SIZE];
	struct walk walk;
};

/* Opens (or makes) the spool named by agent_config.output. False: *reason, *error say why. */
bool spool_open(uint32_t *reason, int *error);
/* The child of a fork: a spool of its own that refers to the parent's. */
bool spool_open_child(uint32_t *reason, int *error);
extern struct spool_header *spool_header;

struct writer *spool_acquire(void);	   /* NULL: no memory */
void spool_release(struct writer *writer); /* also writes the thread's last name */

void spool_sample(struct writer *w, uint64_t ticks, uint64_t id, uint64_t size, uint32_t hits,
		  uint32_t flags);
void spool_free(struct writer *w, uint64_t ticks, uint64_t id, uint32_t flags);

/* Fork: nobody writes between the two; the child drops what it inherited. */
void spool_lock(void);
void spool_unlock(void);
void spool_forget(void);

/* exit(): the clock pair, so that times are exact to the end. */
void spool_end(void);

#endif
