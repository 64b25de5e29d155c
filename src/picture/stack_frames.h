/* SPDX-License-Identifier: Apache-2.0 */
/* The frames of a thread's stack, unwound from the image of its process. */
#ifndef MAYFLY_STACK_FRAMES_H
#define MAYFLY_STACK_FRAMES_H

#include "picture/loaded_modules.h"

#define STACK_FRAMES_MOST 512u

#define STACK_KEPT 6u /* registers that a function must leave as they were */

struct stack_frame {
	uint64_t pc; /* in the function: one less than the return address of a caller */
	uint64_t sp;
	uint64_t kept[STACK_KEPT]; /* 0: not known */
};

struct stack_frames;

/* NULL: nothing can be unwound. Both must outlive it. */
struct stack_frames *stack_frames_begin(struct memory_source *s, const struct loaded_modules *m);
/* The frames of the thread, innermost first; returns how many. */
size_t stack_frames_walk(struct stack_frames *f, size_t thread,
			 struct stack_frame frame[STACK_FRAMES_MOST]);
void stack_frames_end(struct stack_frames *f);

#endif
