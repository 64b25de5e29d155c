/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which frames are not the user's own code: the allocator's interface (operator new,
 * std::allocator, malloc), and what the user wants to hide.
 */
#ifndef MAYFLY_ALLOCATOR_FRAMES_H
#define MAYFLY_ALLOCATOR_FRAMES_H

#include <mayfly/trace.h>

/* Frames that are left out of all stacks: those that match the user's pattern and, unless
 * all_frames, those of the allocator's interface. */
struct hidden_frames {
	struct mayfly_match pattern; /* .matches may be NULL */
	bool all_frames;
};

/* text: a function, or the path of a file or module. */
bool is_allocator_frame(const char *text);

struct mayfly_match hidden_frames_match(struct hidden_frames *hidden);

#endif
