/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing the spool: packets, and one writer for each thread that records.
 *
 * A writer belongs to one thread at a time and is handed on when the thread ends, so memory follows
 * the number of threads that record at once. Functions that take a writer are called by its owner
 * with self.busy set.
 */
#ifndef MAYFLY_SPOOL_H
#define MAYFLY_SPOOL_H

#include <string.h>

#include "agent/agent.h"
#include "agent/cpu/cpu.h"
#include "agent/fields.h"
#include "agent/spool_file.h"
#include "agent/unwind/walk.h"

struct mixing; /* interpreter.c */

struct writer {
	struct spool_packet *packet; /* NULL: none, and at == end */
	uint8_t *at, *end;	     /* in the packet's body */
	uint64_t last_ticks, last_id, clock_ticks;
	uint64_t last_address;	/* SPOOL_TURN()ed */
	uint64_t newest_ticks;	/* exact: of its last record, since there are threads */
	uintptr_t newest_block; /* exact: of its last ALLOC, whatever records came after it */
	int64_t new_blocks;	/* exact: allocated less released, not told to allocator.h yet */
	uint32_t depth;		/* frames of the packet's current stack */
	bool stack_known;	/* the packet's stack is the walk's latest capture */
	bool ocaml_known;	/* the packet's stack is the latest one in ocaml_stack */
	uint32_t interval_log2;
	uint32_t lost_samples, lost_frees, lost_events; /* dropped since the last record */
	uint32_t control_generation, control_interval;	/* at its last event */
	struct writer *next;				/* in the pool */
	struct writer *older;				/* of all */
	uint32_t number;
	uint32_t tid;
	char name[16];	       /* of the thread, as last recorded */
	struct mixing *mixing; /* of interpreter.c, to make the next `mixed` */
	bool is_mixed;
	uint32_t mixed_depth, mixed_common;
	uint32_t ocaml_depth, ocaml_slots, ocaml_elided;
	uint32_t ocaml_places; /* which set of known places the frames of ocaml_stack are in */
	/* The labels in force in the packet (of self.label_version), and which TYPE and LABEL
	 * records the packet has. */
	uint64_t label_version;
	uint32_t label_count;
	bool labels_said, types_said;
	/* Large arrays last: a thread that needs none of them does not touch their pages. */
	uint32_t label[SPOOL_LABELS_MOST];
	uint8_t label_said[SPOOL_LABEL_IDS / 8]; /* bits */
	bool type_said[SPOOL_EVENT_TYPES];
	/* The latest stack of a runtime's heap, from the root, with its marks; and, of its root-most frames,
	 * what OCaml's runtime has for them, in its order: the root is the last. */
	uint64_t ocaml_stack[SPOOL_MAX_FRAMES];
	uint64_t ocaml_slot[SPOOL_OCAML_FRAMES];
	/* With an interpreter: the latest capture with its frames in it, from the root. */
	uint64_t mixed[SPOOL_MAX_FRAMES];
	uint64_t cache[SPOOL_CACHE_SIZE];
	struct walk walk;
};

/* Opens (or makes) the spool named by agent_config.output. False: *reason, *error say why. */
bool spool_open(uint32_t *reason, int *error);
/* The child of a fork: a spool of its own that refers to the parent's, and to its FORK record. */
bool spool_open_child(uint64_t fork_ticks, uint32_t *reason, int *error);

/* Where the live samples of the program are (live.h): the header of this spool and of later ones says it. The
 * OCaml library has no such table, and does not call this. */
void spool_tell_live(uint64_t where);

/* Takes the mapped spool away from under all threads: what they still write is lost, and harms nobody.
 * The agent is off. Later another spool may take its place. */
void spool_leave(void);
bool spool_open_again(uint32_t *reason, int *error);

struct writer *spool_acquire(void);	   /* NULL: no memory */
void spool_release(struct writer *writer); /* also writes the thread's last name */

/* Makes room for a record of `bytes`, in the packet or in a new one, whose state is then empty.
 * False: the record must be dropped; a later record may try again. errno is kept. */
bool spool_make_room(struct writer *w, size_t bytes);

/* Bytes in the packet; fewer than 0 when spool_open_again() has taken the packet in the middle of a
 * record. */
static inline ptrdiff_t spool_left(const struct writer *w)
{
	return w->end - w->at;
}

static inline bool spool_room(struct writer *w, size_t bytes)
{
	return LIKELY(spool_left(w) >= (ptrdiff_t)bytes) || spool_make_room(w, bytes);
}

#define SPOOL_FRAME_BYTES  10u /* the most that a frame takes */
#define SPOOL_RECORD_BYTES 80u /* the most of all other fields of a record, without its texts */

/* The number of root-most frames that the latest capture shares with the packet's current stack. */
static inline uint32_t spool_common(const struct writer *w)
{
	if (!w->stack_known)
		return 0;
	return UNLIKELY(w->is_mixed) ? w->mixed_common : w->walk.common;
}

/* The number of frames of the latest capture. */
static inline uint32_t spool_depth(const struct writer *w)
{
	return UNLIKELY(w->is_mixed) ? w->mixed_depth : w->walk.depth;
}

/* Makes room for `bytes` and the frames of the latest capture: all of them, in a new packet. */
static inline bool spool_stack_room(struct writer *w, size_t bytes)
{
	size_t frames = spool_depth(w) - spool_common(w);

	return LIKELY(spool_left(w) >= (ptrdiff_t)(bytes + frames * SPOOL_FRAME_BYTES)) ||
	       (spool_make_room(w, bytes + frames * SPOOL_FRAME_BYTES) &&
		spool_room(w, bytes + (spool_depth(w) - spool_common(w)) * SPOOL_FRAME_BYTES));
}

/* Adds the frames of an interpreter to the latest capture; NULL: there is none. */
HIDDEN extern void (*spool_mix)(struct writer *w);

static inline void spool_capture(struct writer *w, const struct walk_start *at)
{
	walk_capture(&w->walk, at);
	if (UNLIKELY(spool_mix))
		spool_mix(w);
}

void spool_drop_sample(struct writer *w);
void spool_drop_free(struct writer *w);
void spool_drop_event(struct writer *w); /* NULL: there is none */
void spool_tell_gap(struct writer *w);	 /* recording may have been dormant meanwhile */

/* A clock pair about once a second, so that ticks can be converted to nanoseconds however the
 * program ends. */
#define SPOOL_CLOCK_TICKS (CPU_TICKS_PER_NS * 1000000000u)
void spool_note_clock(struct writer *w);

static inline void spool_check_clock(struct writer *w, uint64_t ticks)
{
	if (UNLIKELY(ticks - w->clock_ticks >= SPOOL_CLOCK_TICKS))
		spool_note_clock(w);
}

/* Makes all that was put since the last commit part of the spool. */
static inline void spool_commit(struct writer *w)
{
	atomic_store_explicit(&w->packet->used,
			      (uint32_t)(w->at - (uint8_t *)w->packet - sizeof(*w->packet)),
			      memory_order_release);
}

/* ---- fields: see the records in format/spool_format.h ---- */

static inline void spool_put_u(struct writer *w, uint64_t number)
{
	w->at = put_u(w->at, number);
}

static inline void spool_put_q(struct writer *w, uint64_t number)
{
	memcpy(w->at, &number, 8);
	w->at += 8;
}

static inline void spool_put_time(struct writer *w, uint64_t ticks)
{
	spool_put_u(w, zigzag(ticks - w->last_ticks));
	w->last_ticks = ticks;
}

static inline void spool_put_id(struct writer *w, uint64_t id)
{
	spool_put_u(w, zigzag(id - w->last_id));
	w->last_id = id;
}

static inline void spool_put_text(struct writer *w, const char *text, size_t length)
{
	spool_put_u(w, length);
	memcpy(w->at, text, length);
	w->at += length;
}

static inline uint8_t *spool_put_frame(struct writer *w, uint8_t *at, uint64_t address)
{
	uint32_t slot = spool_cache_slot(address);
	uint16_t code = (uint16_t)slot;

	if (UNLIKELY(w->cache[slot] != address)) {
		w->cache[slot] = address;
		__builtin_memcpy(at + 2, &address, 8);
		code = SPOOL_FRAME_LITERAL;
		__builtin_memcpy(at, &code, 2);
		return at + 10;
	}
	__builtin_memcpy(at, &code, 2);
	return at + 2;
}

/* Puts the frames of the latest capture that come after the `common` ones. */
static inline uint8_t *spool_put_stack(struct writer *w, uint8_t *at, uint32_t common)
{
	uint32_t depth = spool_depth(w);

	if (UNLIKELY(w->is_mixed)) {
		for (uint32_t i = common; i < depth; i++)
			at = spool_put_frame(w, at, w->mixed[i]);
		return at;
	}
	for (uint32_t i = common; i < depth; i++)
		at = spool_put_frame(w, at, w->walk.frames[i].address);
	return at;
}

/* ---- the whole spool ---- */

/* One more remark for the user. */
void spool_note(const char *text);

/* Called for each object whose code is first found on a stack. NULL: nobody wants to know. */
extern void (*spool_on_module)(uint64_t start);

/* Writes a MODULE record for each module known: into the spool of a forked child, for example. */
void spool_tell_modules(void);

/* Writes a FORK record; returns its ticks. spool_fork_room() makes room for it before the lock of
 * the live blocks is taken. The spool's own locks are not held during the fork, which may wait for
 * an allocator's lock whose holder is waiting for the spool. spool_forget() is for the child, which
 * drops all that it has inherited, locks included. */
bool spool_fork_room(struct writer *w);
uint64_t spool_fork(struct writer *w);
void spool_forget(void);

/* At exit(): the clock pair that makes times exact to the end. */
void spool_end(void);
/* The program is about to exit with this status. */
void spool_exited(int status);
/* It is about to become the program at this path by exec; NULL: that has failed. */
void spool_executed(const char *path);

#endif
