/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which frames are not the user's own code: the allocator's interface (operator new,
 * std::allocator, malloc), and what the user wants to hide.
 */
#ifndef MAYFLY_ALLOCATOR_FRAMES_H
#define MAYFLY_ALLOCATOR_FRAMES_H

#include <mayfly/trace.h>

/* Whose frames a user wants to see. */
enum frames_choice {
	FRAMES_USUAL, /* of a command: OWN, or all but those of the allocator's interface */
	FRAMES_OWN,
	FRAMES_PYTHON, /* of the interpreted language, whoever wrote them */
	FRAMES_ALL,
};

/* Frames that are left out of all stacks: those that match the user's pattern and, unless
 * FRAMES_ALL, those of the allocator's interface. */
struct hidden_frames {
	struct mayfly_match pattern; /* .matches may be NULL */
	enum frames_choice frames;
};

/* text: a function, or the path of a file or module. */
bool is_allocator_frame(const char *text);

struct mayfly_match hidden_frames_match(struct hidden_frames *hidden);

#endif
