/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One stack of two: the native frames of a capture, and the frames of an interpreter that run in them.
 *
 *	native frames			the interpreter's own chain		what is written
 *	(each with its part of		(each group ends at an address
 *	the C stack)			on the C stack)
 *	main				module					main
 *	_PyEval_EvalFrameDefault  <──	f					_PyEval_EvalFrameDefault
 *	list_sort						module, f
 *	_PyEval_EvalFrameDefault  <──	key					list_sort
 *	malloc									_PyEval_EvalFrameDefault, key
 *
 * One native call of the evaluator runs a group of frames, those that call one another
 * without C in between. A group has the address of a variable on the C stack of its native call,
 * which tells which native frame it belongs to.
 *
 * Like the walk, this keeps what it made: the outer part of a stack that neither the walk nor the
 * chain has changed is not made again.
 *
 * A struct mixed belongs to one writer, and may be used in a signal handler like it.
 */
#ifndef MAYFLY_MIXED_H
#define MAYFLY_MIXED_H

#include "agent/spool.h"

#define MIXED_FRAMES 1400u /* frames of an interpreter of one stack; the leaf-most ones */
#define MIXED_GROUPS 512u

struct mixed_group {
	uintptr_t anchor; /* on the C stack of its native call */
	uint32_t end;	  /* of its frames, after that of the group before */
};

/* The frames of the interpreter, from the leaf. */
struct mixed_chain {
	uint64_t frame[MIXED_FRAMES];
	struct mixed_group group[MIXED_GROUPS];
	uint32_t frames, groups;
	uint32_t lost; /* frames that did not fit */
};

/* Where the next group goes, after some groups from the root. */
struct mixed_joint {
	uint32_t native; /* the next native frame; MIXED_NOWHERE: after all of them */
	uint32_t depth;	 /* frames in the stack */
};
#define MIXED_NOWHERE UINT32_MAX

/* Zero-initialised by its owner. */
struct mixed {
	struct mixed_chain chain[2];
	uint32_t latest; /* of chain[]: in the writer's stack */
	bool is_whole; /* nothing was taken out of that stack, and joint[] tells where things are */
	uint32_t own;  /* the first native frame of this library, which is left out */
	struct mixed_joint joint[MIXED_GROUPS + 1]; /* by the number of groups before it */
	uint64_t merged[SPOOL_MAX_FRAMES + MIXED_FRAMES + 2];
};

/* The code of this library, whose frames are left out. */
HIDDEN extern uintptr_t mixed_own_start, mixed_own_size;

/* An empty chain, to be filled for mixed_make(). */
static inline struct mixed_chain *mixed_begin(struct mixed *m)
{
	struct mixed_chain *c = &m->chain[!m->latest];

	c->frames = c->groups = c->lost = 0;
	return c;
}

static inline void mixed_put(struct mixed_chain *c, uint64_t address)
{
	if (LIKELY(c->frames < MIXED_FRAMES))
		c->frame[c->frames++] = address;
	else
		c->lost++;
}

/* The frames since the group before are one. */
static inline void mixed_end_group(struct mixed_chain *c, uintptr_t anchor)
{
	if (LIKELY(c->groups < MIXED_GROUPS))
		c->group[c->groups++] = (struct mixed_group){anchor, c->frames};
	else
		c->group[MIXED_GROUPS - 1].end = c->frames;
}

/* Makes w->mixed of w->walk's latest capture and of the chain of the latest mixed_begin(). */
void mixed_make(struct mixed *m, struct writer *w);

#endif
