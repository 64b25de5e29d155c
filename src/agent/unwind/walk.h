/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stack capture.
 *
 * walk_capture() follows the call stack through .eh_frame rules kept in a process-wide table from
 * return address to an 8-byte rule, filled on demand. It also uses the thread's previous walk:
 * every stack word that the previous walk read is read again, from the root. As long as they are
 * unchanged, the outer frames are the same, as a walk is a pure function of its start and of the
 * words that it reads.
 *
 * Signal safety: may run in a signal handler as long as one struct walk is not used by two
 * captures at once. No locks shared with the loader, no malloc, no libc call that can block.
 * Never faults: every read lies in memory known to be mapped.
 */
#ifndef MAYFLY_WALK_H
#define MAYFLY_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/cpu/cpu.h"

/* All frames of a stack are kept up to WALK_KEEP. A deeper stack keeps its WALK_ROOT root-most
 * frames, one SPOOL_MARK_ELIDED mark, and from WALK_LEAF_LEAST to WALK_LEAF_MOST leaf-most frames.
 * Where these begin moves by WALK_SEGMENT frames at once, so that the captures of a recursion differ
 * in few frames. */
#define WALK_KEEP	2047u
#define WALK_ROOT	512u
#define WALK_LEAF_MOST	(WALK_KEEP - WALK_ROOT)
#define WALK_LEAF_LEAST 768u
#define WALK_SEGMENT	512u

/* CPU state in the caller of the hook, right after its call instruction returned. */
struct walk_start {
	uintptr_t pc; /* return address */
	uintptr_t sp;
	uintptr_t bp;
};

struct walk_frame {
	uint64_t address; /* return address (pc + 1 where a signal interrupted) or SPOOL_MARK */
	uintptr_t cfa;	  /* the private part: what verification needs */
	uintptr_t bp;
	uintptr_t bp_slot;
	struct cpu_return from;
};

/* A word that a walk has read, and what it held. */
struct walk_word {
	uintptr_t at, value;
};

/* A boundary in the part of a deep stack that frames[] does not have. */
struct walk_mark {
	uintptr_t pc, sp, bp;
	uint32_t number; /* of its frame, counted from the root */
};

#define WALK_MARKS    2048u /* one for each WALK_SEGMENT frames or so; deeper ones have none */
#define WALK_SEGMENTS 8u

/* The words of the WALK_SEGMENT frames just outside of a mark. */
struct walk_segment {
	uint32_t of; /* 1 + the number of the mark; 0: none */
	uint32_t words;
	struct walk_word word[2 * WALK_SEGMENT];
};

/* What is kept of a stack deeper than WALK_KEEP: see "deep stacks" in walk.c. */
struct walk_deep {
	unsigned processor;
	uint64_t left;	   /* when the latest capture ended */
	uint32_t reusable; /* of frames[] */
	uint32_t first;	   /* the leaf part's first frame, counted from the root */
	uint32_t marks;
	struct walk_mark mark[WALK_MARKS]; /* from the root */
	struct walk_mark lap[WALK_MARKS];  /* of a walk under way, from the leaf */
	struct walk_segment segment[WALK_SEGMENTS];
	/* While a walk is under way: */
	uint64_t new_most;   /* frames that may have been entered since the last one */
	uint32_t candidates; /* marks that were not passed yet */
	uint32_t looked_at;  /* words compared, and frames walked that were walked in vain */
	/* Where it met a boundary of the leaf part, and went on as more had to be compared than is kept. `join`
	 * is 0 once the middle is not what it was. */
	struct walk_met {
		uint32_t join, walked;
		uintptr_t bp_slot;
		struct cpu_return from;
	} met;
};

/* One per writer, zero-initialised by its owner (mmap), never shared between threads at a time. */
struct walk {
	uint32_t depth;	      /* frames of the latest capture */
	uint32_t common;      /* root-most frames equal to those of the capture before it */
	uint32_t kept;	      /* of them: those with the same part of the stack, too */
	uint32_t truncated;   /* 1 when frames[0] is a SPOOL_MARK_TRUNCATED mark */
	uint32_t interrupted; /* 1 when a signal handler is on the part that was walked */
	uint32_t
	    looked_at; /* for a stack deeper than WALK_KEEP: frames walked and words compared */
	/* private */
	uint32_t reusable;
	uint32_t generation;
	bool is_deep; /* `deep` tells what to find again */
	uintptr_t stack_low, stack_high;
	struct walk_frame frames[WALK_KEEP + 1]; /* frames[0] is the root */
	struct walk_frame scratch[WALK_KEEP + 1];
	/* The words that frames[] follow from, from the root: one or two for each frame. */
	uint16_t words_end[WALK_KEEP + 1];	/* of frames[0 .. i]: words[0 .. words_end[i]) */
	uint16_t word_frame[2 * WALK_KEEP + 2]; /* the frame of each word */
	struct walk_word words[2 * WALK_KEEP + 2];
	struct walk_deep deep;
};

/* In a hook: `at` is the state in its caller. */
#define WALK_CALLER(at)                                                                            \
	struct walk_start at;                                                                      \
	cpu_caller(at.pc, at.sp, at.bp)

/* Makes the tables; may be called on any thread. false: no memory or no _dl_find_object. */
bool walk_init(void);

/* Whether cpu_ticks_at() counts time at one rate on each CPU. If so, only a part of a deep stack is
 * compared; without it, all. At first: no. */
void walk_trust_ticks(bool trusted);

/* What is outside a frame for which no rule is known. */
enum walk_outside {
	WALK_OUTSIDE_UNKNOWN,
	WALK_OUTSIDE_NOTHING,
	WALK_OUTSIDE_SIGNAL,
	WALK_OUTSIDE_CALL
};

/* Finds it, for a C library without unwind tables; NULL for one that has them. `at` is the state in
 * the frame, and then that in its caller. Memory from at->sp up to high can be read. */
extern enum walk_outside (*walk_without_rule)(struct walk_start *at, uintptr_t high);

/* Forgets the previous walk (another thread takes over the struct, the child of a fork). */
void walk_forget(struct walk *w);

/* Captures. frames[0 .. depth) is the stack from the root to the leaf; frames inside this library
 * are left out. Returns w->common. The caller encodes frames[common .. depth). */
uint32_t walk_capture(struct walk *w, const struct walk_start *start);

/* To be called before and after the real dlclose: rules of unmapped code must not be used again. */
void walk_code_changed(void);

/* After this no system call is made, as a seccomp sandbox will be installed: a stack whose bounds are
 * not known yet is captured as its leaf frame and a truncation mark. */
void walk_enter_sandbox(void);

#endif
