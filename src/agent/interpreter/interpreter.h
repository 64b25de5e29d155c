/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Languages that are interpreted in the profiled process: what one has to say, so that its frames are in
 * the stacks and its allocator's blocks are seen. A language is one struct interpreter, in the list of
 * interpreter.c.
 *
 * Its library is looked for when the agent is loaded and, as long as there is none, after each dlopen; it
 * then stays loaded. The first language that is found is the one whose frames are shown.
 */
#ifndef MAYFLY_INTERPRETER_H
#define MAYFLY_INTERPRETER_H

#include "agent/interpreter/code_objects.h"
#include "agent/interpreter/library.h"
#include "agent/interpreter/mixed.h"

/* What a stack is made with. */
struct interpreter_stack {
	struct writer *w; /* w->walk is the native stack */
	struct codes_latest *codes;
	struct mixed_chain *chain; /* where frames and groups go, from the leaf */
	uintptr_t *own;		   /* 4 words of the writer's for the language, zero at first */
};

struct interpreter {
	const char *language;
	const char *symbol;   /* what its library exports, and no other */
	const bool *unwanted; /* the user's setting */
	/* Does this process have it in a version that can be read? NULL, or why not. Called once. */
	const char *(*find)(const struct interpreter_library *in);
	/* Which frames belong between which native ones: puts those of this thread by mixed_put() and
	 * mixed_end_group(), with addresses of code_objects.h. On the sample path: no lock of the program's or
	 * the loader's, no call that allocates; may run in a signal handler. */
	void (*take)(const struct interpreter_stack *s);
	/* The allocator that it brings: puts wrappers around it, again after they were taken away.
	 * False: others are in place. Both are NULL if all its blocks come from malloc. */
	bool (*wrap)(void);
	void (*unwrap)(void);
};

extern const struct interpreter interpreter_python, interpreter_ruby;

/* For the agent that is attached to a program while it runs; in others all this happens by itself. */
void interpreter_start(void);  /* when the agent is on */
void interpreter_stop(void);   /* takes back what was put in the program's way */
void interpreter_forked(void); /* in a child */

#endif
