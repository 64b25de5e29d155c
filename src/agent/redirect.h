/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leading functions of the executable to ours by a jump in the place of their first instructions.
 *
 *	malloc:  jmp stub ──> stub: jmp hook		near the executable, in one mapping:
 *	         ...	  <── moved: what the jump has	stub and moved, for each function
 *	                      overwritten, jmp malloc + n
 *
 * The moved instructions are the function underneath the hook. Only while the process has one thread.
 */
#ifndef MAYFLY_REDIRECT_H
#define MAYFLY_REDIRECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct redirected {
	uint8_t *entry;
	size_t size;	  /* of its code */
	void *ours;	  /* what is called instead */
	void *underneath; /* set: does what the function did */
	uint8_t original[8];
};

/* All of them or none; once, and the list must stay. False: the code of one is not understood, or may
 * not be changed. */
bool redirect_functions(struct redirected *list, size_t count);

/* What does what the function did: it, if it has not been led to ours. */
void *redirect_underneath(void *function);

#endif
